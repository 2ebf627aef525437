internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary
internal import Wire

/// Loads a bucket from disk at start: keys and metadata first, then values, while requests are
/// served.
///
/// Each lane file is read in its own order, which is fastest. A request for a vBucket that is not
/// loaded yet has that one loaded next, and waits only for it.
///
/// - A read error affects only its own vBuckets. After an error vBuckets are loaded one by one, and
///   those that fail are retried until they are read, or dropped with their copy.
/// - All work of one lane file runs on one reader lane, in steps.
final class Warmup: Sendable {
    typealias Waiter = @Sendable (Completion) -> Void

    struct State {
        /// vBuckets that are not loaded yet, with the callbacks that wait for them.
        var missing: [VBucketID: [Waiter]] = [:]
        /// The errors of vBuckets that could not be read; they are retried.
        var failures: [VBucketID: String] = [:]
        /// vBuckets for which requests wait, by lane file.
        var wanted: [Int: [VBucketID]] = [:]
        /// The errors of lane files that are closed until the node restarts.
        var closed: [Int: String] = [:]
        /// The number of unfinished passes over values, by lane file.
        var cold: [Int: Int] = [:]
        var isStopped = false
    }

    let parts: BucketParts
    /// The files of this instance's generation; a bucket flush replaces the files of the store.
    let files: [LaneStore]
    let state = Guarded(State())
    private let total: Int
    private let listener = Guarded<(@Sendable (VBucketID) -> Void)?>(nil)

    /// Prepares to load `records`: the vBuckets that exist on disk.
    init(_ parts: BucketParts, records: [VBucketRecord]) {
        self.parts = parts
        files = parts.store.lanes
        total = records.count
        state.withLock { state in
            for record in records { state.missing[record.id] = [] }
            for lane in files {
                if let reason = lane.closedBy { state.closed[lane.number] = reason.description }
            }
        }
    }

    /// 0 to 1; nil once every readable vBucket is loaded.
    var progress: Double? {
        let left = state.withLock { state in
            state.missing.keys.count {
                state.failures[$0] == nil && state.closed[laneNumber($0)] == nil
            }
        }
        return left == 0 ? nil : 1 - Double(left) / Double(max(total, 1))
    }

    /// Whether the values of a lane file are warmed up; also true for a file that cannot be read.
    func isWarm(_ lane: Int) -> Bool { state.withLock { $0.cold[lane, default: 0] == 0 } }

    /// The error of an unreadable part of the bucket; nil if there is none.
    var failure: String? {
        state.withLock { state in
            state.closed.min { $0.key < $1.key }?.value
                ?? state.failures.min { $0.key < $1.key }?.value
        }
    }

    /// vBuckets that could not be read so far; empty if there are none.
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

    /// Calls `done` once the vBucket is loaded or failed to load; at once if either happened
    /// before.
    func whenLoaded(_ vBucket: VBucketID, _ done: @escaping Waiter) {
        let known: Completion? = state.withLock { state in
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
        if let known { done(known) }
    }

    func laneNumber(_ vBucket: VBucketID) -> Int { Int(vBucket.number) % files.count }

    /// Begins to read all lane files.
    func start() {
        let busy = files.filter { $0.exists && $0.closedBy == nil }
        state.withLock { state in
            for lane in busy { state.cold[lane.number] = 1 }
        }
        for lane in busy {
            let worker = parts.lanes.reader(ofLane: lane.number)
            worker.lane.post { [self] in step(lane, .start, on: worker) }
        }
        guard busy.isEmpty else { return }
        // Without a file there is nothing to load.
        let left = state.withLock { state in
            state.missing.keys.filter { state.closed[laneNumber($0)] == nil }.sorted()
        }
        for id in left { end(id, [], in: nil) }
    }

    /// Serves a loaded vBucket.
    ///
    /// Prepares are loaded last, since a change of their key completes them.
    func end(_ id: VBucketID, _ prepares: [StoredPrepare], in context: LaneContext?) {
        parts.engine[id.number]?.withCore { core in
            if !core.isLoaded, let context {
                let turn = context.turn(parts.environment.time.wallNanoseconds())
                for prepare in prepares { core.load(prepare, parts.engine.hash, in: turn) }
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

    /// Sets `notify`, to be called with every vBucket that is loaded from now on.
    func listen(_ notify: @escaping @Sendable (VBucketID) -> Void) {
        listener.withLock { $0 = notify }
    }

    private static let gone = Completion.failed(
        .temporaryFailure,
        "The bucket was flushed or deleted."
    )

    /// The bucket closes: loading stops, and waiting requests are retried with its successor.
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
        in turn: borrowing ExecutionContext
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
