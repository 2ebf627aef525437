package import Vocabulary

/// How far a rebalance is: per node, per bucket, per direction, as tasks and consoles show it.
///
/// - Shown progress never falls: not when a plan is made anew, nor when a build starts again, nor
///   when another node leads: what it takes over is all that its own moves are a part of the rest of.
/// - A node's progress is that of the moves it takes part in, by weight.
package struct RebalanceProgress: Hashable, Sendable {
    /// What goes to a node, or leaves it.
    package struct Direction: Hashable, Sendable {
        package var documentsTotal: UInt64 = 0
        package var documentsTransferred: UInt64 = 0
        package var activeVBucketsLeft = 0
        package var replicaVBucketsLeft = 0

        package init() {}
    }

    package struct NodeDetail: Hashable, Sendable {
        package var ingoing = Direction()
        package var outgoing = Direction()

        package init() {}
    }

    private struct MoveRecord: Hashable, Sendable {
        var move: PlannedMove
        var sent: UInt64 = 0
        var isDone = false

        /// In the units of its weight.
        var done: UInt64 {
            if isDone { return move.weight }
            return min(sent, move.items) * UInt64(move.builders.count)
        }
    }

    /// Weights: what is done, and all there is.
    private struct Sum: Hashable, Sendable {
        var done: UInt64 = 0
        var all: UInt64 = 0

        /// Where there is nothing to do, all is done.
        var fraction: Double { all == 0 ? 1 : Double(done) / Double(all) }
    }

    package let bucketsCount: Int
    /// The one that is being moved; those before it are done.
    package private(set) var bucket: String?
    /// From 1 on; 0 before the first bucket.
    package private(set) var bucketNumber = 0
    private var moves: [VBucketID: MoveRecord] = [:]
    private var sum = Sum()
    private var sums: [NodeNumber: Sum] = [:]
    private let nodes: [NodeNumber]
    /// What whoever led before may have shown.
    private let before: RebalanceMark
    private var shownPerNode: [NodeNumber: Double] = [:]
    private var shown: Double

    /// - Parameters:
    ///   - nodes: Everybody who takes part, those that leave included.
    ///   - bucketsCount: Buckets that are to be moved, one after another.
    ///   - before: What was agreed on when this node began to lead it.
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

    /// - Parameters:
    ///   - bucket: The one that is moved from now on.
    ///   - number: Its place, from 1 on: buckets that need no moves are passed over.
    ///   - moves: All of its moves.
    package mutating func begin(bucket: String, number: Int, moves: [PlannedMove]) {
        self.bucket = bucket
        bucketNumber = number
        self.moves = [:]
        take(moves)
    }

    /// The plan of the present bucket was made anew; what is done stays done.
    package mutating func replan(moves: [PlannedMove]) {
        self.moves = self.moves.filter(\.value.isDone)
        take(moves)
    }

    private mutating func take(_ new: [PlannedMove]) {
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

    /// So many items of each copy that is being built were sent.
    package mutating func sent(_ items: UInt64, of vBucket: VBucketID) {
        change(vBucket) { $0.sent = max($0.sent, items) }
    }

    package mutating func finished(_ vBucket: VBucketID) {
        change(vBucket) { $0.isDone = true }
    }

    /// Of all buckets, in 0...1.
    package var fraction: Double { shown }

    /// Of all buckets, by node, in 0...1.
    package func fraction(of node: NodeNumber) -> Double { shownPerNode[node] ?? 0 }

    /// Of the present bucket, as far as this leader moved it.
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

    /// Counts a move once per direction: its documents where they are built or read, its vBucket
    /// where a copy comes, goes, or changes its role.
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

    /// Of all buckets, where this one is so far, as a part of what was left after `start`.
    private func total(_ sum: Sum, after start: Double) -> Double {
        let bucketsBefore = Double(max(0, bucketNumber - 1))
        let own = min(1, (bucketsBefore + sum.fraction) / Double(max(1, bucketsCount)))
        return start + (1 - start) * own
    }

    /// What is shown, to be agreed on.
    package var mark: RebalanceMark {
        RebalanceMark(fraction: shown, parts: nodes.map { ($0, fraction(of: $0)) })
    }
}
