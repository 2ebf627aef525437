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
///
/// - What cannot be read costs its own vBuckets only: after an error they are loaded one by one, and
///   those that fail are tried again until they are read, or given up with their copy.
/// - Everything of one lane happens on one reader lane, a piece at a time.
final class Warmup: Sendable {
    typealias Waiter = @Sendable (Completion) -> Void

    struct State {
        /// vBuckets that are not loaded yet, with who waits for them.
        var missing: [VBucketID: [Waiter]] = [:]
        /// Why, of those that could not be read; they are tried again.
        var failures: [VBucketID: String] = [:]
        /// Asked for, by lane.
        var wanted: [Int: [VBucketID]] = [:]
        /// Why, of lanes that are closed for good.
        var closed: [Int: String] = [:]
        /// Passes over values that are not through, by lane.
        var cold: [Int: Int] = [:]
        var isStopped = false
    }

    let engine: Bucket
    /// Those of the bucket's own generation: after a flush the store has others.
    let files: [LaneStore]
    let lanes: DataLanes
    let environment: Environment
    let alerts: AlertBoard
    let state = Guarded(State())
    private let total: Int
    private let listener = Guarded<(@Sendable (VBucketID) -> Void)?>(nil)

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
        self.lanes = lanes
        self.environment = environment
        self.alerts = alerts
        files = store.lanes
        total = records.count
        state.withLock { state in
            for record in records { state.missing[record.id] = [] }
            for lane in files {
                if let reason = lane.closedBy { state.closed[lane.number] = reason.description }
            }
        }
    }

    /// 0 to 1; nil once every vBucket is loaded, but for those that cannot be.
    var progress: Double? {
        let left = state.withLock { state in
            state.missing.keys.count {
                state.failures[$0] == nil && state.closed[laneNumber($0)] == nil
            }
        }
        return left == 0 ? nil : 1 - Double(left) / Double(max(total, 1))
    }

    /// Whether memory has of a lane's values what it will have; never where the lane cannot be read.
    func isWarm(_ lane: Int) -> Bool { state.withLock { $0.cold[lane, default: 0] == 0 } }

    /// Why a part of the bucket cannot be read now.
    var failure: String? {
        state.withLock { state in
            state.closed.min { $0.key < $1.key }?.value
                ?? state.failures.min { $0.key < $1.key }?.value
        }
    }

    /// vBuckets that could not be read so far.
    var unread: Set<VBucketID> {
        state.withLock { state in
            guard !state.failures.isEmpty || !state.closed.isEmpty else { return [] }
            return Set(
                state.missing.keys.filter {
                    state.failures[$0] != nil || state.closed[laneNumber($0)] != nil
                }
            )
        }
    }

    /// Calls `done` once the vBucket is loaded, or could not be; at once where it was tried before.
    func whenLoaded(_ vBucket: VBucketID, _ done: @escaping Waiter) {
        let verdict: Completion? = state.withLock { state in
            guard state.missing[vBucket] != nil else { return .ready }
            if state.isStopped { return Warmup.gone }
            let lane = laneNumber(vBucket)
            if let failure = state.closed[lane] ?? state.failures[vBucket] {
                return .failed(.temporaryFailure, failure)
            }
            state.missing[vBucket]?.append(done)
            state.wanted[lane, default: []].append(vBucket)
            return nil
        }
        if let verdict { done(verdict) }
    }

    func laneNumber(_ vBucket: VBucketID) -> Int { Int(vBucket.number) % files.count }

    /// Begins to read all lanes.
    func start() {
        let busy = files.filter { $0.exists && $0.closedBy == nil }
        state.withLock { state in
            for lane in busy { state.cold[lane.number] = 1 }
        }
        for lane in busy {
            let worker = lanes.reader(ofLane: lane.number)
            worker.lane.post { [self] in step(lane, .start, worker) }
        }
        guard busy.isEmpty else { return }
        // No file, nothing to load.
        let left = state.withLock { state in
            state.missing.keys.filter { state.closed[laneNumber($0)] == nil }.sorted()
        }
        for id in left { end(id, [], nil) }
    }

    /// Serves what was loaded; prepares come last, as a change of their key completes them.
    func end(_ id: VBucketID, _ prepares: [StoredPrepare], _ context: LaneContext?) {
        engine[id.number]?.withCore { core in
            if !core.isLoaded, let context {
                let turn = context.turn(environment.time.wallNanoseconds())
                for prepare in prepares { core.load(prepare, engine.hash, turn) }
            }
            core.endWarmup()
        }
        let waiters = state.withLock { state in
            state.failures[id] = nil
            return state.missing.removeValue(forKey: id) ?? []
        }
        for waiter in waiters { waiter(.ready) }
        listener.withLock { $0 }?(id)
    }

    /// Has `tell` called with every vBucket that is loaded from then on.
    func listen(_ tell: @escaping @Sendable (VBucketID) -> Void) {
        listener.withLock { $0 = tell }
    }

    private static let gone = Completion.failed(
        .temporaryFailure,
        "The bucket was flushed or deleted."
    )

    /// The bucket goes: nothing more is loaded, and who waits for it asks for the next one.
    func stop() {
        let waiters = state.withLock { state in
            state.isStopped = true
            let waiters = state.missing.values.flatMap(\.self)
            for id in state.missing.keys { state.missing[id] = [] }
            return waiters
        }
        for waiter in waiters { waiter(Warmup.gone) }
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }
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
