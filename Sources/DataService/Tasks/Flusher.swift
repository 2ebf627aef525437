internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Writes the changes of one lane file's vBuckets to disk, many vBuckets per transaction.
///
/// `FlushQueue` decides when a commit begins and which vBuckets it contains; the flusher makes the
/// commit.
///
/// - Runs on its writer lane only; `markDirty` and `flushNow` may be called from any lane.
/// - A change counts as persisted after its commit returned. A failed commit changes nothing and is
///   retried.
final class Flusher: Sendable {
    private struct State {
        var queue: FlushQueue
        /// Whether a commit is running; its end schedules the next one.
        var isRunning = false
        var isStopped = false
        /// The number of the newest posted run; earlier posted runs do nothing.
        var timer: UInt64 = 0
        /// When the newest posted run begins; nil if none is posted.
        var timerDue: UInt64?
        /// After a failed commit: when the next one may begin.
        var blockedUntil: UInt64 = 0
        /// Whether a commit was made since the last `closeIdle`.
        var wasUsed = false
        /// When the oldest change of the running commit arrived; nil without a commit.
        var inFlightSince: UInt64?
        var waiters: [Waiter] = []
    }

    /// A caller of `drain`, which waits for all changes that existed at its call.
    private struct Waiter {
        let arrivedAt: UInt64
        let done: @Sendable () -> Void
    }

    /// One vBucket's share of a batch.
    private struct Share {
        let vBucket: VBucket
        let drain: VBucketCore.Drain
    }

    private let parts: BucketParts
    private let store: LaneStore
    private let worker: DataLanes.Worker
    private let traffic: ChangeTraffic
    private let watch: FlushWatch
    private let compactor: Compactor
    private let state: Guarded<State>
    /// Used on the writer lane only.
    private let batch = Guarded(CommitBatchBox())

    /// The bytes that are copied in one hold of a vBucket's lock.
    private static let sliceBytes = 64 << 10
    /// How far the stored CAS horizon is ahead of the clock, so that no CAS is repeated after a
    /// restart with a clock that was set back.
    private static let casAheadNanoseconds: UInt64 = 10_000_000_000
    private static let retryNanoseconds: UInt64 = 1_000_000_000

    init(
        _ parts: BucketParts,
        store: LaneStore,
        traffic: ChangeTraffic,
        compactor: Compactor,
        pace: FlushQueue.Pace
    ) {
        self.parts = parts
        self.store = store
        worker = parts.lanes.writer(ofLane: store.number)
        self.traffic = traffic
        watch = FlushWatch(parts, store: store)
        self.compactor = compactor
        state = Guarded(State(queue: FlushQueue(pace: pace)))
    }

    // MARK: From any lane

    /// Schedules a vBucket that had no changes to flush until now.
    func markDirty(_ vBucket: VBucketID) {
        let now = parts.environment.time.monotonicNanoseconds()
        let next: Posting? = state.withLock { state in
            state.queue.add(vBucket, since: now)
            // A posted run is due earlier, for an older change.
            return state.timerDue == nil ? Flusher.schedule(&state, now) : nil
        }
        if let next { post(next) }
    }

    /// Commits the vBucket at once: a caller waits for it.
    func flushNow(_ vBucket: VBucketID) {
        hurry { queue, _ in queue.hurry(vBucket) }
    }

    /// Commits the vBucket soon: a caller waits for it and for many others.
    func flushSoon(_ vBucket: VBucketID) {
        hurry { queue, now in queue.hurry(vBucket, gatheringFrom: now) }
    }

    /// Commits everything as soon as possible.
    func flushAll() {
        hurry { queue, now in queue.hurryAll(now: now) }
    }

    private func hurry(_ mark: (inout FlushQueue, UInt64) -> Void) {
        let now = parts.environment.time.monotonicNanoseconds()
        let next: Posting? = state.withLock { state in
            guard state.isRunning || !state.queue.isEmpty else { return nil }
            mark(&state.queue, now)
            return Flusher.schedule(&state, now)
        }
        if let next { post(next) }
    }

    /// Calls `done` on the writer lane when all changes that exist now are committed, or when the
    /// disk fails or the flusher is stopped.
    func drain(_ done: @escaping @Sendable () -> Void) {
        let now = parts.environment.time.monotonicNanoseconds()
        state.withLock { $0.waiters.append(Waiter(arrivedAt: now, done: done)) }
        flushAll()
        // If no vBucket is queued, no run would call `finishWaiters`.
        worker.lane.post { [self] in finishWaiters() }
    }

