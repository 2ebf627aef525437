package import Bytes
package import Vocabulary

/// The progress of a rebalance per node, bucket and direction, as tasks and consoles show it.
///
/// - Shown progress never falls: neither with a new plan, nor if a build restarts, nor with a new
///   leader. A new leader starts at the agreed mark's limit, and its own moves share the rest.
/// - A node's progress is that of the moves it takes part in, by weight.
package struct RebalanceProgress: Hashable, Sendable {
    /// Data that moves to a node, or from it.
    package struct Direction: Hashable, Sendable {
        package var documentsTotal: UInt64 = 0
        package var documentsTransferred: UInt64 = 0
        package var activeVBucketsLeft = 0
        package var replicaVBucketsLeft = 0

        package init() {}
    }

    /// The data that moves to and from one node.
    package struct NodeDetail: Hashable, Sendable {
        package var ingoing = Direction()
        package var outgoing = Direction()

        package init() {}
    }

    /// A move and the progress of it.
    private struct MoveRecord: Hashable, Sendable {
        var move: PlannedMove
        var sent: UInt64 = 0
        var isDone = false

        /// In the unit of `PlannedMove.weight`.
        var done: UInt64 {
            if isDone { return move.weight }
            return min(sent, move.items) * UInt64(move.builders.count)
        }
    }

    /// A sum of weights: of finished work and of all work.
    private struct Sum: Hashable, Sendable {
        var done: UInt64 = 0
        var all: UInt64 = 0

        /// 1 if there is no work.
        var fraction: Double { all == 0 ? 1 : Double(done) / Double(all) }
    }

    package let bucketsCount: Int
    /// The bucket that is being moved; nil before the first one.
    package private(set) var bucket: String?
    /// From 1 on; 0 before the first bucket.
    package private(set) var bucketNumber = 0
    private var moves: [VBucketID: MoveRecord] = [:]
    private var sum = Sum()
    private var sums: [NodeNumber: Sum] = [:]
    let nodes: [NodeNumber]
    /// The agreed mark when this leader started: an earlier leader may have shown up to its limit.
    private let before: RebalanceMark
    private var shownPerNode: [NodeNumber: Double] = [:]
    private var shown: Double

    /// - Parameters:
    ///   - nodes: All nodes that take part, ejected ones included.
    ///   - bucketsCount: The number of buckets to be moved, one after another.
    ///   - before: The agreed mark when this node started to lead the rebalance.
    package init(
        nodes: [NodeNumber],
        bucketsCount: Int,
        after before: RebalanceMark = RebalanceMark()
    ) {
        self.nodes = nodes.sorted()
        self.bucketsCount = bucketsCount
        self.before = before
        shown = before.limit
        for node in nodes { shownPerNode[node] = before.limit(of: node) }
    }

    /// Starts the next bucket.
    ///
    /// - Parameters:
    ///   - bucket: The bucket's name.
    ///   - number: Its number among the rebalance's buckets, from 1 on; may skip buckets without
    ///     moves.
    ///   - moves: All of its moves.
    package mutating func begin(bucket: String, number: Int, moves: [PlannedMove]) {
        self.bucket = bucket
        bucketNumber = number
        self.moves = [:]
        add(moves)
    }

    /// Replaces the unfinished moves of the present bucket by those of a new plan.
    package mutating func replan(moves: [PlannedMove]) {
        self.moves = self.moves.filter(\.value.isDone)
        add(moves)
    }

    private mutating func add(_ new: [PlannedMove]) {
        for move in new { moves[move.vBucket] = MoveRecord(move: move) }
        sum = Sum()
        sums = [:]
        for record in moves.values {
            sum.done += record.done
            sum.all += record.move.weight
            for node in record.move.nodes {
                sums[node, default: Sum()].done += record.done
                sums[node, default: Sum()].all += record.move.weight
            }
        }
        show(nodes)
    }

    /// Records that this many items were sent to each copy that the move builds.
    package mutating func sent(_ items: UInt64, of vBucket: VBucketID) {
        change(vBucket) { $0.sent = max($0.sent, items) }
    }

    /// Records that the vBucket's move is complete.
    package mutating func finished(_ vBucket: VBucketID) {
        change(vBucket) { $0.isDone = true }
    }

    /// Shown progress over all buckets, in 0...1.
    package var fraction: Double { shown }

    /// Shown progress of a node over all buckets, in 0...1.
    package func fraction(of node: NodeNumber) -> Double { shownPerNode[node] ?? 0 }

    /// A node's share in the present bucket's moves, as far as this leader knows them.
    package func detail(of node: NodeNumber) -> NodeDetail {
        var detail = NodeDetail()
        for record in moves.values {
            let move = record.move
            if move.target.contains(node), move.row.first != node {
                count(record, at: node, isActive: move.target.first == node, in: &detail.ingoing)
            }
            let feeds = move.source == node && !move.builders.isEmpty
            if move.leavers.contains(node) || feeds || move.takesOver && move.source == node {
                count(record, at: node, isActive: move.source == node, in: &detail.outgoing)
            }
        }
        return detail
    }

    /// Counts a move once per direction: its documents if the node builds or sends them, its
    /// vBucket if a copy appears, disappears or changes its role.
    private func count(
        _ record: MoveRecord,
        at node: NodeNumber,
        isActive: Bool,
        in direction: inout Direction
    ) {
        let move = record.move
        let copies = move.source == node ? move.builders.count : 0
        let built = move.builders.contains(node) ? 1 : copies
        direction.documentsTotal += move.items * UInt64(built)
        let sent = record.isDone ? move.items : min(record.sent, move.items)
        direction.documentsTransferred += sent * UInt64(built)
        let stays = move.row.contains(node) && move.target.contains(node)
        if record.isDone || stays && !(move.takesOver && isActive) { return }
        if isActive, move.takesOver {
            direction.activeVBucketsLeft += 1
        } else {
            direction.replicaVBucketsLeft += 1
        }
    }

    private mutating func change(_ vBucket: VBucketID, _ body: (inout MoveRecord) -> Void) {
        guard var record = moves[vBucket] else { return }
        let before = record.done
        body(&record)
        moves[vBucket] = record
        sum.done += record.done - before
        for node in record.move.nodes { sums[node, default: Sum()].done += record.done - before }
        show(record.move.nodes)
    }

    private mutating func show(_ changed: some Sequence<NodeNumber>) {
        shown = max(shown, total(sum, after: before.limit))
        for node in changed {
            let part = total(sums[node] ?? Sum(), after: before.limit(of: node))
            shownPerNode[node] = max(shownPerNode[node] ?? 0, part)
        }
    }

    /// Progress over all buckets, given the present bucket's sum, if the work began at `start`.
    private func total(_ sum: Sum, after start: Double) -> Double {
        let bucketsBefore = Double(max(0, bucketNumber - 1))
        let own = min(1, (bucketsBefore + sum.fraction) / Double(max(1, bucketsCount)))
        return start + (1 - start) * own
    }

    /// The shown progress as a mark, to be proposed.
    package var mark: RebalanceMark {
        RebalanceMark(fraction: shown, parts: nodes.map { ($0, fraction(of: $0)) })
    }
}

extension RebalanceProgress.Direction: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&documentsTotal, "documents")
        try coder.field(&documentsTransferred, "transferred documents")
        try coder.field(&activeVBucketsLeft, "active vBuckets left")
        try coder.field(&replicaVBucketsLeft, "replica vBuckets left")
    }
}
