internal import Vocabulary

/// Decides when to log that a rebalance makes no progress: after a time without progress of any
/// move, and again after each such time.
package struct Standstill: Hashable, Sendable {
    private var movedAt: UInt64
    private var loggedAt: UInt64

    /// - Parameter now: Monotonic time in nanoseconds.
    package init(now: UInt64) {
        movedAt = now
        loggedAt = now
    }

    /// Records progress of a move.
    package mutating func moved(now: UInt64) { self = Standstill(now: now) }

    /// - Returns: Seconds since the last progress, if a log line is due; otherwise nil.
    package mutating func secondsToLog(now: UInt64) -> UInt64? {
        let silence = Limits.rebalanceSilenceMilliseconds * 1_000_000
        guard now >= loggedAt + silence else { return nil }
        loggedAt = now
        return (now - movedAt) / 1_000_000_000
    }
}
