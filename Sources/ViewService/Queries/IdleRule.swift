/// Decides when an index frees what it keeps in memory for queries: after a minute without a query.
///
/// A query leaves only a mark. The time at which a regular check finds the mark counts as the time of the
/// query: to read a clock and to store the time for each query would cost more. So an index frees its
/// memory after a minute and up to two intervals of the check.
package struct IdleRule: Sendable {
    /// Longer than the pauses of an application that is in use; short beside a night.
    package static let idleNanosecondsMin: UInt64 = 60_000_000_000

    /// Whether a query has begun since the last check.
    private var isMarked = false
    /// The last check that found a query; nil if there was none since the last freeing.
    private var usedAt: UInt64?

    /// The rule of an index that keeps nothing.
    package init() {}

    /// A query begins.
    package mutating func mark() { isMarked = true }

    /// Checks whether the index frees its memory now.
    ///
    /// - Parameters:
    ///   - now: The time of this check.
    ///   - isInUse: Whether a query reads the index.
    /// - Returns: True once for each pause without queries.
    package mutating func check(_ now: UInt64, isInUse: Bool) -> Bool {
        if isMarked || isInUse {
            isMarked = false
            usedAt = now
            return false
        }
        guard let usedAt, now - min(usedAt, now) >= IdleRule.idleNanosecondsMin else {
            return false
        }
        self.usedAt = nil
        return true
    }
}
