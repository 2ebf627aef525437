internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// RAM from disk: keys and metadata first, then values, while requests are served.
///
/// Each lane file is read in its own order, which is fastest. A request for a vBucket that is not
/// loaded yet has that one loaded next, alone, and waits for no more than that.
final class Warmup: Sendable {
    private struct State {
        /// vBuckets that are not loaded yet, with who waits for them.
        var missing: [VBucketID: [@Sendable (Completion) -> Void]] = [:]
        /// Asked for, by lane.
        var wanted: [Int: [VBucketID]] = [:]
        /// Why, of the lanes that cannot be read.
        var failures: [Int: String] = [:]
        /// Lanes whose values are not all back that will come.
        var cold: Set<Int> = []
        var isStopped = false
    }

    private let engine: Bucket
    private let store: BucketStore
    private let lanes: DataLanes
    private let environment: Environment
    private let alerts: AlertBoard
    private let state = Guarded(State())
    private let total: Int
    private let listener = Guarded<(@Sendable (VBucketID) -> Void)?>(nil)

    /// Blocks read before others get their turn on the reader lane.
    private static let blocksPerStep = 64

    /// Prepares to load `records`: the vBuckets that have something on disk.
    init(
        engine: Bucket,
        store: BucketStore,
        records: [VBucketRecord],
        lanes: DataLanes,
        environment: Environment,
        alerts: AlertBoard
    ) {
        self.engine = engine
        self.store = store
        self.lanes = lanes
        self.environment = environment
        self.alerts = alerts
        total = records.count
        state.withLock { state in
            for record in records { state.missing[record.id] = [] }
            for lane in store.lanes {
                if let reason = lane.closedBy { state.failures[lane.number] = reason.description }
            }
        }
    }

    /// 0 to 1; nil once every vBucket is loaded, but for those that cannot be.
    var progress: Double? {
        let left = state.withLock { state in
            state.missing.keys.count { state.failures[laneNumber($0)] == nil }
        }
        return left == 0 ? nil : 1 - Double(left) / Double(max(total, 1))
    }

    /// Whether memory has of a lane's values what it will have; never where the lane cannot be read.
    func isWarm(_ lane: Int) -> Bool { state.withLock { !$0.cold.contains(lane) } }

    var failure: String? { state.withLock { $0.failures.values.first } }

    /// Calls `done` once the vBucket is loaded, or cannot be.
    func whenLoaded(_ vBucket: VBucketID, _ done: @escaping @Sendable (Completion) -> Void) {
        let verdict: Completion? = state.withLock { state in
            guard state.missing[vBucket] != nil else { return .ready }
            if let failure = state.failures[laneNumber(vBucket)] {
                return .failed(.temporaryFailure, failure)
            }
            state.missing[vBucket]?.append(done)
            state.wanted[laneNumber(vBucket), default: []].append(vBucket)
            return nil
        }
        if let verdict { done(verdict) }
    }

    private func laneNumber(_ vBucket: VBucketID) -> Int {
        Int(vBucket.number) % store.settings.lanes
    }

    /// Begins to read all lanes.
    func start() {
        let busy = store.lanes.filter { $0.exists && $0.closedBy == nil }
        state.withLock { $0.cold = Set(busy.map(\.number)) }
        for lane in busy {
            let worker = lanes.reader(ofLane: lane.number)
            worker.lane.post { [self] in step(lane, .start, worker) }
        }
        guard busy.isEmpty else { return }
        // No file, nothing to load.
        let left = state.withLock { state in
            state.missing.keys.filter { state.failures[laneNumber($0)] == nil }.sorted()
        }
        for id in left { end(id, [], nil) }
    }

    // MARK: On a reader lane

