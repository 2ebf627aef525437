internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Brings the changes of one lane's vBuckets to disk, many vBuckets to a transaction.
///
/// There is no fixed beat: a commit begins at the latest 250 ms after the oldest change that it
/// takes, at once when somebody waits, and while one runs the next batch grows.
///
/// - Works on its writer lane only; `noteDirty` and `flushNow` may be called from anywhere.
/// - A change counts as persisted after the commit that carries it returned; a commit that failed
///   changes nothing and is tried again.
final class Flusher: Sendable {
    private struct State {
        /// vBuckets with changes that nobody has drained.
        var dirty: [VBucketID] = []
        /// When the oldest of them arrived.
        var dirtySince: UInt64 = 0
        /// A run is posted, or under way.
        var isScheduled = false
        /// The posted run waits for its delay; somebody in a hurry posts another.
        var isDelayed = false
        /// Somebody came to wait during a run: the next one follows at once.
        var isHurried = false
        var isStopped = false
        /// Of the timer that counts: a run makes older ones void.
        var timer: UInt64 = 0
        var waiters: [@Sendable () -> Void] = []
    }

    /// One vBucket's share of a batch.
    private struct Share {
        let vBucket: VBucket
        let drain: VBucketCore.Drain
    }

    private let engine: Bucket
    private let store: LaneStore
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let counters: BucketCounters
    private let alerts: AlertBoard
    private let compactor: Compactor
    private let alertID: String
    private let state = Guarded(State())
    /// Used on the writer lane only.
    private let batch = Guarded(CommitBatchBox())

    /// Bytes that are copied under one hold of a vBucket's lock.
    private static let sliceBytes = 64 << 10
    /// The CAS horizon is written this far ahead: a clock set back cannot repeat a CAS.
    private static let casAheadNanoseconds: UInt64 = 10_000_000_000
    private static let retryNanoseconds: UInt64 = 1_000_000_000

    init(
        engine: Bucket,
        store: LaneStore,
        worker: DataLanes.Worker,
        environment: Environment,
        counters: BucketCounters,
        alerts: AlertBoard,
        compactor: Compactor
    ) {
        self.engine = engine
        self.store = store
        self.worker = worker
        self.environment = environment
        self.counters = counters
        self.alerts = alerts
        self.compactor = compactor
        alertID = "flush/\(engine.name)/\(store.number)"
    }

    // MARK: From anywhere

    /// A vBucket that had nothing to flush has something now.
    func noteDirty(_ vBucket: VBucketID) {
        let now = environment.time.monotonicNanoseconds()
        let timer: UInt64? = state.withLock { state in
            if state.dirty.isEmpty { state.dirtySince = now }
            state.dirty.append(vBucket)
            guard !state.isScheduled, !state.isStopped else { return nil }
            return Flusher.setTimer(&state)
        }
        guard let timer else { return }
        post(after: UInt64(Limits.commitDelayMillisecondsMax) * 1_000_000, timer)
    }

    private static func setTimer(_ state: inout State) -> UInt64 {
        state.isScheduled = true
        state.isDelayed = true
        state.timer += 1
        return state.timer
    }

    /// Runs later, unless another run comes first: that one sees to the rest itself.
    private func post(after delay: UInt64, _ timer: UInt64) {
        worker.lane.post(after: delay) { [self] in
            if state.withLock({ $0.timer == timer }) { run() }
        }
    }

    /// Somebody waits for persistence: commit what is there.
    func flushNow() {
        let isIdle = state.withLock { state in
            guard state.isDelayed || !state.isScheduled else {
                state.isHurried = true
                return false
            }
            guard !state.dirty.isEmpty else { return false }
            state.isScheduled = true
            state.isDelayed = false
            return true
        }
        if isIdle { worker.lane.post { [self] in run() } }
    }

    /// Calls `done` on the writer lane when everything that is there now is committed.
    func drain(_ done: @escaping @Sendable () -> Void) {
        state.withLock { $0.waiters.append(done) }
        worker.lane.post { [self] in run() }
    }

