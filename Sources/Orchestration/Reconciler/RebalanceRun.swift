internal import Vocabulary

/// The state of the rebalance that this node leads, for requests at any time.
package struct RebalanceRun: Sendable {
    /// The parts of a rebalance, in order.
    enum Stage: Sendable {
        /// Moves the vBuckets of one bucket after another.
        case moving
        /// Waits until clients that learned of the last moves have the answers to their earlier requests.
        case waitingForClients
        /// Removes gracefully failed-over nodes from service.
        case failingOver
        /// All moves are done: nodes to be removed first lose their votes, and leadership.
        case retiring
        /// The end is proposed.
        case ending(RebalanceOutcome.Ending)
    }

    /// The plans of one bucket, repeated while a plan is overtaken by other changes.
    struct Planning: Sendable {
        var pauseNanoseconds: UInt64 = 100_000_000
        var isFirst = true
        var passes = 5
        var waits = RowWaits()
        /// Whether the answers for the next plan are under way.
        var isAsking = false
        /// Whether vBuckets wait for something before they can be moved.
        var isWaiting = false
        var nextAt: UInt64 = 0
    }

    /// The rebalance that is carried out here; nil if none is.
    package internal(set) var id: String?
    package internal(set) var progress: RebalanceProgress?
    /// The obstacle of the slowest move; nil if none is known.
    package internal(set) var obstacle: String?
    /// A progress mark is being proposed.
    var isMarking = false
    var standstill: Standstill
    var mustStop = false
    var stage = Stage.moving
    /// The buckets that are still to be moved, the present one first, and the number of all.
    var buckets: ArraySlice<String> = []
    var planning = Planning()
    var moves: BucketMoves?
    /// When the last vBucket got another owner, here or under the previous leader.
    var handedOverAt: UInt64?

    init(id: String? = nil, now: UInt64 = 0) {
        self.id = id
        standstill = Standstill(now: now)
    }

    /// The vBuckets of a bucket between two owners, as planned: they need no promotion.
    func handedOver(ofBucket name: String) -> Set<VBucketID> {
        guard let moves, moves.bucket == name else { return [] }
        return moves.handedOver
    }
}

extension LeaderView {
    func moves(
        of bucket: BucketRecord,
        _ record: RebalanceRecord,
        _ reports: CopyReports
    ) -> [PlannedMove] {
        let awaited = state.awaited
        var moves: [PlannedMove] = []
        for ((vBucket, placement), planned) in zip(bucket.numberedPlacements, plan(bucket, record))
        {
            guard placement.isConfirmed, placement.former == nil || placement.isJoint,
                !placement.isLeft(to: awaited)
            else { continue }
            // Finish a move that a previous leader began, whatever its target.
            let target = placement.isJoint ? placement.next : planned
            guard !target.isEmpty, placement.chain != target else { continue }
            // The number of documents is estimated by the seqno of the active copy.
            let items = placement.chain.first.flatMap { reports[$0]?[vBucket]?.high.value }
            moves.append(
                PlannedMove(
                    vBucket,
                    from: placement.chain.nodes,
                    to: target.nodes,
                    items: items ?? 0
                )
            )
        }
        return moves
    }

    private func plan(_ bucket: BucketRecord, _ record: RebalanceRecord) -> [NodeChain] {
        let kept = record.kept.compactMap { state.node(number: $0) }
        let plan = RebalancePlan(
            rows: bucket.chains,
            nodes: kept.map { PlacementNode($0.number, group: $0.group) },
            copies: bucket.settings.replicas + 1,
            formers: bucket.placements.map { placement in
                placement.rowBefore.filter { record.delta.contains($0) }
            }
        )
        return plan.targets.map { NodeChain($0) ?? NodeChain() }
    }

    func sentence(_ obstacle: RowObstacle, _ bucket: String) -> String {
        obstacle.sentence(bucket: bucket, naming: { name($0) })
    }

    /// A sentence about the nodes of the start that were failed over during the rebalance; empty if there
    /// are none.
    func continuedWithout(_ record: RebalanceRecord, of nodes: [NodeNumber]) -> String {
        guard record.kind == .rebalance else { return "" }
        let gone = nodes.filter { !record.kept.contains($0) && !record.ejected.contains($0) }
        guard !gone.isEmpty else { return "" }
        return "It continued without \(names(gone)), which was failed over during the rebalance."
    }
}

/// Decides when to log that a rebalance makes no progress: after a time without progress of any
/// move, and again after each such time.
package struct Standstill: Hashable, Sendable {
    private var movedAt: UInt64
    private var loggedAt: UInt64

    /// - Parameter now: Monotonic time in nanoseconds.
    package init(now: UInt64) {
        movedAt = now
        loggedAt = now
    }

    /// Records progress of a move.
    package mutating func moved(now: UInt64) { self = Standstill(now: now) }

    /// - Returns: Seconds since the last progress, if a log line is due; otherwise nil.
    package mutating func secondsToLog(now: UInt64) -> UInt64? {
        let silence = Limits.rebalanceSilenceMilliseconds * 1_000_000
        guard now >= loggedAt + silence else { return nil }
        loggedAt = now
        return (now - movedAt) / 1_000_000_000
    }
}