    private func step(_ lane: LaneStore, _ position: ScanPosition, _ worker: DataLanes.Worker) {
        guard !isStopped else { return }
        do throws(StorageError) {
            let wanted = state.withLock { $0.wanted.removeValue(forKey: lane.number) } ?? []
            for vBucket in Set(wanted).sorted() { try loadAlone(vBucket, lane, worker.context) }
            if isTight { return beginOneByOne(lane, worker) }
            let next = try scan(lane, position, worker.context)
            guard let next else {
                try endAll(lane, worker.context)
                return startValues(lane, worker)
            }
            worker.lane.post { [self] in step(lane, next, worker) }
        } catch {
            fail(lane, error)
        }
    }

    // MARK: More keys than memory

    /// Keys and metadata alone exceed memory.
    ///
    /// The quota is kept under `valueOnly`, too, where the bucket had more of it when it was filled,
    /// or another policy: what does not fit is loaded as if whole documents might leave memory.
    private var isTight: Bool { engine.account.isAboveHighWatermark }

    /// Forgets what was loaded in part: keys can only leave memory once all of a vBucket's are known.
    private func beginOneByOne(_ lane: LaneStore, _ worker: DataLanes.Worker) {
        let left = state.withLock { state in
            state.missing.keys.filter { laneNumber($0) == lane.number }.sorted()
        }
        for id in left {
            engine[id.number]?.withCore { if !$0.isLoaded { $0.restartWarmup() } }
        }
        worker.lane.post { [self] in loadOneByOne(left[...], lane, worker) }
    }

    /// Loads one vBucket after the other, and has each leave memory again before the next comes.
    private func loadOneByOne(
        _ left: ArraySlice<VBucketID>,
        _ lane: LaneStore,
        _ worker: DataLanes.Worker
    ) {
        guard !isStopped else { return }
        do throws(StorageError) {
            let wanted = state.withLock { $0.wanted.removeValue(forKey: lane.number) } ?? []
            for id in Set(wanted).sorted() { try loadAlone(id, lane, worker.context) }
            guard let id = left.first else { return startValues(lane, worker) }
            try loadAlone(id, lane, worker.context)
            evict(id, worker.context)
            worker.lane.post { [self] in loadOneByOne(left.dropFirst(), lane, worker) }
        } catch {
            fail(lane, error)
        }
    }

    private func evict(_ id: VBucketID, _ context: LaneContext) {
        var place: UInt64? = 0
        while let from = place, engine.account.bytes > engine.account.lowWatermark {
            let turn = context.turn(environment.time.wallNanoseconds())
            place =
                engine[id.number]?.withCore { core in
                    core.ejectSlice(
                        from: from,
                        groupsMax: 64,
                        threshold: .max,
                        isWhole: true,
                        turn
                    ).next
                } ?? nil
        }
    }

    // MARK: Values

    /// Values come last, once every key of the lane is known.
    private func startValues(_ lane: LaneStore, _ worker: DataLanes.Worker) {
        let values = ValueWarmup(
            engine: engine,
            lane: lane,
            worker: worker,
            environment: environment,
            isStopped: { [weak self] in self?.isStopped ?? true },
            ended: { [weak self] in self?.state.withLock { _ = $0.cold.remove(lane.number) } }
        )
        values.start()
    }

