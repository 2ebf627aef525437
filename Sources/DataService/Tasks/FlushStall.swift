internal import Vocabulary

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
