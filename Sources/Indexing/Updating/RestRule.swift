/// Decides when an index that has nothing to do closes its file and its feeds.
///
/// An open index costs 1.5 MB and 5 file descriptors, and an opening 10 ms. A node with few open indexes
/// keeps them over the pauses of an application that is in use; a node with many closes each as soon as it
/// has nothing to do.
///
/// - An index that is opened again soon after it was closed stays open twice as long the next time: a bucket
///   that changes every few seconds does not open and close its indexes again and again.
package struct RestRule: Sendable {
    package struct Limits: Hashable, Sendable {
        /// How long an index has nothing to do before it is closed.
        package var quietNanoseconds: UInt64 = 60_000_000_000
        /// The same while more than `openMax` indexes are open.
        package var quietShortNanoseconds: UInt64 = 2_000_000_000
        /// An index whose changes come more slowly than this is at rest between them.
        package var quietNanosecondsMax: UInt64 = 600_000_000_000
        /// Open indexes of a node that are not hurried: 100 MB and 320 descriptors.
        package var openMax = 64

        package init() {}
    }

    /// A rest that is shorter than this many times the quiet time before it was not worth its opening.
    private static let restsMin: UInt64 = 10

    private let limits: Limits
    /// Since when the index has nothing to do; nil if it has.
    private var quietSince: UInt64?
    private var rest: (at: UInt64, after: UInt64)?
    /// The multiplier of the quiet time.
    private var factor: UInt64 = 1

    package init(_ limits: Limits = Limits()) { self.limits = limits }

    /// Checks regularly whether an open index is to be closed now.
    ///
    /// - Parameters:
    ///   - isQuiet: Whether it has had nothing to do since the last check.
    ///   - openIndexes: The open indexes of the node.
    ///   - now: The time in monotonic nanoseconds.
    /// - Returns: Whether it is to be closed; if it is not, the quiet time begins anew.
    package mutating func check(isQuiet: Bool, openIndexes: Int, now: UInt64) -> Bool {
        guard isQuiet else {
            quietSince = nil
            return false
        }
        let since = quietSince ?? now
        let isDue = now - min(since, now) >= quietTime(openIndexes)
        quietSince = isDue ? nil : since
        return isDue
    }

    /// The index was closed.
    package mutating func closed(openIndexes: Int, now: UInt64) {
        rest = (now, quietTime(openIndexes))
        quietSince = nil
    }

    /// The index is opened, for the first time or because of a change or a query.
    package mutating func opened(now: UInt64) {
        guard let rest else { return }
        self.rest = nil
        let wasShort = now - min(rest.at, now) < RestRule.restsMin * rest.after
        factor = wasShort ? min(2 * factor, 1 << 16) : 1
    }

    private func quietTime(_ openIndexes: Int) -> UInt64 {
        let time =
            openIndexes > limits.openMax ? limits.quietShortNanoseconds : limits.quietNanoseconds
        return min(time * factor, limits.quietNanosecondsMax)
    }
}
