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

/// Decides whether the vBuckets of a lane file refuse writes, because nothing of them reaches the disk.
///
/// A disk that is only loaded completes commits, one after the other, although a change may wait for longer
/// than the limit: writes go on. If there is a change that old and no commit has been completed for that
/// long, commits fail or hang, and each further write would only add to what a crash loses.
///
/// Time in which nothing was checked does not count: the process was suspended, and its commits with it.
///
/// A machine without a clock: times are arguments, in monotonic nanoseconds.
package struct FlushStall: Sendable {
    /// How long changes may wait without any commit: the age of a change that a crash may lose.
    package static let nanosecondsMax = UInt64(Limits.persistenceStallMilliseconds) * 1_000_000

    /// Checks are at most one second apart; a longer pause means that the process was suspended.
    package static let checkPauseNanosecondsMax: UInt64 = 1_900_000_000

    package private(set) var isStalled = false
    private var committedAt: UInt64 = 0
    private var checkedAt: UInt64 = 0
    /// When the checks began, or began again after a suspension.
    private var watchedSince: UInt64 = 0

    package init() {}

    /// When the lane counts as stalled if no commit is completed.
    ///
    /// - Parameter oldest: When the oldest unpersisted change arrived; nil if there is none.
    /// - Returns: Nil without an unpersisted change.
    package func due(oldest: UInt64?) -> UInt64? {
        oldest.map { max($0, committedAt, watchedSince) &+ FlushStall.nanosecondsMax }
    }

    /// Looks for a stall.
    ///
    /// - Returns: Whether the lane has become stalled now.
    package mutating func check(oldest: UInt64?, now: UInt64) -> Bool {
        if now - min(checkedAt, now) > FlushStall.checkPauseNanosecondsMax { watchedSince = now }
        checkedAt = now
        guard !isStalled, let due = due(oldest: oldest), due <= now else { return false }
        isStalled = true
        return true
    }

    /// A commit was completed.
    ///
    /// - Returns: Whether the lane is stalled no longer.
    package mutating func committed(at now: UInt64) -> Bool {
        committedAt = now
        return exchange(&isStalled, with: false)
    }
}
