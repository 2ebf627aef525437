internal import Vocabulary

/// What a move knows of its copies, and what they lack for its next step.
struct MoveConditions: Sendable {
    private struct Word: Sendable {
        var report: CopyReport
        var isReady: Bool
    }

    let move: PlannedMove
    let demand: PersistDemand
    private var words: [NodeNumber: Word] = [:]
    var absent: Set<NodeNumber> = []
    /// The active copy's high when all copies had become complete: new ones' disks have to reach it.
    private(set) var caughtUp: Seqno?
    /// The active copy's high when it learned of the second chain.
    private(set) var joint: Seqno?
    /// The former active copy's last word.
    var final: CopyPosition?

    init(_ move: PlannedMove, _ demand: PersistDemand) {
        self.move = move
        self.demand = demand
    }

    /// What was said before carries an old fence.
    mutating func forgetWords() {
        words = [:]
        caughtUp = nil
        joint = nil
    }

    /// What a node that cannot be reached said may be true no more.
    mutating func lose(_ node: NodeNumber) {
        absent.insert(node)
        words[node] = nil
    }

    /// - Returns: Whether the copy is further than before.
    mutating func take(
        _ report: CopyReport,
        of node: NodeNumber,
        jointHigh: Seqno?,
        isReady: Bool,
        at step: MoveStep
    ) -> Bool {
        absent.remove(node)
        let old = words.updateValue(Word(report: report, isReady: isReady), forKey: node)?.report
        if node == move.source { lower(to: report.high, jointHigh, step) }
        // A new leader does not know the last word, but the successor has it and more.
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

    /// The marks stay where they were made: one that grew with each word of the active copy would
    /// never be reached under steady writes.
    ///
    /// They fall where it lost the end of its history in a crash: what is gone cannot be covered.
    private mutating func lower(to high: Seqno, _ jointHigh: Seqno?, _ step: MoveStep) {
        if let mark = caughtUp { caughtUp = min(mark, high) }
        if let mark = joint {
            joint = min(mark, high)
        } else if step == .covering {
            joint = jointHigh
        }
    }

    /// Notes the mark for the disks when all copies are complete for the first time.
    mutating func isCaughtUp() -> Bool {
        if caughtUp == nil, obstacle(at: .building, tries: 0) == nil { caughtUp = activeHigh }
        return caughtUp != nil && obstacle(at: .building, tries: 0) == nil
    }

    /// The active copy stopped for whoever asked it to hand over, and nobody took over: it has to
    /// be told to serve again.
    var isOrphaned: Bool {
        guard let source = move.source, let word = words[source] else { return false }
        return word.report.state == .pending || word.report.state == .dead
    }

    private var activeHigh: Seqno? {
        move.source.flatMap { words[$0]?.report.high }
    }

    /// The first thing that the move waits for at `step`; nil where it waits for no copy.
    func obstacle(at step: MoveStep, tries: Int) -> MoveObstacle? {
        guard let source = move.source, let successor = move.target.first else { return nil }
        // Everything is agreed on by then: only who took over has to write yet.
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
            guard let final, let report = words[successor]?.report, report.state == .active
            else { return obstacle(step, successor, .hasNotAnswered) }
            let missing = missing(report.persisted, of: final.covered)
            if demand != .ephemeral, missing > 0 {
                return obstacle(step, successor, .notOnDisk(items: missing))
            }
        case .ended: return nil
        }
        return nil
    }

    /// What a copy lacks before a second chain may count it.
    private func buildCause(_ node: NodeNumber, _ high: Seqno) -> MoveObstacle.Cause? {
        guard let word = words[node] else { return .hasNotAnswered }
        if !word.report.protects || !hasCaughtUp(word.report) { return .notIntact }
        let behind = missing(word.report.position.covered, of: high)
        if behind > Limits.caughtUpLagItemsMax { return .behind(items: behind) }
        if move.builders.contains(node), demand != .ephemeral, let mark = caughtUp {
            let unwritten = missing(word.report.persisted, of: mark)
            if unwritten > 0 { return .notOnDisk(items: unwritten) }
        }
        return word.isReady ? nil : .notReady
    }

    /// What a copy lacks before the second chain may count alone.
    private func coverCause(_ node: NodeNumber, _ joint: Seqno) -> MoveObstacle.Cause? {
        guard let word = words[node] else { return .hasNotAnswered }
        if node != move.source {
            if !hasCaughtUp(word.report) { return .notIntact }
            let behind = missing(word.report.position.covered, of: joint)
            if behind > 0 { return .behind(items: behind) }
        }
        let isOnDisk =
            demand == .majority || demand == .active && node == move.target.first
        let unwritten = isOnDisk ? missing(word.report.persisted, of: joint) : 0
        return unwritten > 0 ? .notOnDisk(items: unwritten) : nil
    }

    /// What it has is of the history that the active copy goes on with.
    ///
    /// An active copy that was alone serves at once after a crash, without what it had not written
    /// and others took from it: until they heard of that they take that for what there is.
    private func hasCaughtUp(_ report: CopyReport) -> Bool {
        let active = move.source.flatMap { words[$0]?.report }
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
