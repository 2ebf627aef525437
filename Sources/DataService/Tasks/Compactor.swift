internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Rewrites one lane file's blocks without their dead versions: as much as flushing requires, and a
/// little more while the lane is idle.
///
/// Runs on the lane file's writer lane, between commits. Every flushed byte earns a budget that
/// grows with the dead share of the file; a step runs once the budget covers it. An idle lane works
/// a quarter of the time.
final class Compactor: Sendable {
    private struct State {
        var budget = 0.0
        var isIdlePosted = false
        var lastCommit: UInt64 = 0
        var isStopped = false
        /// Complete compaction was requested.
        var isForced = false
    }

    private let engine: Bucket
    private let store: LaneStore
    private let warmup: Warmup
    private let worker: DataLanes.Worker
    private let environment: Environment
    private let state = Guarded(State())

    private static let stepBytes = 4 << 20
    /// An idle lane checks for work this long after the last commit.
    private static let idleNanoseconds: UInt64 = 1_000_000_000

    init(
        engine: Bucket,
        store: LaneStore,
        warmup: Warmup,
        worker: DataLanes.Worker,
        environment: Environment
    ) {
        self.engine = engine
        self.store = store
        self.warmup = warmup
        self.worker = worker
        self.environment = environment
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Compacts everything, step by step.
    ///
    /// Callable from any lane.
    func compactAll() {
        let isFirst = state.withLock { state in
            defer { state.isForced = true }
            return !state.isForced
        }
        if isFirst { worker.lane.post { [self] in forcedStep() } }
    }

    var isForced: Bool { state.withLock { $0.isForced } }

    // MARK: On the writer lane

    /// Before a commit: compacts if flushing is far ahead of compaction.
    func beforeCommit() {
        guard isReady, store.compactionNeeded().mustPrecedeFlushing else { return }
        for _ in 0..<4 where store.compactionNeeded().mustPrecedeFlushing {
            guard step() else { return }
        }
    }

    /// After a commit of `rawBytes` of values: runs the steps that they earned.
    func afterCommit(rawBytes: Int) {
        guard isReady else { return }
        let earned = store.compactionNeeded().bytesPerFlushedByte * Double(rawBytes)
        let now = environment.time.monotonicNanoseconds()
        let steps: Int = state.withLock { state in
            state.lastCommit = now
            state.budget += earned
            let steps = Int(state.budget / Double(Compactor.stepBytes))
            state.budget -= Double(steps * Compactor.stepBytes)
            return min(steps, 4)
        }
        for _ in 0..<steps { guard step() else { break } }
        postIdleStep(after: Compactor.idleNanoseconds)
    }

    private var isReady: Bool { warmup.progress == nil && !state.withLock { $0.isStopped } }

    private func postIdleStep(after nanoseconds: UInt64) {
        let isFirst = state.withLock { state in
            defer { state.isIdlePosted = true }
            return !state.isIdlePosted && !state.isStopped
        }
        guard isFirst else { return }
        worker.lane.post(after: nanoseconds) { [self] in
            let before = environment.time.monotonicNanoseconds()
            let isIdle = state.withLock { state in
                state.isIdlePosted = false
                return before &- state.lastCommit >= Compactor.idleNanoseconds
            }
            // While changes arrive, the flushed bytes earn the necessary steps.
            guard isIdle else { return postIdleStep(after: Compactor.idleNanoseconds) }
            guard isReady, store.compactionNeeded().isWorthIdleTime else { return }
            guard step(isUnhurried: true) else { return }
            // One part work, three parts rest.
            let worked = environment.time.monotonicNanoseconds() - before
            postIdleStep(after: 3 * worked)
        }
    }

    private func forcedStep() {
        let isMore = isReady && step(isUnhurried: true)
        guard isMore else { return state.withLock { $0.isForced = false } }
        worker.lane.post { [self] in forcedStep() }
    }

    /// Runs one bounded step.
    ///
    /// - Returns: False if there was nothing to do, or the step failed.
    private func step(isUnhurried: Bool = false) -> Bool {
        do throws(StorageError) {
            let summary = try store.compactStep(
                bytesMax: Compactor.stepBytes,
                isUnhurried: isUnhurried
            ) { id, key, seqno in
                engine[id.number]?.withCore { core in
                    // A vBucket that is not loaded may have versions only on disk: all of them
                    // count.
                    guard core.isLoaded else { return seqno }
                    return core.currentSeqno(of: key, hash: engine.hash(key), asked: seqno)
                }
            }
            return summary.kind != .nothing
        } catch {
            if error.code != .gone, isReady {
                let name = engine.name
                environment.trace.error("compactor", "bucket \(name): \(error.description)")
            }
            return false
        }
    }
}
