package import Bytes
package import Vocabulary

/// Bucket options that only REST shows; no other component reads them.
package struct BucketOptions: Hashable, Sendable, CodedFields {
    /// The requested mode.
    ///
    /// The modes behave alike: no client is sent compressed documents, and all documents on disk
    /// are compressed.
    package enum CompressionMode: String, Sendable {
        case off
        case passive
        case active
    }

    package var compressionMode = CompressionMode.passive

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&compressionMode, "compression mode")
    }
}

/// The chains that a running rebalance builds for a bucket.
package struct BucketTargets: Hashable, Sendable, CodedFields {
    /// Index of the entry that set these targets.
    package internal(set) var index: UInt64 = 0
    /// Copies per vBucket after the move: 1 + replicas.
    package var copies: UInt8 = 0
    /// Target chain by vBucket; empty if the vBucket does not move.
    package var rows: [NodeChain] = []

    package init() {}

    package init(copies: UInt8, rows: [NodeChain]) {
        self.copies = copies
        self.rows = rows
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&index, "index")
        try coder.field(&copies, "copies")
        try coder.field(&rows, "rows")
    }
}

/// Everything the cluster has agreed on about one bucket.
package struct BucketRecord: Hashable, Sendable, CodedFields {
    package internal(set) var settings = BucketSettings()
    package internal(set) var options = BucketOptions()
    /// By vBucket number; the count never changes.
    package internal(set) var placements: [VBucketPlacement] = []
    /// Nil unless a rebalance works on this bucket.
    package internal(set) var targets: BucketTargets?
    /// Index of the last entry that changed what clients see of the bucket.
    package internal(set) var rev: UInt64 = 0
    /// Index of the entry that began the running bucket flush; nil if none runs.
    package internal(set) var flush: UInt64?
    /// Sorted by the bytes of their names.
    package internal(set) var designDocuments: [DesignDocument] = []
    /// Index of the last entry that changed a design document; 0 if none did.
    package internal(set) var designRevision: UInt64 = 0

    package init() {}

    /// The vBuckets in order, each with its placement.
    package var numberedPlacements: some Sequence<(VBucketID, VBucketPlacement)> {
        placements.enumerated().lazy.map { (VBucketID(UInt16($0)), $1) }
    }

    package subscript(vBucket: VBucketID) -> VBucketPlacement { placements[Int(vBucket.number)] }

    /// The design document with exactly this name, without `_design/`; nil if there is none.
    package func designDocument(named name: String) -> DesignDocument? {
        designDocuments.first { $0.isNamed(name) }
    }

    /// Adds a design document, in place of the one with its name.
    mutating func replace(_ document: DesignDocument) {
        let place = designDocuments.firstIndex {
            !$0.name.utf8.lexicographicallyPrecedes(document.name.utf8)
        }
        guard let place else { return designDocuments.append(document) }
        if designDocuments[place].isNamed(document.name) {
            designDocuments[place] = document
        } else {
            designDocuments.insert(document, at: place)
        }
    }

    /// Whether a flush runs and the vBucket has had no promotion since it began.
    ///
    /// A failed-over node that does not answer then counts as empty: it has reported no data since
    /// the flush.
    package func isBeingEmptied(_ vBucket: VBucketID) -> Bool {
        let placement = self[vBucket]
        return flush == placement.origin && placement.fence == placement.origin
    }

    /// The chain of each vBucket, by number, in the form that `RebalancePlan` expects.
    package var chains: [[NodeNumber]] { placements.map(\.chain.nodes) }

    /// Replica columns of the cluster map.
    ///
    /// While the number of replicas changes, the larger number.
    package var replicaColumns: Int {
        placements.reduce(settings.replicas) { max($0, Int($1.copies) - 1) }
    }

    /// Nodes in a chain or in a target, sorted by number.
    package var holders: [NodeNumber] {
        // There are few nodes and a thousand similar rows: an array is faster than a set.
        var nodes: [NodeNumber] = []
        var last = NodeChain()
        func add(_ row: NodeChain) {
            guard row != last else { return }
            last = row
            for node in row where !nodes.contains(node) { nodes.append(node) }
        }
        for placement in placements { add(placement.chain) }
        for row in targets?.rows ?? [] { add(row) }
        return nodes.sorted()
    }

    /// The share of the configured replicas that exist, of the vBuckets that `node` is active for.
    ///
    /// - Parameters:
    ///   - node: The active node.
    ///   - silent: Nodes that do not answer: their copies receive no changes and are not counted.
    /// - Returns: From 0 to 1; 1 if no replica is wanted.
    package func replication(ofNode node: NodeNumber, silent: [NodeNumber]) -> Double {
        var (placed, wanted) = (0, 0)
        for placement in placements where placement.chain.first == node {
            let copies = placement.chain.dropFirst().count { !silent.contains($0) }
            placed += min(copies, settings.replicas)
            wanted += settings.replicas
        }
        return wanted == 0 ? 1 : Double(placed) / Double(wanted)
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&settings, "settings")
        try coder.field(&options, "options")
        try coder.field(&rev, "revision")
        try coder.optional(&flush, "flush")
        try coder.field(&targets, "targets")
        var fence: UInt64 = 0
        let blank = VBucketPlacement(chain: NodeChain(), copies: 0, index: 0)
        try coder.list(&placements, "vBucket", blank: blank) { coder, entry throws(CodingFailure) in
            try entry.code(&coder, after: fence)
            fence = entry.fence
        }
        try coder.require(placements.count == settings.vBuckets, "vBuckets")
        try coder.require(targets.map { $0.rows.count == placements.count } ?? true, "targets")
        try coder.field(&designRevision, "revision of the design documents")
        try coder.field(&designDocuments, "design documents")
    }
}

/// A deleted bucket, hidden from clients, whose files the nodes are still deleting.
package struct DeletedBucket: Hashable, Sendable {
    package var name: String
    package var uuid: String
}

extension DeletedBucket: CodedFields {
    package init() { self.init(name: "", uuid: "") }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&uuid, "UUID")
    }
}
