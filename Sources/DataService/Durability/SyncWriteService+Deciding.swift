internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary

/// The lane `durability`: carries out the decisions of each `DurabilityMonitor`.
extension SyncWriteService {
    /// The result of one pass over a vBucket.
    fileprivate struct Outcome {
        var wakesFlusher = false
        var wakesStreams = false
        var isHandingOver = false
        var hasEnded = false
        /// The wait without which the next prepare cannot be completed.
        var obstacle: Obstacle?
        var answers: [(answer: Answer, end: SyncWriteOutcome, cause: CommandPhase)] = []
        /// When the pass began, in monotonic nanoseconds.
        var now: UInt64 = 0
    }

    fileprivate struct Obstacle {
        let wait: Wait
        let key: [UInt8]
    }

    /// The delay of retries after a failed fetch, and the shortest interval between deadline
    /// checks.
    private static let retryNanoseconds: UInt64 = 1_000_000_000
    private static let deadlineCheckNanoseconds: UInt64 = 5_000_000

    /// Schedules one pass over the vBucket.
    func schedulePass(over vBucket: VBucketID) {
        let isFirst = state.withLock { state in
            state.due.insert(vBucket)
            return !exchange(&state.isPosted, with: true)
        }
        if isFirst { around.worker.lane.post { [weak self] in self?.work() } }
    }

    private func work() {
        let due = state.withLock { state in
            state.isPosted = false
            defer { state.due = [] }
            return state.isStopped ? [] : state.due.sorted()
        }
        for vBucket in due { decide(vBucket) }
    }

    // MARK: Time

    /// Schedules a check of deadlines.
    func setTimer(for deadline: UInt64) {
        let isFirst = state.withLock { state in
            guard deadline < state.timerDue ?? .max, !state.isStopped else { return false }
            state.timerDue = deadline
            return true
        }
        guard isFirst else { return }
        let now = around.environment.time.monotonicNanoseconds()
        around.worker.lane.post(after: deadline > now ? deadline - now : 0) { [weak self] in
            self?.checkDeadlines()
        }
    }

    private func checkDeadlines() {
        let now = around.environment.time.monotonicNanoseconds()
        let late = state.withLock { state in
            if let due = state.timerDue, due <= now { state.timerDue = nil }
            return state.slots.filter { ($0.value.monitor.nextDeadline ?? .max) <= now }.keys
                .sorted()
        }
        for vBucket in late { decide(vBucket) }
        let next = state.withLock { state in
            state.slots.values.compactMap(\.monitor.nextDeadline).min()
        }
        if let next { setTimer(for: max(next, now + SyncWriteService.deadlineCheckNanoseconds)) }
    }

    // MARK: Deciding

    /// Carries out all steps that the vBucket's monitor requests now.
    private func decide(_ vBucket: VBucketID) {
        guard let handle = around.engine[vBucket.number] else { return }
        listen(to: vBucket)
        let turn = around.worker.context.turn(around.environment.time.wallNanoseconds())
        var outcome = Outcome()
        handle.withCore { core in
            guard refresh(vBucket, core, in: &outcome) else { return }
            let now = around.environment.time.monotonicNanoseconds()
            outcome.now = now
            let isHeld = isHeld(vBucket)
            while !isHeld, outcome.obstacle == nil, let step = next(vBucket, now: now) {
                execute(step, vBucket, on: &core, in: turn, outcome: &outcome)
            }
            if isHeld || outcome.obstacle != nil { answerTimedOut(vBucket, now, in: &outcome) }
            outcome.isHandingOver = core.ownership.isHandingOver
        }
        if outcome.wakesFlusher { around.disk?.markDirty(vBucket) }
        if outcome.wakesStreams { around.traffic.notify(.changed, of: vBucket) }
        for (answer, end, cause) in outcome.answers { answer(end, cause) }
        if outcome.isHandingOver, outcome.hasEnded { around.handOvers.notifyCompleted(vBucket) }
        if let obstacle = outcome.obstacle { fetch(obstacle, of: vBucket) }
    }

    private func next(_ vBucket: VBucketID, now: UInt64) -> DurabilityMonitor.Step? {
        state.withLock { $0.slots[vBucket]?.monitor.next(now: now) }
    }