    /// Stops committing.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            state.queue.removeAll()
        }
    }

    /// Releases memory and connections that were not used since the last call.
    func closeIdle() {
        worker.lane.post { [self] in
            store.closeIdle()
            let isIdle = state.withLock { !exchange(&$0.wasUsed, with: false) }
            if isIdle { batch.withLock { $0.batch.trim() } }
        }
    }

    /// Whether all states and changes of vBuckets are persisted.
    var isFinished: Bool { state.withLock { $0.queue.isEmpty && !$0.isRunning } }

    /// Nanoseconds since the oldest unpersisted change arrived; 0 if there is none.
    var oldestChangeAge: UInt64 {
        oldestChange.map { parts.environment.time.monotonicNanoseconds() &- $0 } ?? 0
    }

    /// When the oldest unpersisted change arrived; nil if there is none.
    private var oldestChange: UInt64? {
        state.withLock { state in
            [state.queue.oldest, state.inFlightSince].compactMap { $0 }.min()
        }
    }

    /// Holds clients' writes if commits fail or hang.
    ///
    /// - Returns: When to check again, if that is before the next round; nil for no such moment.
    func checkStall() -> UInt64? { watch.check(oldest: oldestChange) }

    /// The time that commits of everything that waits will need, in nanoseconds (`FlushQueue`).
    var nanosecondsToPersist: UInt64 { state.withLock { $0.queue.nanosecondsToPersist } }

    // MARK: Scheduling

    private struct Posting {
        let delay: UInt64
        let timer: UInt64
    }

    /// The run to post; nil if an earlier one is already posted, or nothing is due.
    private static func schedule(_ state: inout State, _ now: UInt64) -> Posting? {
        guard !state.isRunning, !state.isStopped, let start = state.queue.nextStart() else {
            return nil
        }
        let due = max(start, state.blockedUntil, now)
        if let posted = state.timerDue, posted <= due { return nil }
        state.timer += 1
        state.timerDue = due
        return Posting(delay: due - now, timer: state.timer)
    }

    private func post(_ next: Posting) {
        let begin: @Sendable () -> Void = { [self] in
            if state.withLock({ $0.timer == next.timer }) { run() }
        }
        if next.delay == 0 {
            worker.lane.post(begin)
        } else {
            worker.lane.post(after: next.delay, begin)
        }
    }

    // MARK: On the writer lane

    private func run() {
        let began = parts.environment.time.monotonicNanoseconds()
        let entries: [FlushQueue.Entry] = state.withLock { state in
            guard !state.isStopped else { return [] }
            state.timerDue = nil
            state.isRunning = true
            state.wasUsed = true
            state.inFlightSince = state.queue.oldest
            return state.queue.removeNextBatch(now: began)
        }
        guard !entries.isEmpty else {
            state.withLock { $0.isRunning = false }
            return finishWaiters()
        }
        compactor.beforeCommit()
        let (shares, taken) = fill(entries)
        state.withLock { $0.queue.putBack(entries.dropFirst(taken)) }
        if commit(shares) {
            rescheduleChanged(shares, since: began)
            state.withLock { $0.blockedUntil = 0 }
        } else {
            state.withLock { state in
                state.queue.putBack(entries.prefix(taken))
                state.blockedUntil = began &+ Flusher.retryNanoseconds
            }
        }
        let ended = parts.environment.time.monotonicNanoseconds()
        let next = state.withLock { state in
            state.isRunning = false
            state.inFlightSince = nil
            state.queue.committed(taken, began: began, ended: ended)
            return Flusher.schedule(&state, ended)
        }
        finishWaiters()
        if let next { post(next) }
    }

    /// Drains vBuckets into the batch until it is full.
    private func fill(_ entries: [FlushQueue.Entry]) -> (shares: [Share], taken: Int) {
        let horizon = parts.environment.time.wallNanoseconds() &+ Flusher.casAheadNanoseconds
        return batch.withLock { box in
            let batch = box.batch
            batch.reset()
            var shares: [Share] = []
            var taken = 0
            for entry in entries {
                taken += 1
                guard let vBucket = parts.engine[entry.vBucket.number] else { continue }
                let share: (VBucketCore.Drain, VBucketRecord)? = vBucket.withCore { core in
                    guard core.ownership.exists, !core.ownership.isResetting else { return nil }
                    let drain = core.drain()
                    return (drain, core.record(through: drain.boundary, casHorizon: horizon))
                }
                // A copy that is being dropped is not written.
                guard let (drain, record) = share else { continue }
                batch.begin(record)
                append(drain.entries, of: vBucket, to: batch)
                batch.markSuperseded(drain.superseded)
                batch.markCompleted(drain.completedPrepares)
                shares.append(Share(vBucket: vBucket, drain: drain))
                if batch.documentCount >= Limits.commitChangesMax
                    || batch.byteCount >= Limits.commitBytesMax
                {
                    break
                }
            }
            return (shares, taken)
        }
    }

    /// Copies items into the batch, a slice for each hold of the lock.
    private func append(
        _ entries: [Checkpoint.Entry],
        of vBucket: VBucket,
        to batch: CommitBatch
    ) {
        var next = 0
        while next < entries.count {
            vBucket.withCore { _ in
                let end = batch.byteCount + Flusher.sliceBytes
                while next < entries.count, batch.byteCount < end {
                    let item = entries[next].item
                    if let level = item.level {
                        let (key, value) = (item.key, item.value)
                        batch.append(prepare: item.meta, level: level, key: key, value: value)
                    } else {
                        batch.append(item.meta, key: item.key, value: item.value)
                    }
                    next += 1
                }
            }
        }
    }

    /// Commits the batch and notifies the vBuckets.
    ///
    /// - Returns: False if the commit has to be retried.
    private func commit(_ shares: [Share]) -> Bool {
        var rawBytes = 0
        let began = parts.environment.time.monotonicNanoseconds()
        do {
            let summary = try batch.withLock { (box) throws(StorageError) in
                try store.commit(box.batch)
            }
            rawBytes = summary.rawBytes
            let ended = parts.environment.time.monotonicNanoseconds()
            parts.counters.record(.commit, nanoseconds: ended - began)
            parts.counters.countShared(.commits)
            parts.counters.countShared(.persistedChanges, by: summary.documents)
            watch.committed()
        } catch {
            for share in shares { share.vBucket.withCore { $0.undrain(share.drain) } }
            // Deleting a bucket removes its files, even during a commit.
            guard error.code != .gone, !state.withLock({ $0.isStopped }) else {
                stop()
                return true
            }
            parts.counters.countShared(.commitFailures)
            watch.failed(error.description)
            return false
        }
        var ids: [VBucketID] = []
        for share in shares {
            share.vBucket.withCore { core in
                core.persisted(through: share.drain.boundary)
                ids.append(core.id)
            }
        }
        traffic.notify(.persisted, of: ids)
        compactor.afterCommit(rawBytes: rawBytes)
        return true
    }

    /// Schedules vBuckets that changed after they were drained.
    ///
    /// `markDirty` is called only for the first change of a clean vBucket, and these vBuckets were
    /// not clean.
    private func rescheduleChanged(_ shares: [Share], since: UInt64) {
        var again: [VBucketID] = []
        for share in shares {
            share.vBucket.withCore { core in
                if core.highSeqno > share.drain.boundary { again.append(core.id) }
            }
        }
        state.withLock { state in
            guard !state.isStopped else { return }
            for id in again { state.queue.add(id, since: since) }
        }
    }

    /// Calls the waiters whose changes are persisted.
    ///
    /// If the disk fails or the flusher is stopped, calls all waiters, so that a stopping node does
    /// not wait for a disk that may never recover.
    private func finishWaiters() {
        let finished = state.withLock { state in
            let isHopeless = state.isStopped || state.blockedUntil > 0
            let oldest = isHopeless ? nil : state.queue.oldest
            let isDone = { (waiter: Waiter) in oldest.map { waiter.arrivedAt < $0 } ?? true }
            defer { state.waiters.removeAll(where: isDone) }
            return state.waiters.filter(isDone)
        }
        for waiter in finished { waiter.done() }
    }
}

/// The batch of one flusher.
///
/// The flusher reuses the batch because of its size. One lane at a time uses it.
struct CommitBatchBox {
    let batch = CommitBatch()
}
