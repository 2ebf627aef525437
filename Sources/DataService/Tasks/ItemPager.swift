internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary
internal import Wire

/// Ejects until a bucket's memory is down from above its high watermark to its low one, and below
/// it if a large write waits for room.
///
/// Runs on the nonIO lane in slices, so that a lock is held for microseconds and other work can
/// run. Persistent buckets lose values, ephemeral ones (`nruEviction`) whole documents. Unpersisted
/// changes cannot be ejected: then the flushers are hurried, and writes are refused above 93 %.
final class ItemPager: Sendable {
    private struct State {
        var isPosted = false
        var isStopped = false
        /// The vBucket to begin with: each pass continues after the previous one.
        var first = 0
        /// The number of consecutive passes that freed next to nothing.
        var fruitless = 0
    }

    /// A running pass.
    private struct Pass {
        let threshold: UInt8
        /// The bytes in use at which the pass ends.
        let target: UInt64
        var visited = 0
        var freed = 0
    }

    private let engine: Bucket
    private let counters: TrafficCounters
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let alerts: AlertTable
    /// Commits all unpersisted changes soon.
    private let hurryFlushers: @Sendable () -> Void
    private let markDirty: @Sendable (VBucketID) -> Void
    /// Notifies streams whose cursors were dropped, which continue from disk.
    private let notifyStreams: @Sendable ([VBucketID]) -> Void
    private let state = Guarded(State())
    private let waiters: RoomWaiters

    private static let groupsPerSlice = 64
    private static let sampledGroups = 4
    private static let vBucketsPerTurn = 16
    private static let restNanoseconds: UInt64 = 5_000_000
    /// The rest grows to this multiple, and to the smaller one while a write waits.
    private static let restsMax = 50
    private static let restsMaxWhileWaiting = 10
    /// The number of fruitless passes after which an alert is raised.
    private static let fruitlessMax = 200

    init(
        engine: Bucket,
        counters: TrafficCounters,
        service: DocumentService,
        hurryFlushers: @escaping @Sendable () -> Void,
        markDirty: @escaping @Sendable (VBucketID) -> Void,
        notifyStreams: @escaping @Sendable ([VBucketID]) -> Void
    ) {
        self.engine = engine
        self.counters = counters
        worker = service.lanes.nonIO
        environment = service.environment
        alerts = service.alerts
        self.hurryFlushers = hurryFlushers
        self.markDirty = markDirty
        self.notifyStreams = notifyStreams
        waiters = RoomWaiters(engine: engine, time: service.environment.time)
    }

    private var canWork: Bool { engine.isPersistent || engine.evictionPolicy == .nruEviction }

    private var alertID: String { "memory/\(engine.name)" }

    /// Starts passes, since memory rose above the high watermark; cheap while one is running.
    func wake() {
        if canWork { post() }
    }

    private func post() {
        let isFirst = state.withLock { !exchange(&$0.isPosted, with: true) && !$0.isStopped }
        if isFirst { worker.lane.post { [self] in beginPass() } }
    }

    /// Whether a write of so many bytes may find no room even at the low watermark.
    ///
    /// Smaller writes only have to be retried.
    func needsRoom(_ bytes: Int) -> Bool {
        let account = engine.account
        return UInt64(bytes) > account.ceiling - account.highWatermark
    }

    /// Makes room for a write that was refused.
    ///
    /// Callable from any lane.
    ///
    /// - Parameters:
    ///   - bytes: The need of the write: its value, and what it reads.
    ///   - done: Called once, from any lane: `roomMade` if the write has to be retried now,
    ///     otherwise the reason of the refusal.
    func makeRoom(for bytes: Int, _ done: @escaping @Sendable (Completion) -> Void) {
        guard UInt64(bytes) <= engine.account.ceiling else {
            return done(.failed(.tooBig, RoomText.tooBig(engine, floor: 0)))
        }
        guard waiters.add(bytes, done) else {
            return done(.failed(.temporaryFailure, RoomText.full))
        }
        post()
    }

    /// Ends the reservation of a write that got `roomMade`: room that it did not use is free for
    /// all.
    func endAdmission() { waiters.endAdmission() }

    func stop() {
        state.withLock { $0.isStopped = true }
        waiters.stop()
        alerts.clear(alertID)
    }

    // MARK: On the nonIO lane

    private func isAbove(_ target: UInt64) -> Bool { engine.account.bytes > target }

    private func beginPass() {
        let isStopped = state.withLock { $0.isStopped }
        guard !isStopped else { return finish() }
        waiters.serve()
        guard canWork else { return waiters.releaseIfIdle() ? finish() : startCensus() }
        guard isAbove(waiters.target) else { return waiters.releaseIfIdle() ? finish() : rest(1) }
        dropSlowCursors()
        var sweep = EvictionSweep()
        var total: UInt64 = 0
        let start = environment.entropy.next()
        for vBucket in engine.all {
            vBucket.withCore { core in
                total += UInt64(core.table.count - core.table.stubCount)
                core.sample(&sweep, from: start, groupsMax: ItemPager.sampledGroups)
            }
        }
        // The use may be below the target by now: cursors were dropped, clients delete, the quota
        // may be raised.
        let (bytes, target) = (engine.account.bytes, waiters.target)
        guard bytes > target || !waiters.releaseIfIdle() else { return finish() }
        let wanted = bytes - min(bytes, target)
        if !waiters.releaseIfIdle(), sweep.estimate(of: total) < wanted {
            // Flushing may make more ejectable; if not, the census decides.
            hurryFlushers()
            if waiters.needsCensus { return startCensus() }
        }
        let threshold = sweep.threshold(freeing: wanted, of: total)
        work(Pass(threshold: threshold, target: target))
    }

