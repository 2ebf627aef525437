/// How many errors of user interfaces a node writes to its log in a minute: a page or a tool that fails
/// in a loop must not fill the disk of the log.
///
/// A minute begins with the first report after the minute before.
struct ClientReportBudget: Sendable {
    /// One in three seconds, on average: each error of a person's work, not those of a loop.
    static let reportsPerMinute = 20
    static let minuteNanoseconds: UInt64 = 60_000_000_000

    /// The decision about a report.
    enum Outcome: Hashable, Sendable {
        case write
        /// To be dropped: the next minute begins after so many nanoseconds. The first one of its kind
        /// since `removeDropped` is marked.
        case drop(restNanoseconds: UInt64, isFirst: Bool)
    }

    /// The end of the minute, in monotonic nanoseconds.
    private var end: UInt64 = 0
    private var written = 0
    /// Since `removeDropped`.
    private var dropped = 0

    /// Counts a report, and decides what becomes of it.
    ///
    /// - Parameter now: Monotonic nanoseconds.
    /// - Returns: Whether it is written.
    mutating func admit(now: UInt64) -> Outcome {
        if now >= end {
            end = now + Self.minuteNanoseconds
            written = 0
        }
        guard written >= Self.reportsPerMinute else {
            written += 1
            return .write
        }
        dropped += 1
        return .drop(restNanoseconds: end - now, isFirst: dropped == 1)
    }

    /// How many reports were dropped since the last call.
    mutating func removeDropped() -> Int {
        defer { dropped = 0 }
        return dropped
    }
}
