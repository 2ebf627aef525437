internal import Vocabulary

/// The protocol's expiry field as absolute seconds.
enum Expiry {
    /// - Parameters:
    ///   - field: 0 never; up to 30 days relative; beyond that since 1970, as memcached has it.
    ///   - now: Seconds since 1970.
    ///   - maxTTL: The bucket's bound on the life of a document; 0 for none.
    /// - Returns: Seconds since 1970, or 0 for never.
    static func absolute(_ field: UInt32, now: UInt32, maxTTL: UInt32) -> UInt32 {
        let wanted = field == 0 || field > Limits.relativeExpiryMax ? field : now &+ field
        guard maxTTL > 0 else { return wanted }
        let latest = now &+ maxTTL
        return wanted == 0 ? latest : min(wanted, latest)
    }
}