    // MARK: Writes that can never fit

    /// Counts the ejectable bytes, so that a write that can never fit is refused at once, before
    /// anything is ejected for it.
    private func startCensus() {
        countRemovable(from: 0, found: 0, of: engine.account.bytes)
    }

    /// - Parameters:
    ///   - number: The vBucket to continue with.
    ///   - found: The ejectable bytes in the vBuckets before it.
    ///   - used: The bytes in use at the beginning: later writes must not count as bytes that stay.
    private func countRemovable(from number: Int, found: UInt64, of used: UInt64) {
        var found = found
        let end = min(number + ItemPager.vBucketsPerTurn, engine.count)
        for vBucket in engine.all[number..<end] {
            vBucket.forEachSlice { core, from in
                core.addRemovable(
                    to: &found,
                    from: from,
                    groupsMax: ItemPager.groupsPerSlice
                )
            }
        }
        let sum = found
        worker.lane.post { [self] in
            if end < engine.count { return countRemovable(from: end, found: sum, of: used) }
            waiters.decide(floor: used - min(used, sum))
            // Only clients can remove these documents, so the writes are refused until a client
            // retries.
            if !canWork { waiters.refuseAll() }
            beginPass()
        }
    }

    // MARK: Making room

    /// Drops the cursors of feeds that keep too much memory; they continue from disk.
    func dropSlowCursors() {
        let dropped = engine.dropSlowCursors()
        if !dropped.isEmpty { notifyStreams(dropped) }
    }

    private func work(_ pass: Pass) {
        var pass = pass
        let context = worker.context
        let first = state.withLock { $0.first }
        for _ in 0..<ItemPager.vBucketsPerTurn
        where pass.visited < engine.count && isAbove(pass.target) {
            let index = (first + pass.visited) % engine.count
            pass.freed += page(engine.all[index], pass, in: context)
            pass.visited += 1
        }
        guard pass.visited < engine.count, isAbove(pass.target) else { return endPass(pass) }
        let next = pass
        worker.lane.post { [self] in work(next) }
    }

    private func page(_ vBucket: VBucket, _ pass: Pass, in context: LaneContext) -> Int {
        var freed = 0
        var place: UInt64? = 0
        while let from = place, isAbove(pass.target) {
            let turn = context.turn(environment.time.wallNanoseconds())
            let (slice, id) = vBucket.withCore { core in
                let slice =
                    engine.isPersistent
                    ? core.ejectSlice(
                        from: from,
                        groupsMax: ItemPager.groupsPerSlice,
                        threshold: pass.threshold,
                        turn
                    )
                    : core.deleteSlice(
                        from: from,
                        groupsMax: ItemPager.groupsPerSlice,
                        threshold: pass.threshold,
                        turn
                    )
                return (slice, core.id)
            }
            counters.countShared(.ejections, by: slice.count)
            if slice.wakesFlusher { markDirty(id) }
            freed += slice.freed
            place = slice.next
        }
        return freed
    }

    private func endPass(_ pass: Pass) {
        if !engine.isPersistent { forgetTombstones(pass.target) }
        let isDone = !isAbove(pass.target)
        waiters.recordPass(reachedTarget: isDone)
        let fruitless: Int = state.withLock { state in
            state.first = (state.first + pass.visited) % engine.count
            state.fruitless = isDone || pass.freed > 1 << 16 ? 0 : state.fruitless + 1
            return state.fruitless
        }
        waiters.serve()
        if isDone, waiters.releaseIfIdle() { return finish() }
        if !isDone { hurryFlushers() }
        if fruitless >= ItemPager.fruitlessMax { raiseAlert() }
        // The rest grows with each fruitless pass, to a quarter of a second.
        let most = waiters.releaseIfIdle() ? ItemPager.restsMax : ItemPager.restsMaxWhileWaiting
        rest(min(1 + fruitless, most))
    }

    private func rest(_ times: Int) {
        let nanoseconds = ItemPager.restNanoseconds * UInt64(times)
        worker.lane.post(after: nanoseconds) { [self] in beginPass() }
    }

    private func finish() {
        state.withLock { state in
            state.isPosted = false
            state.fruitless = 0
        }
        alerts.clear(alertID)
        // A write that began to wait meanwhile relied on the running pass.
        if !waiters.releaseIfIdle() { post() }
    }

    private func raiseAlert() {
        guard !engine.account.admits(0) else { return }
        let isFull = engine.evictionPolicy == .fullEviction
        let what =
            isFull ? "the stubs of ejected documents fill" : "the metadata of documents fills"
        let more = isFull ? "or delete documents" : "delete documents, or use full eviction"
        alerts.raise(
            alertID,
            "Bucket \(engine.name) is full: \(what) its memory, so writes are refused. "
                + "Raise its quota, \(more)."
        )
    }

    /// Removes tombstones older than a minute from an ephemeral bucket under pressure, and all of
    /// them if that is not enough: a tombstone is hardly smaller than a small document.
    private func forgetTombstones(_ target: UInt64) {
        let now = UInt32(truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000)
        for vBucket in engine.all {
            vBucket.forEachSlice { core, from in
                core.forgetTombstones(
                    from: from,
                    groupsMax: ItemPager.groupsPerSlice,
                    deletedBefore: isAbove(target) ? .max : now - min(now, 60)
                ).next
            }
        }
    }
}
