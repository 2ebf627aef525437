internal import Vocabulary

/// The course of one move: build, two chains, hand over, clean.
///
/// It is told what happens and says what is to be done; who does it does not matter, so a new leader
/// begins again from the row and the reports.
///
/// - The second chain counts only when all of it are intact and nearly up with the active copy, new
///   ones on disk too.
/// - It counts alone only when all of it have what the active copy had when it learned of it.
/// - Whatever fails between, the old chain resumes under a new fence: late words carry the old one.
package struct MoveProcedure: Sendable {
    private static let millisecond: UInt64 = 1_000_000

    /// Where a move is that somebody else began.
    package enum Beginning: Hashable, Sendable {
        case row
        /// Both chains count.
        case joint
        /// The new active one is in the row, the former one's copy is kept.
        case former
    }

    package private(set) var step: MoveStep
    /// The fence that its commands name.
    package private(set) var fence: UInt64
    package private(set) var outcome: MoveOutcome?
    private var conditions: MoveConditions
    private var tries = 0
    /// What a revert leads to; nil where the move is tried again.
    private var afterRevert: MoveOutcome?
    private var isStopped = false
    private var times: Times

    private struct Times: Sendable {
        var progressAt: UInt64
        /// When the present step, or a wait within it, ends by itself.
        var due: UInt64?
        var stopDue: UInt64?
        var retryMilliseconds = Limits.moveRetryMillisecondsMin
    }

    /// - Parameters:
    ///   - move: What is to be done.
    ///   - fence: The fence of the row as it is.
    ///   - demand: What the bucket's clients want on disk.
    ///   - now: The time.
    ///   - beginning: What the row says of it already.
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

    /// The first thing that the move waits for; nil where it waits for no copy.
    package var obstacle: MoveObstacle? { conditions.obstacle(at: step, tries: tries) }

    /// What its copies say now takes it further.
    package var wantsReports: Bool {
        switch step {
        case .building, .covering, .waiting, .cleaning: true
        case .joining, .finishing, .handingOver, .takingOver, .reverting, .paused, .ended: false
        }
    }

    /// Both chains count, as far as this move knows.
    package var isJoint: Bool {
        switch step {
        case .covering, .waiting, .handingOver: true
        default: false
        }
    }

    /// Between two owners, by consent: nobody else needs to look after it.
    package var isHandedOver: Bool {
        switch step {
        case .handingOver, .takingOver, .reverting: true
        default: false
        }
    }

    /// It was to hand over and served again instead.
    package var wasPutOff: Bool { tries > 1 }

    /// The scheduler may give it its turn to take over.
    package func wantsTurn(now: UInt64) -> Bool {
        step == .waiting && now >= times.due ?? 0 && conditions.absent.isEmpty
    }

    /// When to tell it the time.
    package var nextTime: UInt64? {
        if step == .ended { return nil }
        let stalled = times.progressAt + Limits.moveStalledMilliseconds * Self.millisecond
        return [times.due, times.stopDue, stalled].compactMap { $0 }.min()
    }

    /// Its copies are complete: it no longer counts among those that build.
    package var phase: MoveSchedule.Running.Phase {
        switch step {
        case .building, .paused: conditions.caughtUp == nil ? .building : .finishing
        case .handingOver, .takingOver: .takingOver
        default: .finishing
        }
    }

    /// What is to be done first; the same again after a leader change.
    package mutating func begin() -> [MoveAction] {
        step == .building && !move.builders.isEmpty ? [.build(move.builders)] : []
    }

    package mutating func handle(_ event: MoveEvent, now: UInt64) -> [MoveAction] {
        if step == .ended { return [] }
        switch event {
        case .report(let node, let report, let jointHigh, let isReady):
            take(report, of: node, jointHigh, isReady, now)
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
        // What both chains count goes on: the next plan begins from there.
        case .planChanged: return step == .building || step == .paused ? end(.needsPlan) : []
        case .time: return time(now)
        }
    }

    // MARK: What copies say

    private mutating func take(
        _ report: CopyReport,
        of node: NodeNumber,
        _ jointHigh: Seqno?,
        _ isReady: Bool,
        _ now: UInt64
    ) {
        guard report.vBucket == move.vBucket, report.fence == fence else { return }
        let isFurther = conditions.take(
            report,
            of: node,
            jointHigh: jointHigh,
            isReady: isReady,
            at: step
        )
        if isFurther { times.progressAt = now }
    }

    /// Goes on where what is known allows it.
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

    // MARK: What was proposed

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
        conditions.forgetWords()
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

    // MARK: Stopping, and what goes wrong

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

    /// The old row stands: nothing was agreed on yet, or it is given up.
    private mutating func stopNow(_ now: UInt64) -> [MoveAction] {
        let until = now + Limits.keptBuildMilliseconds * Self.millisecond
        let outcome = MoveOutcome.stopped(keepBuildsUntilNanoseconds: until)
        switch step {
        // What has taken over stays so; the former copy is released by the next rebalance.
        case .building, .paused, .cleaning: return end(outcome)
        default: return revert(outcome, now)
        }
    }

    private mutating func failedOver(_ node: NodeNumber, _ now: UInt64) -> [MoveAction] {
        guard move.nodes.contains(node) else { return [] }
        conditions.lose(node)
        switch step {
        case .building, .paused: return end(.needsPlan)
        // The active copy's place is filled by a promotion, which changes the fence.
        case _ where node == move.source: return end(.superseded)
        case .covering, .waiting, .handingOver: return revert(.needsPlan, now)
        // One proposal at a time: the answer to this one comes first.
        case .joining, .reverting:
            afterRevert = .needsPlan
            return []
        // The new active one's place is filled by a promotion as well.
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

    private mutating func time(_ now: UInt64) -> [MoveAction] {
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
        // Who was asked to stop and says nothing may not be waited for.
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
