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
        /// Complete compaction was requested and runs.
        var isForced = false
        /// It is to end before its next step.
        var isCancelled = false
        /// Of the complete compaction that runs, or of the last one.
        var work = CompactionWork(done: 0, total: 0)
    }

    private let parts: BucketParts
    private let store: LaneStore
    private let warmup: Warmup
    private let worker: DataLanes.Worker
    private let state = Guarded(State())

    private static let stepBytes = 4 << 20
    /// An idle lane checks for work this long after the last commit.
    private static let idleNanoseconds: UInt64 = 1_000_000_000

    init(_ parts: BucketParts, store: LaneStore, warmup: Warmup) {
        self.parts = parts
        self.store = store
        self.warmup = warmup
        worker = parts.lanes.writer(ofLane: store.number)
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Compacts everything, step by step; callable from any lane.
    ///
    /// - Returns: Whether it runs: false before warmup has ended, and after `stop`.
    func compactAll() -> Bool {
        guard isReady else { return false }
        let left = UInt64(store.documentsToCompact())
        let isFirst = state.withLock { state in
            state.isCancelled = false
            guard !state.isForced else { return false }
            state.isForced = true
            state.work = CompactionWork(done: 0, total: left)
            return true
        }
        if isFirst { worker.lane.post { [self] in forcedStep() } }
        return true
    }

    /// Ends complete compaction before its next step; callable from any lane.
    ///
    /// A step is one transaction, so the file is complete and intact between two of them. What was
    /// compacted stays compacted.
    func cancel() { state.withLock { $0.isCancelled = $0.isForced } }

    /// The complete compaction that runs, or the last one, and whether it runs.
    var forced: (work: CompactionWork, isRunning: Bool) {
        state.withLock { ($0.work, $0.isForced && !$0.isCancelled) }
    }

    // MARK: On the writer lane

    /// Before a commit: compacts if flushing is far ahead of compaction.
    func beforeCommit() {
        guard isReady, store.compactionNeeded().mustPrecedeFlushing else { return }
        for _ in 0..<4 where store.compactionNeeded().mustPrecedeFlushing {
            guard step() != nil else { return }
        }
    }

    /// After a commit of `rawBytes` of values: runs the steps that they earned.
    func afterCommit(rawBytes: Int) {
        guard isReady else { return }
        let earned = store.compactionNeeded().bytesPerFlushedByte * Double(rawBytes)
        let now = parts.environment.time.monotonicNanoseconds()
        let steps: Int = state.withLock { state in
            state.lastCommit = now
            state.budget += earned
            let steps = Int(state.budget / Double(Compactor.stepBytes))
            state.budget -= Double(steps * Compactor.stepBytes)
            return min(steps, 4)
        }
        for _ in 0..<steps { guard step() != nil else { break } }
        postIdleStep(after: Compactor.idleNanoseconds)
    }

    private var isReady: Bool { warmup.progress == nil && !state.withLock { $0.isStopped } }

    private func postIdleStep(after nanoseconds: UInt64) {
        let isFirst = state.withLock { !exchange(&$0.isIdlePosted, with: true) && !$0.isStopped }
        guard isFirst else { return }
        worker.lane.post(after: nanoseconds) { [self] in
            let before = parts.environment.time.monotonicNanoseconds()
            let isIdle = state.withLock { state in
                state.isIdlePosted = false
                return before &- state.lastCommit >= Compactor.idleNanoseconds
            }
            // While changes arrive, the flushed bytes earn the necessary steps.
            guard isIdle else { return postIdleStep(after: Compactor.idleNanoseconds) }
            guard isReady, store.compactionNeeded().isWorthIdleTime else { return }
            guard step(isUnhurried: true) != nil else { return }
            // One part work, three parts rest.
            let worked = parts.environment.time.monotonicNanoseconds() - before
            postIdleStep(after: 3 * worked)
        }
    }

    private func forcedStep() {
        // A request that arrives after the cancellation withdraws it, or finds that this has ended.
        let isEnded = state.withLock { state in
            guard state.isCancelled || state.isStopped else { return false }
            (state.isForced, state.isCancelled) = (false, false)
            return true
        }
        if isEnded { return }
        guard isReady, let summary = step(isUnhurried: true) else {
            return state.withLock { ($0.isForced, $0.isCancelled) = (false, false) }
        }
        let left = UInt64(store.documentsToCompact())
        state.withLock { state in
            state.work.done += UInt64(summary.rewritten + summary.dropped)
            state.work.total = state.work.done + left
        }
        worker.lane.post { [self] in forcedStep() }
    }

    /// Runs one bounded step.
    ///
    /// - Returns: What it did; nil if there was nothing to do, or the step failed.
    private func step(isUnhurried: Bool = false) -> CompactionSummary? {
        do throws(StorageError) {
            let summary = try store.compactStep(
                bytesMax: Compactor.stepBytes,
                isUnhurried: isUnhurried
            ) { id, key, seqno in
                parts.currentSeqno(id, key, asked: seqno)
            }
            return summary.kind == .nothing ? nil : summary
        } catch {
            if error.code != .gone, isReady {
                parts.report("compactor", error.description)
            }
            return nil
        }
    }
}