    /// Whether a fetch is outstanding, without which this node cannot complete any prepare.
    ///
    /// If another node decides, prepares are released at once.
    private func isHeld(_ vBucket: VBucketID) -> Bool {
        state.withLock { state in
            guard let slot = state.slots[vBucket] else { return false }
            return slot.isFetching && slot.monitor.row != nil
        }
    }

    /// Answers writes whose timeout has passed, although the disk delays all completions.
    private func answerTimedOut(_ vBucket: VBucketID, _ now: UInt64, in outcome: inout Outcome) {
        while let late = state.withLock({ $0.slots[vBucket]?.monitor.nextLate(now: now) }) {
            state.withLock { $0.slots[vBucket]?.monitor.answered(late) }
            end(late, vBucket, as: .ambiguous, in: &outcome)
        }
    }

    private func execute(
        _ step: DurabilityMonitor.Step,
        _ vBucket: VBucketID,
        on core: inout VBucketCore,
        in turn: borrowing ExecutionContext,
        outcome: inout Outcome
    ) {
        let fence = core.ownership.fence
        switch step {
        case .commit(let seqno):
            let result = core.commit(seqno, fence: fence, turn)
            finish(result, of: seqno, isCommit: true, vBucket: vBucket, on: core, in: &outcome)
        case .abort(let seqno):
            let result = core.abort(seqno, fence: fence, turn)
            finish(result, of: seqno, isCommit: false, vBucket: vBucket, on: core, in: &outcome)
        case .answerAmbiguous(let seqno):
            state.withLock { $0.slots[vBucket]?.monitor.answered(seqno) }
            end(seqno, vBucket, as: .ambiguous, in: &outcome)
        case .release(let seqno):
            state.withLock { $0.slots[vBucket]?.monitor.complete(seqno) }
            end(seqno, vBucket, as: .ambiguous, in: &outcome)
        }
    }

    private func finish(
        _ result: WriteResult,
        of seqno: Seqno,
        isCommit: Bool,
        vBucket: VBucketID,
        on core: borrowing VBucketCore,
        in outcome: inout Outcome
    ) {
        var answer = SyncWriteOutcome.ambiguous
        switch result {
        case .wait(let wait):
            outcome.obstacle = Obstacle(wait: wait, key: core.key(ofPrepare: seqno))
            return
        case .refused: break
        case .done(let stored) where isCommit:
            outcome.note(stored)
            answer = .committed(stored)
            state.withLock { $0.statistics.committed += 1 }
        case .done(let stored):
            outcome.note(stored)
            state.withLock { $0.statistics.aborted += 1 }
        case .prepared: preconditionFailure("a prepare is completed, not prepared again")
        }
        outcome.hasEnded = true
        state.withLock { state in
            state.slots[vBucket]?.monitor.complete(seqno)
            state.slots[vBucket]?.voids.remove(seqno)
        }
        end(seqno, vBucket, as: answer, in: &outcome)
    }

    /// Answers the client, or stores the outcome until the client waits.
    private func end(
        _ seqno: Seqno,
        _ vBucket: VBucketID,
        as end: SyncWriteOutcome,
        in outcome: inout Outcome
    ) {
        let found: SyncWriteService.Client? = state.withLock { state in
            guard let slot = state.slots[vBucket], var client = slot.clients[seqno] else {
                return nil
            }
            client.end = end.withNumber(client.number)
            client.cause = slot.cause(seqno, client.level, endedAs: end)
            if case .ambiguous = end { state.statistics.ambiguous += 1 }
            state.slots[vBucket]?.clients[seqno] = client.answer == nil ? client : nil
            return client
        }
        guard let found else { return }
        if case .committed = end {
            let duration = outcome.now - min(outcome.now, found.times.prepared)
            around.counters.record(Latency(found.level), nanoseconds: duration)
        }
        if let answer = found.answer {
            outcome.answers.append((answer, end.withNumber(found.number), found.cause))
        }
    }

    // MARK: Inputs of the monitor

