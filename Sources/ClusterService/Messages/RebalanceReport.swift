package import Bytes
package import Orchestration
package import Vocabulary

/// The progress of a rebalance, as its leader reports it to the other nodes.
package struct RebalanceReport: Hashable, Sendable {
    package struct Node: Hashable, Sendable {
        package var node: NodeNumber
        /// The completed part of the node's moves, from 0 to 1.
        package var fraction: Double
        package var detail: RebalanceProgress.NodeDetail
    }

    /// The completed part of the rebalance, from 0 to 1.
    package var fraction = 0.0
    /// The bucket whose vBuckets are being moved, its number in their order from 1, and the number
    /// of buckets.
    package var bucket: String?
    package var bucketNumber = 0
    package var bucketsCount = 0
    package var nodes: [Node] = []
    /// The obstacle of the rebalance, as a sentence for an operator; nil if none is known.
    package var obstacle: String?

    package init() {}

    /// The report from the agreed record: shown if there is no leader, or if the leader has not
    /// begun the rebalance.
    init(_ record: RebalanceRecord) {
        fraction = record.reached.fraction
        nodes = (record.kept + record.ejected).sorted().map { node in
            Node(
                node: node,
                fraction: record.reached.fraction(of: node),
                detail: RebalanceProgress.NodeDetail()
            )
        }
    }

    /// The leader's own progress, limited to what the agreed mark allows to show.
    package init(_ progress: RebalanceProgress, of record: RebalanceRecord, obstacle: String?) {
        fraction = min(progress.fraction, record.reached.limit)
        bucket = progress.bucket
        bucketNumber = progress.bucketNumber
        bucketsCount = progress.bucketsCount
        self.obstacle = obstacle
        nodes = (record.kept + record.ejected).sorted().map { node in
            Node(
                node: node,
                fraction: min(progress.fraction(of: node), record.reached.limit(of: node)),
                detail: progress.detail(of: node)
            )
        }
    }

    /// The report to show: the leader's or the last shown one, with no fraction lower than before.
    ///
    /// - Parameters:
    ///   - told: The leader's report; nil if the leader did not answer.
    ///   - shown: The last report that this node showed; nil if there is none.
    ///   - record: The agreed record, whose fractions are the minimum.
    package init(
        _ told: RebalanceReport?,
        after shown: RebalanceReport?,
        of record: RebalanceRecord
    ) {
        self = told ?? shown ?? RebalanceReport(record)
        if told == nil { obstacle = nil }
        if let shown { raise(to: shown) }
        raise(to: RebalanceReport(record))
    }

    private mutating func raise(to other: RebalanceReport) {
        fraction = max(fraction, other.fraction)
        for place in nodes.indices {
            let known = other.nodes.first { $0.node == nodes[place].node }
            nodes[place].fraction = max(nodes[place].fraction, known?.fraction ?? 0)
        }
    }
}

extension RebalanceReport: ExtensibleFields {
    /// Fractions are encoded in millionths.
    fileprivate static let unit = 1_000_000.0

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.parts(&fraction, per: Self.unit, "fraction")
        try coder.optional(&bucket, "bucket")
        try coder.field(&bucketNumber, "bucket's number")
        try coder.field(&bucketsCount, "buckets")
        try coder.field(&nodes, "nodes")
        try coder.optional(&obstacle, "obstacle")
    }
}

extension RebalanceReport.Node: ExtensibleFields {
    package init() {
        self.init(node: NodeNumber(0), fraction: 0, detail: RebalanceProgress.NodeDetail())
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&node, "node")
        try coder.parts(&fraction, per: RebalanceReport.unit, "node's fraction")
        try coder.field(&detail.ingoing, "ingoing")
        try coder.field(&detail.outgoing, "outgoing")
    }
}
