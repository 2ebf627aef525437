internal import Vocabulary

/// The state machine of one move: build, joint phase, hand over, clean up.
///
/// Its inputs are events and its outputs are actions. It keeps no state that a new leader cannot
/// derive from the placement and new reports.
///
/// - The joint phase begins only when all copies of the target chain are intact and nearly caught
///   up with the active copy, new copies also on disk.
/// - The target chain counts alone only when all its copies have everything that the active copy
///   had when it learned of that chain.
/// - If a step in between fails, the old chain resumes under a new fence, so late reports are
///   ignored.
package struct MoveProcedure: Sendable {
    private static let millisecond: UInt64 = 1_000_000

    /// The state in which a leader finds a move.
    package enum Beginning: Hashable, Sendable {
        /// Not begun, as far as the placement shows.
        case row
        /// In the joint phase.
        case joint
        /// The takeover is agreed on, and the former active copy is still kept.
        case former
    }

    package private(set) var step: MoveStep
    /// The present fence, which the move's commands name.
    package private(set) var fence: UInt64
    package private(set) var outcome: MoveOutcome?
    private var conditions: MoveConditions
    private var tries = 0
    /// The outcome after a revert; nil if the move is retried.
    private var afterRevert: MoveOutcome?
    private var isStopped = false
    private var times: Times

    /// Monotonic times in nanoseconds.
    private struct Times: Sendable {
        var progressAt: UInt64
        /// The timeout of the present step, or of a wait within it; nil if it has none.
        var due: UInt64?
        /// When a stopped move is aborted or ended; nil unless it was stopped.
        var stopDue: UInt64?
        var retryMilliseconds = Limits.moveRetryMillisecondsMin
    }

    /// - Parameters:
    ///   - move: The planned move; must have a source.
    ///   - fence: The vBucket's present fence.
    ///   - demand: The durability that the bucket's clients use.
    ///   - now: The time.
    ///   - beginning: How far the move is by the vBucket's placement.
    package init(
        _ move: PlannedMove,
        fence: UInt64,
        demand: PersistDemand,
        now: UInt64,
        beginning: Beginning = .row
    ) {
        precondition(move.source != nil, "a vBucket without a copy is made, not moved")
        self.fence = fence
        conditions = MoveConditions(move, demand)
        times = Times(progressAt: now)
        switch beginning {
        case .row: step = .building
        case .joint: step = .covering
        case .former: step = .cleaning
        }
    }

    package var move: PlannedMove { conditions.move }

    /// The first condition that the move waits for; nil if it waits for no copy.
    package var obstacle: MoveObstacle? { conditions.obstacle(at: step, tries: tries) }

    /// Whether reports of its copies can advance the present step.
    package var wantsReports: Bool {
        switch step {
        case .building, .covering, .waiting, .cleaning: true
        case .joining, .finishing, .handingOver, .takingOver, .reverting, .paused, .ended: false
        }
    }

    /// Whether the move is in the joint phase, with no proposal pending.
    package var isJoint: Bool {
        switch step {
        case .covering, .waiting, .handingOver: true
        default: false
        }
    }

    /// Whether the vBucket may have no serving copy because of this move: no promotion is needed.
    package var isHandedOver: Bool {
        switch step {
        case .handingOver, .takingOver, .reverting: true
        default: false
        }
    }

    /// Whether a hand-over was tried more than once.
    package var wasPostponed: Bool { tries > 1 }

    /// Whether the move is ready for its takeover and the scheduler may allow it.
    package func wantsTurn(now: UInt64) -> Bool {
        step == .waiting && now >= times.due ?? 0 && conditions.absent.isEmpty
    }

    /// When to send the next `.time` event; nil if the move has ended.
    package var nextTime: UInt64? {
        if step == .ended { return nil }
        let stalled = times.progressAt + Limits.moveStalledMilliseconds * Self.millisecond
        return [times.due, times.stopDue, stalled].compactMap { $0 }.min()
    }

    /// The phase for the scheduler; a move counts as building until its copies are complete.
    package var phase: MoveSchedule.Running.Phase {
        switch step {
        case .building, .paused: conditions.caughtUp == nil ? .building : .finishing
        case .handingOver, .takingOver: .takingOver
        default: .finishing
        }
    }

    /// The first actions; also after a leader change.
    package mutating func begin() -> [MoveAction] {
        step == .building && !move.builders.isEmpty ? [.build(move.builders)] : []
    }

    /// Handles an event; returns the actions to carry out, in order.
    package mutating func handle(_ event: MoveEvent, now: UInt64) -> [MoveAction] {
        if step == .ended { return [] }
        switch event {
        case .report(let node, let report, let jointHigh, let isReady):
            record(report, of: node, jointHigh, isReady, now)
            return advance(now: now)
        case .applied(let fence): return applied(fence, now: now)
        case .refused: return end(.superseded)
        case .turn:
            guard step == .waiting else { return [] }
            return askHandOver(now: now)
        case .drained(let position, let said):
            guard step == .handingOver, said == fence else { return [] }
            conditions.final = position
            enter(.takingOver, now)
            return [.propose(.takeOver(fence: fence, final: position))]
        case .servesAgain(let said):
            guard step == .handingOver, said == fence else { return [] }
            enter(.waiting, now)
            times.due = now + Limits.handOverRetryMilliseconds * Self.millisecond
            return isStopped ? stopNow(now) : []
        case .cannotServe(let said):
            return step == .cleaning && said == fence ? end(.needsPromotion) : []
        case .stop: return stop(now)
        case .lost(let node):
            if move.nodes.contains(node) { conditions.lose(node) }
            return []
        case .returned(let node):
            conditions.absent.remove(node)
            return advance(now: now)
        case .failedOver(let node): return failedOver(node, now)
        // A move in the joint phase continues: the next plan starts from its result.
        case .planChanged: return step == .building || step == .paused ? end(.needsPlan) : []
        case .time: return handleTime(now)
        }
    }

    // MARK: Reports

    private mutating func record(
        _ report: CopyReport,
        of node: NodeNumber,
        _ jointHigh: Seqno?,
        _ isReady: Bool,
        _ now: UInt64
    ) {
        guard report.vBucket == move.vBucket, report.fence == fence else { return }
        let isFurther = conditions.record(
            report,
            of: node,
            jointHigh: jointHigh,
            isReady: isReady,
            at: step
        )
        if isFurther { times.progressAt = now }
    }

    /// Enters the next step if the reports allow it.
    private mutating func advance(now: UInt64) -> [MoveAction] {
        switch step {
        case .building:
            if isStopped { return stopNow(now) }
            guard conditions.isCaughtUp() else { return [] }
            enter(.joining, now)
            return [.propose(.joint(fence: fence))]
        case .covering, .waiting:
            if conditions.isOrphaned { return revert(.superseded, now) }
            guard step == .covering, obstacle == nil else { return [] }
            if move.takesOver {
                enter(.waiting, now)
                return []
            }
            times.stopDue = nil
            enter(.finishing, now)
            return [.propose(.final(fence: fence))]
        case .cleaning:
            guard obstacle == nil else { return [] }
            let gone = move.leavers
            let former: [MoveAction] =
                move.takesOver ? [.propose(.forgetFormer(fence: fence))] : []
            let drops: [MoveAction] = gone.isEmpty ? [] : [.dropCopies(gone)]
            return former + drops + end(.done)
        default: return []
        }
    }

    // MARK: Proposals

    private mutating func applied(_ newFence: UInt64, now: UInt64) -> [MoveAction] {
        switch step {
        case .joining:
            enter(.covering, now)
            if let outcome = afterRevert { return revert(outcome, now) }
            return isStopped ? stop(now) : []
        case .finishing:
            enter(.cleaning, now)
            return advance(now: now)
        case .takingOver:
            renew(newFence)
            enter(.cleaning, now)
            return []
        case .reverting:
            renew(newFence)
            if let outcome = afterRevert { return end(outcome) }
            return pause(now)
        default: return []
        }
    }

    private mutating func renew(_ newFence: UInt64) {
        precondition(newFence > fence, "a new fence is a later entry")
        fence = newFence
        conditions.forgetReports()
    }

    private mutating func askHandOver(now: UInt64) -> [MoveAction] {
        guard let source = move.source else { return [] }
        tries += 1
        times.stopDue = nil
        enter(.handingOver, now)
        times.due = now + Limits.handOverSilenceMilliseconds * Self.millisecond
        return [
            .askHandOver(
                of: source,
                fence: fence,
                endsPrepares: tries > Limits.handOverTriesMax
            )
        ]
    }

    // MARK: Stops and failures

    private mutating func stop(_ now: UInt64) -> [MoveAction] {
        isStopped = true
        switch step {
        case .building, .paused: return stopNow(now)
        case .covering, .waiting, .cleaning:
            if times.stopDue == nil {
                times.stopDue = now + Limits.stopWaitMilliseconds * Self.millisecond
            }
            return []
        default: return []
        }
    }

    /// Ends the move with the old chain: at once before the joint phase, else by a revert.
    private mutating func stopNow(_ now: UInt64) -> [MoveAction] {
        let until = now + Limits.keptBuildMilliseconds * Self.millisecond
        let outcome = MoveOutcome.stopped(keepBuildsUntilNanoseconds: until)
        switch step {
        // A takeover that is agreed on stays; the next rebalance releases the former copy.
        case .building, .paused, .cleaning: return end(outcome)
        default: return revert(outcome, now)
        }
    }

    private mutating func failedOver(_ node: NodeNumber, _ now: UInt64) -> [MoveAction] {
        guard move.nodes.contains(node) else { return [] }
        conditions.lose(node)
        switch step {
        case .building, .paused: return end(.needsPlan)
        // A promotion replaces the active copy, which changes the fence.
        case _ where node == move.source: return end(.superseded)
        case .covering, .waiting, .handingOver: return revert(.needsPlan, now)
        // One proposal at a time: wait for the result of the pending one.
        case .joining, .reverting:
            afterRevert = .needsPlan
            return []
        // A promotion replaces the new active copy as well.
        case .cleaning: return node == move.target.first ? end(.superseded) : []
        case .finishing, .takingOver, .ended: return []
        }
    }

    private mutating func revert(_ outcome: MoveOutcome?, _ now: UInt64) -> [MoveAction] {
        afterRevert = outcome
        enter(.reverting, now)
        return [.propose(.resume(fence: fence))]
    }

    private mutating func pause(_ now: UInt64) -> [MoveAction] {
        enter(.paused, now)
        tries = 0
        times.due = now + times.retryMilliseconds * Self.millisecond
        times.retryMilliseconds = min(
            times.retryMilliseconds * 2,
            Limits.moveRetryMillisecondsMax
        )
        return isStopped ? stopNow(now) : []
    }

    private mutating func handleTime(_ now: UInt64) -> [MoveAction] {
        if let due = times.stopDue, now >= due {
            times.stopDue = nil
            return stopNow(now)
        }
        let stalled = times.progressAt + Limits.moveStalledMilliseconds * Self.millisecond
        if now >= stalled {
            times.progressAt = now
            switch (step, obstacle) {
            case (.building, let obstacle?), (.cleaning, let obstacle?):
                return end(.failed(obstacle))
            case (.covering, let obstacle?), (.waiting, let obstacle?):
                return revert(.failed(obstacle), now)
            default: break
            }
        }
        guard let due = times.due, now >= due else { return [] }
        times.due = nil
        switch step {
        // The active copy did not answer in time: abort the hand-over.
        case .handingOver: return revert(nil, now)
        case .paused:
            enter(.building, now)
            return begin()
        default: return []
        }
    }

    private mutating func enter(_ next: MoveStep, _ now: UInt64) {
        step = next
        times.due = nil
        times.progressAt = now
    }

    private mutating func end(_ outcome: MoveOutcome) -> [MoveAction] {
        step = .ended
        self.outcome = outcome
        times.due = nil
        return [.end(outcome)]
    }
}
