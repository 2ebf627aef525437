internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary

/// Brings one bucket's memory down to the low watermark once it is above the high one.
///
/// Works on the nonIO lane in slices, so that a lock is held for microseconds and other work gets
/// its turn. Persistent buckets lose values, ephemeral ones (`nruEviction`) whole documents. What
/// is not on disk yet cannot go: then the flushers are hurried, and writes are refused for now
/// above 93 %.
final class ItemPager: Sendable {
    private struct State {
        var isPosted = false
        var isStopped = false
        /// The vBucket to begin with: each pass goes on where the last one ended.
        var first = 0
        /// Passes in a row that freed next to nothing.
        var fruitless = 0
    }

    /// One pass, under way.
    private struct Pass {
        let threshold: UInt8
        var visited = 0
        var freed = 0
    }

    private let engine: Bucket
    private let counters: BucketCounters
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let alerts: AlertBoard
    /// Has everything unpersisted committed soon.
    private let hurryFlushers: @Sendable () -> Void
    private let noteDirty: @Sendable (VBucketID) -> Void
    /// Streams that fell behind go on from disk.
    private let tellStreams: @Sendable ([VBucketID]) -> Void
    private let state = Guarded(State())

    private static let groupsPerSlice = 64
    private static let sampledGroups = 4
    private static let vBucketsPerTurn = 16
    private static let restNanoseconds: UInt64 = 5_000_000
    /// Passes without effect after which an operator should know.
    private static let fruitlessMax = 200

    init(
        engine: Bucket,
        counters: BucketCounters,
        service: DocumentService,
        hurryFlushers: @escaping @Sendable () -> Void,
        noteDirty: @escaping @Sendable (VBucketID) -> Void,
        tellStreams: @escaping @Sendable ([VBucketID]) -> Void
    ) {
        self.engine = engine
        self.counters = counters
        worker = service.lanes.nonIO
        environment = service.environment
        alerts = service.alerts
        self.hurryFlushers = hurryFlushers
        self.noteDirty = noteDirty
        self.tellStreams = tellStreams
    }

    private var canWork: Bool { engine.isPersistent || engine.evictionPolicy == .nruEviction }

    private var alertID: String { "memory/\(engine.name)" }

    /// Memory went above the high watermark; cheap when a pass is under way.
    func wake() {
        guard canWork else { return }
        let isFirst = state.withLock { state in
            defer { state.isPosted = true }
            return !state.isPosted && !state.isStopped
        }
        if isFirst { worker.lane.post { [self] in beginPass() } }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        alerts.clear(alertID)
    }

    // MARK: On the nonIO lane

    private var isAboveLow: Bool { engine.account.bytes > engine.account.lowWatermark }

    private func beginPass() {
        let isStopped = state.withLock { $0.isStopped }
        guard !isStopped, isAboveLow else { return finish() }
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
        // It may be below by now: cursors were dropped, others delete, and the quota may be raised.
        let (bytes, low) = (engine.account.bytes, engine.account.lowWatermark)
        guard bytes > low else { return finish() }
        let wanted = bytes - low
        let threshold = sweep.threshold(freeing: wanted, of: total)
        work(Pass(threshold: threshold))
    }

    /// Readers of changes that hold too much go on from disk.
    func dropSlowCursors() {
        let dropped = engine.dropSlowCursors()
        if !dropped.isEmpty { tellStreams(dropped) }
    }

    private func work(_ pass: Pass) {
        var pass = pass
        let context = worker.context
        let first = state.withLock { $0.first }
        for _ in 0..<ItemPager.vBucketsPerTurn where pass.visited < engine.count && isAboveLow {
            let index = (first + pass.visited) % engine.count
            pass.freed += page(engine.all[index], pass.threshold, context)
            pass.visited += 1
        }
        guard pass.visited < engine.count, isAboveLow else { return endPass(pass) }
        let next = pass
        worker.lane.post { [self] in work(next) }
    }

    private func page(_ vBucket: VBucket, _ threshold: UInt8, _ context: LaneContext) -> Int {
        var freed = 0
        var place: UInt64? = 0
        while let from = place, isAboveLow {
            let turn = context.turn(environment.time.wallNanoseconds())
            let (slice, id) = vBucket.withCore { core in
                let slice =
                    engine.isPersistent
                    ? core.ejectSlice(
                        from: from,
                        groupsMax: ItemPager.groupsPerSlice,
                        threshold: threshold,
                        turn
                    )
                    : core.deleteSlice(
                        from: from,
                        groupsMax: ItemPager.groupsPerSlice,
                        threshold: threshold,
                        turn
                    )
                return (slice, core.id)
            }
            counters.countShared(.ejections, by: slice.count)
            if slice.wakesFlusher { noteDirty(id) }
            freed += slice.freed
            place = slice.next
        }
        return freed
    }

    private func endPass(_ pass: Pass) {
        if !engine.isPersistent { forgetTombstones() }
        let isDone = !isAboveLow
        let fruitless: Int = state.withLock { state in
            state.first = (state.first + pass.visited) % engine.count
            state.fruitless = isDone || pass.freed > 1 << 16 ? 0 : state.fruitless + 1
            return state.fruitless
        }
        if isDone { return finish() }
        hurryFlushers()
        if fruitless >= ItemPager.fruitlessMax { raiseAlert() }
        // The more passes were in vain, the longer the rest: up to a quarter of a second.
        let rest = ItemPager.restNanoseconds * UInt64(min(1 + fruitless, 50))
        worker.lane.post(after: rest) { [self] in beginPass() }
    }

    private func finish() {
        state.withLock { state in
            state.isPosted = false
            state.fruitless = 0
        }
        alerts.clear(alertID)
    }

    private func raiseAlert() {
        guard !engine.account.admits(0) else { return }
        let isFull = engine.evictionPolicy == .fullEviction
        let what = isFull ? "what is kept of documents on disk" : "the metadata of documents alone"
        let more = isFull ? "or delete documents" : "delete documents, or use full eviction"
        alerts.raise(
            alertID,
            "Bucket \(engine.name) is full: \(what) takes up its memory, so writes are refused. "
                + "Raise its quota, \(more)."
        )
    }

    /// Ephemeral buckets under pressure keep no tombstones longer than a minute, and none at all
    /// where that is not enough: small documents are hardly larger than what is left of them.
    private func forgetTombstones() {
        let now = UInt32(truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000)
        for vBucket in engine.all {
            var place: UInt64? = 0
            while let from = place {
                place = vBucket.withCore { core in
                    core.forgetTombstones(
                        from: from,
                        groupsMax: ItemPager.groupsPerSlice,
                        deletedBefore: isAboveLow ? .max : now &- 60
                    ).next
                }
            }
        }
    }
}