    /// Updates the monitor.
    ///
    /// - Returns: False if the map is older than the copy; a later pass follows.
    private func refresh(
        _ vBucket: VBucketID,
        _ core: borrowing VBucketCore,
        in outcome: inout Outcome
    ) -> Bool {
        let fence = core.ownership.fence
        guard core.feeds(fence) else {
            let isPending = core.state == .pending
            state.withLock { state in
                state.slots[vBucket]?.monitor.row = nil
                state.slots[vBucket]?.isStale = true
                // A copy that is to be active remembers where its history begins.
                if !isPending { state.slots[vBucket]?.voids = [] }
            }
            return true
        }
        let row: DurabilityRow?
        if let (entry, own) = around.assignment(vBucket) {
            row = entry.fence == fence ? DurabilityRow(entry, own: own) : nil
        } else {
            row = .alone(fence: fence)
        }
        guard let row else { return false }
        let isStale = state.withLock { $0.slots[vBucket]?.isStale ?? false }
        let outstanding = isStale ? core.outstandingPrepares : []
        let copies = around.traffic.progress(of: vBucket)
        let onDisk = core.durableSeqno
        let lost: [Answer] = state.withLock { state in
            state.slots[vBucket]?.monitor.row = row
            if let before = state.slots[vBucket]?.monitor.onDisk {
                state.slots[vBucket]?.onDiskBefore = before
            }
            state.slots[vBucket]?.monitor.onDisk = onDisk
            state.slots[vBucket]?.monitor.copies = copies
            guard isStale else { return [] }
            let lost = state.slots[vBucket]?.replacePrepares(outstanding) ?? []
            state.statistics.ambiguous += UInt64(lost.count)
            return lost
        }
        outcome.answers += lost.map { ($0, .ambiguous, .replicate) }
        return true
    }

    // MARK: Documents that are only on disk

    private func fetch(_ obstacle: Obstacle, of vBucket: VBucketID) {
        guard let disk = around.disk else {
            preconditionFailure("only a bucket with a disk has something to wait for")
        }
        if case .handOver = obstacle.wait { return retryLater(vBucket) }
        state.withLock { $0.slots[vBucket]?.isFetching = true }
        let done: @Sendable (Completion) -> Void = { [weak self] completion in
            if case .failed = completion {
                self?.retryLater(vBucket)
            } else {
                self?.endFetch(of: vBucket)
            }
        }
        obstacle.key.withUnsafeBytes { buffer in
            let key = ByteView(buffer)
            let hash = around.engine.hash(key)
            disk.provide(obstacle.wait, of: vBucket, key: key, hash: hash, done)
        }
    }

    private func endFetch(of vBucket: VBucketID) {
        state.withLock { $0.slots[vBucket]?.isFetching = false }
        schedulePass(over: vBucket)
    }

    private func retryLater(_ vBucket: VBucketID) {
        around.worker.lane.post(after: SyncWriteService.retryNanoseconds) { [weak self] in
            self?.endFetch(of: vBucket)
        }
    }
}

extension VBucketCore {
    fileprivate func key(ofPrepare seqno: Seqno) -> [UInt8] {
        var key: [UInt8] = []
        forEachPrepare { if $0.seqno == seqno { key = $0.key.bytes } }
        return key
    }
}

extension SyncWriteService.Outcome {
    fileprivate mutating func note(_ stored: Stored) {
        wakesFlusher = wakesFlusher || stored.wakesFlusher
        wakesStreams = wakesStreams || stored.wakesStreams
    }
}

extension SyncWriteService.Slot {
    /// The last cause of a write's wait: this node's disk if it had not persisted the write before this pass,
    /// or has not yet; otherwise other nodes.
    fileprivate func cause(
        _ seqno: Seqno,
        _ level: DurabilityLevel,
        endedAs end: SyncWriteOutcome
    ) -> CommandPhase {
        guard level.needsDisk else { return .replicate }
        if case .committed = end { return onDiskBefore < seqno ? .disk : .replicate }
        return monitor.onDisk < seqno ? .disk : .replicate
    }

    /// Replaces the monitor's prepares by the vBucket's.
    ///
    /// - Returns: The answers of clients whose prepare no longer exists.
    fileprivate mutating func replacePrepares(
        _ outstanding: [OutstandingPrepare]
    ) -> [SyncWriteService.Answer] {
        isStale = false
        var gone = Set(monitor.seqnos)
        for prepare in outstanding where !(prepare.isInherited && clients[prepare.seqno] != nil) {
            gone.remove(prepare.seqno)
        }
        for seqno in gone { monitor.complete(seqno) }
        for prepare in outstanding where !monitor.contains(prepare.seqno) {
            monitor.inherit(prepare.seqno, prepare.level)
        }
        for seqno in voids { monitor.void(seqno) }
        return gone.compactMap { clients.removeValue(forKey: $0)?.answer }
    }
}
