internal import Vocabulary

/// The latest reports of a move's copies, and what these copies lack for the next step.
struct MoveConditions: Sendable {
    /// The newest report of one copy.
    private struct CopyState: Sendable {
        var report: CopyReport
        var isReady: Bool
    }

    let move: PlannedMove
    let demand: PersistDemand
    private var copies: [NodeNumber: CopyState] = [:]
    var absent: Set<NodeNumber> = []
    /// The active copy's high seqno when all copies first were complete: new copies have to persist
    /// up to it.
    ///
    /// Nil before that.
    private(set) var caughtUp: Seqno?
    /// The active copy's high seqno when it learned of the target chain; nil before that.
    private(set) var joint: Seqno?
    /// The former active copy's final position; nil before it stopped.
    var final: CopyPosition?

    init(_ move: PlannedMove, _ demand: PersistDemand) {
        self.move = move
        self.demand = demand
    }

    /// Drops all reports: they have an old fence.
    mutating func forgetReports() {
        copies = [:]
        caughtUp = nil
        joint = nil
    }

    /// Marks a node as unreachable and drops its report, which may be outdated.
    mutating func lose(_ node: NodeNumber) {
        absent.insert(node)
        copies[node] = nil
    }

    /// Records a report.
    ///
    /// - Returns: Whether the copy made progress since its last report.
    mutating func record(
        _ report: CopyReport,
        of node: NodeNumber,
        jointHigh: Seqno?,
        isReady: Bool,
        at step: MoveStep
    ) -> Bool {
        absent.remove(node)
        let copy = CopyState(report: report, isReady: isReady)
        let old = copies.updateValue(copy, forKey: node)?.report
        if node == move.source { lower(to: report.high, jointHigh, step) }
        // A new leader does not know the final position, but the successor's includes it.
        if step == .cleaning, final == nil, node == move.target.first, report.state == .active {
            final = CopyPosition(
                branchFence: report.position.branchFence,
                covered: report.high
            )
        }
        guard let old else { return true }
        return report.position > old.position || report.persisted > old.persisted
            || report.hasCaughtUp && !old.hasCaughtUp
    }

    /// Lowers the marks to the active copy's high seqno if that fell: changes lost in a crash
    /// cannot be covered.
    ///
    /// Sets `joint` when the active copy first reports it.
    ///
    /// The marks never rise: under steady writes, copies would never reach a rising mark.
    private mutating func lower(to high: Seqno, _ jointHigh: Seqno?, _ step: MoveStep) {
        if let mark = caughtUp { caughtUp = min(mark, high) }
        if let mark = joint {
            joint = min(mark, high)
        } else if step == .covering {
            joint = jointHigh
        }
    }

    /// Whether all copies are complete; sets `caughtUp` when they first are.
    mutating func isCaughtUp() -> Bool {
        if caughtUp == nil, obstacle(at: .building, tries: 0) == nil { caughtUp = activeHigh }
        return caughtUp != nil && obstacle(at: .building, tries: 0) == nil
    }

    /// Whether the active copy stopped for a hand-over and no copy took over: it has to be resumed.
    var isOrphaned: Bool {
        guard let source = move.source, let copy = copies[source] else { return false }
        return copy.report.state == .pending || copy.report.state == .dead
    }

    private var activeHigh: Seqno? {
        move.source.flatMap { copies[$0]?.report.high }
    }

    /// The first condition that the move waits for at `step`; nil if it waits for no copy.
    func obstacle(at step: MoveStep, tries: Int) -> MoveObstacle? {
        guard let source = move.source, let successor = move.target.first else { return nil }
        // In the last step only the new active copy matters: it has yet to persist.
        let missed = step == .cleaning ? absent.intersection([successor]) : absent
        if let node = missed.min() { return obstacle(step, node, .nodeAbsent) }
        switch step {
        case .building, .joining:
            guard let high = activeHigh else { return obstacle(step, source, .hasNotAnswered) }
            for node in move.target where node != source {
                if let cause = buildCause(node, high) { return obstacle(step, node, cause) }
            }
        case .covering, .finishing:
            guard let joint else { return obstacle(step, source, .hasNotAnswered) }
            for node in move.target {
                if let cause = coverCause(node, joint) { return obstacle(step, node, cause) }
            }
        case .waiting:
            return obstacle(step, source, tries > 0 ? .prepares(tries: tries) : .noTurn)
        case .handingOver, .reverting: return obstacle(step, source, .hasNotAnswered)
        case .takingOver: return obstacle(step, successor, .hasNotAnswered)
        case .paused: return obstacle(step, source, .gaveUp)
        case .cleaning:
            guard move.takesOver else { return nil }
            guard let final, let report = copies[successor]?.report, report.state == .active
            else { return obstacle(step, successor, .hasNotAnswered) }
            let missing = missing(report.persisted, of: final.covered)
            if demand != .ephemeral, missing > 0 {
                return obstacle(step, successor, .notOnDisk(items: missing))
            }
        case .ended: return nil
        }
        return nil
    }

    /// The unmet condition of a copy before the joint phase may begin; nil if there is none.
    private func buildCause(_ node: NodeNumber, _ high: Seqno) -> MoveObstacle.Cause? {
        guard let copy = copies[node] else { return .hasNotAnswered }
        if !copy.report.protects || !hasCaughtUp(copy.report) { return .notIntact }
        let behind = missing(copy.report.position.covered, of: high)
        if behind > Limits.caughtUpLagItemsMax { return .behind(items: behind) }
        if move.builders.contains(node), demand != .ephemeral, let mark = caughtUp {
            let unwritten = missing(copy.report.persisted, of: mark)
            if unwritten > 0 { return .notOnDisk(items: unwritten) }
        }
        return copy.isReady ? nil : .notReady
    }

    /// The unmet condition of a copy before the target chain may count alone; nil if there is none.
    private func coverCause(_ node: NodeNumber, _ joint: Seqno) -> MoveObstacle.Cause? {
        guard let copy = copies[node] else { return .hasNotAnswered }
        if node != move.source {
            if !hasCaughtUp(copy.report) { return .notIntact }
            let behind = missing(copy.report.position.covered, of: joint)
            if behind > 0 { return .behind(items: behind) }
        }
        let isOnDisk =
            demand == .majority || demand == .active && node == move.target.first
        let unwritten = isOnDisk ? missing(copy.report.persisted, of: joint) : 0
        return unwritten > 0 ? .notOnDisk(items: unwritten) : nil
    }

    /// Whether the copy caught up, in the present history of the active copy.
    ///
    /// An active copy without peers in its chain serves at once after a crash, without changes that
    /// it had not persisted but had sent to copies being built. Until those learn of the new
    /// history, they report themselves as caught up with the old one.
    private func hasCaughtUp(_ report: CopyReport) -> Bool {
        let active = move.source.flatMap { copies[$0]?.report }
        return report.hasCaughtUp && report.history == active?.history
    }

    private func missing(_ has: Seqno, of wanted: Seqno) -> UInt64 {
        wanted > has ? wanted.value - has.value : 0
    }

    private func obstacle(
        _ step: MoveStep,
        _ node: NodeNumber,
        _ cause: MoveObstacle.Cause
    ) -> MoveObstacle {
        MoveObstacle(vBucket: move.vBucket, step: step, node: node, cause: cause)
    }
}
