internal import Vocabulary

/// Says when a rebalance has not moved for so long that the log should tell of it, and again while
/// it stands.
package struct Standstill: Hashable, Sendable {
    private var movedAt: UInt64
    private var saidAt: UInt64

    /// - Parameter now: In monotonic nanoseconds, as everywhere here.
    package init(now: UInt64) {
        movedAt = now
        saidAt = now
    }

    /// A move took a step.
    package mutating func moved(now: UInt64) { self = Standstill(now: now) }

    /// - Returns: For how many seconds nothing moved, where it is time to say so.
    package mutating func secondsToTell(now: UInt64) -> UInt64? {
        let silence = Limits.rebalanceSilenceMilliseconds * 1_000_000
        guard now >= saidAt + silence else { return nil }
        saidAt = now
        return (now - movedAt) / 1_000_000_000
    }
}
