package import Vocabulary

/// What REST remembers of a bucket beside `BucketSettings`.
package struct BucketOptions: Hashable, Sendable {
    /// What is asked for; no client can tell them apart: none is promised compressed documents, and on
    /// disk all are.
    package enum CompressionMode: String, Sendable {
        case off
        case passive
        case active
    }

    package var compressionMode = CompressionMode.passive

    package init() {}
}

/// Where a running rebalance wants a bucket's copies.
package struct BucketTargets: Hashable, Sendable {
    /// Index of the entry that set them.
    package internal(set) var index: UInt64 = 0
    /// Copies that chains should have when they get there.
    package var copies: UInt8
    /// By vBucket; empty where nothing is to be done.
    package var rows: [NodeChain]

    package init(copies: UInt8, rows: [NodeChain]) {
        self.copies = copies
        self.rows = rows
    }
}

/// Everything the cluster has agreed on about one bucket.
package struct BucketRecord: Hashable, Sendable {
    package internal(set) var settings: BucketSettings
    package internal(set) var options: BucketOptions
    /// By vBucket number; never another count.
    package internal(set) var placements: [VBucketPlacement]
    /// While a rebalance works on this bucket.
    package internal(set) var targets: BucketTargets?
    /// The index of the last command that changed what a client sees of the bucket.
    package internal(set) var rev: UInt64 = 0
    /// Index of the entry that began a flush which has not ended.
    package internal(set) var flush: UInt64?

    init(settings: BucketSettings, options: BucketOptions, placements: [VBucketPlacement]) {
        self.settings = settings
        self.options = options
        self.placements = placements
    }

    package subscript(vBucket: VBucketID) -> VBucketPlacement { placements[Int(vBucket.number)] }

    /// A flush runs, and nobody was chosen since it began: whoever does not answer did not live to
    /// tell that he has anything again.
    package func isBeingEmptied(_ vBucket: VBucketID) -> Bool {
        let placement = self[vBucket]
        return flush == placement.origin && placement.fence == placement.origin
    }

    /// By vBucket: the chains, as planners take them.
    package var chains: [[NodeNumber]] { placements.map(\.chain.nodes) }

    /// Columns of the map beside the active one: while the number of replicas is being changed,
    /// the larger of the two.
    package var replicaColumns: Int {
        placements.reduce(settings.replicas) { max($0, Int($1.copies) - 1) }
    }

    /// Nodes that hold copies, or are to hold some, in the order of their numbers.
    package var holders: [NodeNumber] {
        // Few nodes, a thousand rows that are alike: a set would be slower to ask.
        var nodes: [NodeNumber] = []
        var last = NodeChain()
        func take(_ row: NodeChain) {
            guard row != last else { return }
            last = row
            for node in row where !nodes.contains(node) { nodes.append(node) }
        }
        for placement in placements { take(placement.chain) }
        for row in targets?.rows ?? [] { take(row) }
        return nodes.sorted()
    }

    /// The share of the configured replicas that are in place, of those whose active one is `node`.
    ///
    /// - Parameters:
    ///   - node: Who serves them.
    ///   - silent: Nodes that do not answer: a copy there takes nothing up.
    /// - Returns: From 0 to 1.
    package func replication(ofNode node: NodeNumber, silent: [NodeNumber]) -> Double {
        var (placed, wanted) = (0, 0)
        for placement in placements where placement.chain.first == node {
            let copies = placement.chain.dropFirst().count { !silent.contains($0) }
            placed += min(copies, settings.replicas)
            wanted += settings.replicas
        }
        return wanted == 0 ? 1 : Double(placed) / Double(wanted)
    }
}

/// A bucket that no client sees any more while nodes delete its files.
package struct DeletedBucket: Hashable, Sendable {
    package var name: String
    package var uuid: String
}
