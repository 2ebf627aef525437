internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// The alerts of one lane file's commits, and the hold on writes while none is completed.
///
/// - A failed commit raises an alert at once. Writes are held when `FlushStall` decides it, and until the next
///   commit is completed; reads are served meanwhile.
final class FlushWatch: Sendable {
    private struct State {
        var stall = FlushStall()
        /// Why the newest commit failed; nil if it did not, or has not ended.
        var failure: String?
    }

    private let engine: Bucket
    private let store: LaneStore
    private let environment: Environment
    private let alerts: AlertBoard
    private let state = Guarded(State())

    init(engine: Bucket, store: LaneStore, environment: Environment, alerts: AlertBoard) {
        self.engine = engine
        self.store = store
        self.environment = environment
        self.alerts = alerts
    }

    private var flushAlert: String { "flush/\(engine.name)/\(store.number)" }
    private var stallAlert: String { "stall/\(engine.name)/\(store.number)" }

    /// A commit was completed, on the writer lane.
    func committed() {
        let now = environment.time.monotonicNanoseconds()
        let isReleased = state.withLock { state in
            state.failure = nil
            return state.stall.committed(at: now)
        }
        alerts.clear(flushAlert)
        guard isReleased else { return }
        release()
        environment.trace.info(
            "flusher",
            bucket: engine.name,
            "bucket \(engine.name): changes reach the disk again, and writes are accepted"
        )
    }

    /// A commit has failed; it is retried.
    func failed(_ description: String) {
        state.withLock { $0.failure = description }
        environment.trace.error(
            "flusher",
            bucket: engine.name,
            "bucket \(engine.name): \(description)"
        )
        alerts.raise(
            flushAlert,
            "Changes of bucket \(engine.name) cannot be written to disk: \(description). They stay in "
                + "memory, and the commit is retried every second."
        )
    }

    /// Holds writes if no commit was completed for too long.
    ///
    /// - Parameter oldest: When the oldest unpersisted change arrived; nil if there is none.
    /// - Returns: When to check again, if that is before the next round; nil for no such moment.
    func check(oldest: UInt64?) -> UInt64? {
        let now = environment.time.monotonicNanoseconds()
        let (isNew, failure, due) = state.withLock { state in
            let isNew = state.stall.check(oldest: oldest, now: now)
            let due = state.stall.isStalled ? nil : state.stall.due(oldest: oldest)
            return (isNew, state.failure, due)
        }
        guard isNew else { return due }
        let cause =
            failure ?? "a write to its files does not end; check the disk and the kernel's log"
        let message =
            "Bucket \(engine.name) has persisted nothing for \(Limits.persistenceStallMilliseconds / 1_000) "
            + "seconds: \(cause). Until it does, writes to \(vBucketCount) of its vBuckets get a "
            + "temporary failure; reads are served."
        environment.trace.error("flusher", bucket: engine.name, message)
        alerts.raise(stallAlert, message)
        forEachVBucket { $0.holdWrites(.stalledDisk) }
        // A commit that was completed meanwhile may have released the vBuckets before they were held.
        if !state.withLock({ $0.stall.isStalled }) { release() }
        return nil
    }

    private func release() {
        forEachVBucket { $0.releaseWrites(.stalledDisk) }
        alerts.clear(stallAlert)
    }

    private var vBucketCount: Int {
        engine.all.count { vBucket in vBucket.withCore { store.owns($0.id) } }
    }

    private func forEachVBucket(_ change: (inout VBucketCore) -> Void) {
        for vBucket in engine.all {
            vBucket.withCore { core in
                if store.owns(core.id) { change(&core) }
            }
        }
    }
}