    /// Commits nothing any more.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            state.dirty = []
        }
    }

    /// Nanoseconds since the oldest change that nobody has drained arrived; 0 where there is none.
    var oldestChangeAge: UInt64 {
        let since = state.withLock { $0.dirty.isEmpty ? 0 : $0.dirtySince }
        return since == 0 ? 0 : environment.time.monotonicNanoseconds() &- since
    }

    // MARK: On the writer lane

    private func run() {
        let work: (dirty: [VBucketID], since: UInt64)? = state.withLock { state in
            guard !state.isStopped else { return nil }
            state.isScheduled = true
            state.isDelayed = false
            state.timer += 1
            defer { state.dirty = [] }
            return (state.dirty, state.dirtySince)
        }
        guard let (dirty, since) = work else { return finishWaiters() }
        // A vBucket that comes twice (a new history, and then a change) would be drained twice.
        var seen: Set<VBucketID> = []
        var rest = dirty.filter { seen.insert($0).inserted }[...]
        if !rest.isEmpty { compactor.beforeCommit() }
        while !rest.isEmpty {
            let (shares, taken) = fill(rest)
            rest = rest.dropFirst(taken)
            guard commit(shares) else {
                let left = shares.map { share in share.vBucket.withCore { $0.id } } + rest
                return retry(left, since)
            }
        }
        finishWaiters()
        scheduleNext()
    }

    /// Drains vBuckets into the batch until it is full.
    private func fill(_ dirty: ArraySlice<VBucketID>) -> (shares: [Share], taken: Int) {
        let horizon = environment.time.wallNanoseconds() &+ Flusher.casAheadNanoseconds
        return batch.withLock { box in
            let batch = box.batch
            batch.reset()
            var shares: [Share] = []
            var taken = 0
            for id in dirty {
                taken += 1
                guard let vBucket = engine[id.number] else { continue }
                let (drain, record) = vBucket.withCore { core in
                    let drain = core.drain()
                    return (drain, core.record(through: drain.boundary, casHorizon: horizon))
                }
                batch.begin(record)
                append(drain.entries, of: vBucket, to: batch)
                batch.superseded(drain.superseded)
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
                    batch.append(item.meta, key: item.key, value: item.value)
                    next += 1
                }
            }
        }
    }

    /// Commits the batch and tells the vBuckets; false where it has to come again.
    private func commit(_ shares: [Share]) -> Bool {
        var rawBytes = 0
        do {
            let summary = try batch.withLock { (box) throws(StorageError) in
                try store.commit(box.batch)
            }
            rawBytes = summary.rawBytes
            counters.countShared(.commits)
            counters.countShared(.persistedChanges, by: summary.documents)
            alerts.clear(alertID)
        } catch {
            for share in shares { share.vBucket.withCore { $0.undrain(share.drain) } }
            // A bucket that goes takes its files along, under a commit too.
            guard error.code != .gone, !state.withLock({ $0.isStopped }) else {
                stop()
                return true
            }
            let name = engine.name
            environment.trace.error("flusher", "bucket \(name): \(error.description)")
            alerts.raise(
                alertID,
                "Changes of bucket \(name) cannot be written to disk: \(error.description). "
                    + "They stay in memory and are tried again every second."
            )
            return false
        }
        var again: [VBucketID] = []
        for share in shares {
            share.vBucket.withCore { core in
                core.persisted(through: share.drain.boundary)
                if core.highSeqno > share.drain.boundary { again.append(core.id) }
            }
        }
        noteAgain(again)
        compactor.afterCommit(rawBytes: rawBytes)
        return true
    }

    /// vBuckets that changed during the commit: nobody was told, because they were never clean.
    private func noteAgain(_ vBuckets: [VBucketID]) {
        guard !vBuckets.isEmpty else { return }
        let now = environment.time.monotonicNanoseconds()
        state.withLock { state in
            if state.dirty.isEmpty { state.dirtySince = now }
            state.dirty.append(contentsOf: vBuckets)
        }
    }

    private func retry(_ vBuckets: [VBucketID], _ since: UInt64) {
        let timer = state.withLock { state in
            state.dirty = vBuckets + state.dirty
            state.dirtySince = since
            return Flusher.setTimer(&state)
        }
        post(after: Flusher.retryNanoseconds, timer)
        // A node that stops does not wait for a disk that may never take anything again.
        finishWaiters()
    }

    private func finishWaiters() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter() }
    }

    private func scheduleNext() {
        let now = environment.time.monotonicNanoseconds()
        let next: (delay: UInt64, timer: UInt64)? = state.withLock { state in
            defer { state.isHurried = false }
            guard !state.dirty.isEmpty, !state.isStopped else {
                state.isScheduled = false
                state.isDelayed = false
                return nil
            }
            let timer = Flusher.setTimer(&state)
            if state.isHurried { return (0, timer) }
            let due = state.dirtySince + UInt64(Limits.commitDelayMillisecondsMax) * 1_000_000
            return (due > now ? due - now : 0, timer)
        }
        if let next { post(after: next.delay, next.timer) }
    }
}

/// The batch of one flusher: big enough to be worth keeping, used by one lane at a time.
struct CommitBatchBox {
    let batch = CommitBatch()
}
