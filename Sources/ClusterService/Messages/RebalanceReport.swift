internal import Bytes
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
    /// What the rebalance waits for, as a sentence for an operator; nil if nothing is known.
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

extension RebalanceReport: PeerPayload {
    /// Fractions are encoded in millionths.
    fileprivate static let unit = 1_000_000.0

    init?(_ reader: inout ByteReader) {
        self.init()
        guard let fraction = reader.number(unit: Self.unit), let bucket = reader.text(),
            let number = reader.leb(Int.self), let count = reader.leb(Int.self),
            let nodes = reader.all(Node.self), let obstacle = reader.text()
        else { return nil }
        self.fraction = fraction
        self.bucket = bucket.isEmpty ? nil : bucket
        bucketNumber = number
        bucketsCount = count
        self.nodes = nodes
        self.obstacle = obstacle.isEmpty ? nil : obstacle
    }

    func append(to writer: ByteWriter) {
        writer.append(fraction, unit: Self.unit)
        writer.append(counted: bucket ?? "")
        writer.append(leb: bucketNumber)
        writer.append(leb: bucketsCount)
        writer.append(all: nodes)
        writer.append(counted: obstacle ?? "")
    }
}

extension RebalanceReport.Node: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let node = reader.node(),
            let fraction = reader.number(unit: RebalanceReport.unit),
            let ingoing = reader.record(RebalanceProgress.Direction.self),
            let outgoing = reader.record(RebalanceProgress.Direction.self)
        else { return nil }
        self.node = node
        self.fraction = fraction
        detail = RebalanceProgress.NodeDetail()
        detail.ingoing = ingoing
        detail.outgoing = outgoing
    }

    func append(to writer: ByteWriter) {
        writer.append(node)
        writer.append(fraction, unit: RebalanceReport.unit)
        writer.append(record: detail.ingoing)
        writer.append(record: detail.outgoing)
    }
}

extension RebalanceProgress.Direction: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let total = reader.leb128(), let sent = reader.leb128(),
            let active = reader.leb(Int.self), let replica = reader.leb(Int.self)
        else { return nil }
        self.init()
        documentsTotal = total
        documentsTransferred = sent
        activeVBucketsLeft = active
        replicaVBucketsLeft = replica
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: documentsTotal)
        writer.append(leb: documentsTransferred)
        writer.append(leb: activeVBucketsLeft)
        writer.append(leb: replicaVBucketsLeft)
    }
}
