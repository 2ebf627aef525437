internal import Engine
internal import Vocabulary

/// The protocol's expiry field as absolute seconds.
enum ExpiryField {
    /// Converts the field; a relative time is rounded up to a whole second, so that no document
    /// expires early.
    ///
    /// - Parameters:
    ///   - field: 0 for never; up to 30 days relative; larger values are seconds since 1970, as in
    ///     memcached.
    ///   - maxTTL: The bucket's longest lifetime of documents in seconds; 0 for none.
    ///   - turn: The current turn.
    /// - Returns: Seconds since 1970, or 0 for never.
    static func absolute(_ field: UInt32, maxTTL: UInt32, _ turn: borrowing ExecutionContext)
        -> UInt32
    {
        let isRelative = field > 0 && field <= Limits.relativeExpiryMax
        let wanted = isRelative ? turn.end(after: field) : field
        return bounded(wanted, maxTTL: maxTTL, turn)
    }

    /// An expiry in seconds since 1970, or 0 for never, within the bucket's longest lifetime.
    static func bounded(_ wanted: UInt32, maxTTL: UInt32, _ turn: borrowing ExecutionContext)
        -> UInt32
    {
        guard maxTTL > 0 else { return wanted }
        let latest = turn.end(after: maxTTL)
        return wanted == 0 ? latest : min(wanted, latest)
    }
}