    /// The bucket goes: nothing more is loaded, and who waits for it asks for the next one.
    func stop() {
        let waiters = state.withLock { state in
            state.isStopped = true
            for lane in 0..<store.settings.lanes {
                state.failures[lane] = "The bucket was flushed or deleted"
            }
            let waiters = state.missing.values.flatMap(\.self)
            for id in state.missing.keys { state.missing[id] = [] }
            return waiters
        }
        for waiter in waiters {
            waiter(.failed(.temporaryFailure, "The bucket was flushed or deleted."))
        }
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func scan(
        _ lane: LaneStore,
        _ position: ScanPosition,
        _ context: LaneContext
    ) throws(StorageError) -> ScanPosition? {
        try lane.scanMetadata(from: position, blocksMax: Warmup.blocksPerStep) { id, cursor in
            load(id, cursor, lane, context)
            return true
        }
    }

    /// Takes up one run of a vBucket, unless that is loaded already.
    private func load(
        _ id: VBucketID,
        _ cursor: MetadataCursor,
        _ lane: LaneStore,
        _ context: LaneContext
    ) {
        guard let vBucket = engine[id.number] else { return }
        let turn = context.turn(environment.time.wallNanoseconds())
        var dead: [Seqno] = []
        vBucket.withCore { core in
            guard !core.isLoaded else { return }
            while cursor.next() {
                let lost = core.load(
                    cursor.meta,
                    key: cursor.key,
                    valueCount: cursor.valueLength,
                    hash: engine.hash(cursor.key),
                    turn
                )
                if let lost { dead.append(lost) }
            }
        }
        for seqno in dead { lane.markDead(id, seqno) }
    }

    /// Loads one vBucket at once, from its beginning: what was met of it so far is met again.
    private func loadAlone(
        _ id: VBucketID,
        _ lane: LaneStore,
        _ context: LaneContext
    ) throws(StorageError) {
        guard let vBucket = engine[id.number],
            vBucket.withCore({ core in
                guard !core.isLoaded else { return false }
                core.restartWarmup()
                return true
            })
        else { return }
        lane.resetLive(id)
        var place: Seqno? = .zero
        while let after = place {
            place = try lane.scanMetadata(id, after: after, blocksMax: Warmup.blocksPerStep) {
                load(id, $0, lane, context)
                return true
            }
        }
        end(id, try lane.prepares(of: id), context)
    }

    /// Serves what was loaded; prepares come last, as a change of their key completes them.
    private func end(_ id: VBucketID, _ prepares: [StoredPrepare], _ context: LaneContext?) {
        engine[id.number]?.withCore { core in
            if !core.isLoaded, let context {
                let turn = context.turn(environment.time.wallNanoseconds())
                for prepare in prepares { core.load(prepare, engine.hash, turn) }
            }
            core.endWarmup()
        }
        let waiters = state.withLock { $0.missing.removeValue(forKey: id) } ?? []
        for waiter in waiters { waiter(.ready) }
        listener.withLock { $0 }?(id)
    }

    /// Has `tell` called with every vBucket that is loaded from then on.
    func listen(_ tell: @escaping @Sendable (VBucketID) -> Void) {
        listener.withLock { $0 = tell }
    }

    private func endAll(_ lane: LaneStore, _ context: LaneContext) throws(StorageError) {
        let left = state.withLock { state in
            state.failures[lane.number] == nil
                ? state.missing.keys.filter { laneNumber($0) == lane.number }.sorted() : []
        }
        for id in left { end(id, try lane.prepares(of: id), context) }
    }

    private func fail(_ lane: LaneStore, _ error: StorageError) {
        // Flushed or deleted meanwhile: nothing is wrong, and `stop` tells those who wait.
        guard error.code != .gone, !isStopped else { return }
        environment.trace.error("warmup", "bucket \(engine.name): \(error.description)")
        alerts.raise(
            "warmup/\(engine.name)/\(lane.number)",
            "A part of bucket \(engine.name) cannot be read: \(error.description)."
        )
        let waiters = state.withLock { state in
            state.failures[lane.number] = error.description
            var waiters: [@Sendable (Completion) -> Void] = []
            for id in state.missing.keys.sorted() where laneNumber(id) == lane.number {
                waiters += state.missing[id] ?? []
                state.missing[id] = []
            }
            return waiters
        }
        for waiter in waiters { waiter(.failed(.temporaryFailure, error.description)) }
    }
}

extension VBucketCore {
    fileprivate mutating func load(
        _ prepare: StoredPrepare,
        _ hash: KeyHash,
        _ turn: borrowing Turn
    ) {
        prepare.key.withUnsafeBytes { key in
            prepare.value.withUnsafeBytes { value in
                loadPrepare(
                    prepare.meta,
                    level: prepare.level,
                    key: ByteView(key),
                    hash: hash(ByteView(key)),
                    value: ByteView(value),
                    turn
                )
            }
        }
    }
}
