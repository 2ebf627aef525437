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

    private let parts: BucketParts
    private let store: LaneStore
    private let state = Guarded(State())

    init(_ parts: BucketParts, store: LaneStore) {
        self.parts = parts
        self.store = store
    }

    private var flushAlert: String { "flush/\(parts.engine.name)/\(store.number)" }
    private var stallAlert: String { "stall/\(parts.engine.name)/\(store.number)" }

    /// A commit was completed, on the writer lane.
    func committed() {
        let now = parts.environment.time.monotonicNanoseconds()
        let isReleased = state.withLock { state in
            state.failure = nil
            return state.stall.committed(at: now)
        }
        parts.alerts.clear(flushAlert)
        guard isReleased else { return }
        release()
        parts.environment.trace.info(
            "flusher",
            bucket: parts.engine.name,
            "bucket \(parts.engine.name): changes reach the disk again, and writes are accepted"
        )
    }

    /// A commit has failed; it is retried.
    func failed(_ description: String) {
        state.withLock { $0.failure = description }
        parts.report("flusher", description)
        parts.alerts.raise(
            flushAlert,
            "Changes of bucket \(parts.engine.name) cannot be written to disk: \(description). They "
                + "stay in memory, and the commit is retried every second."
        )
    }

    /// Holds writes if no commit was completed for too long.
    ///
    /// - Parameter oldest: When the oldest unpersisted change arrived; nil if there is none.
    /// - Returns: When to check again, if that is before the next round; nil for no such moment.
    func check(oldest: UInt64?) -> UInt64? {
        let now = parts.environment.time.monotonicNanoseconds()
        let (isNew, failure, due) = state.withLock { state in
            let isNew = state.stall.check(oldest: oldest, now: now)
            let due = state.stall.isStalled ? nil : state.stall.due(oldest: oldest)
            return (isNew, state.failure, due)
        }
        guard isNew else { return due }
        let cause =
            failure ?? "a write to its files does not end; check the disk and the kernel's log"
        let message =
            "Bucket \(parts.engine.name) has persisted nothing for "
            + "\(Limits.persistenceStallMilliseconds / 1_000) seconds: \(cause). Until it does, writes to \(vBucketCount) of its vBuckets get a "
            + "temporary failure; reads are served."
        parts.environment.trace.error("flusher", bucket: parts.engine.name, message)
        parts.alerts.raise(stallAlert, message)
        forEachVBucket { $0.holdWrites(.stalledDisk) }
        // A commit that was completed meanwhile may have released the vBuckets before they were held.
        if !state.withLock({ $0.stall.isStalled }) { release() }
        return nil
    }

    private func release() {
        forEachVBucket { $0.releaseWrites(.stalledDisk) }
        parts.alerts.clear(stallAlert)
    }

    private var vBucketCount: Int {
        parts.engine.all.count { vBucket in vBucket.withCore { store.owns($0.id) } }
    }

    private func forEachVBucket(_ change: (inout VBucketCore) -> Void) {
        for vBucket in parts.engine.all {
            vBucket.withCore { core in
                if store.owns(core.id) { change(&core) }
            }
        }
    }
}
