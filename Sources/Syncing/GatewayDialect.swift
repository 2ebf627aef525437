/// Which release of Sync Gateway a database answers like.
///
/// The dialects differ in the texts of refusals, in what an absent member of a principal means, and in
/// what a feed does with documents of lost channels. A database has one dialect for its whole life.
package enum GatewayDialect: UInt8, Sendable {
    /// As Sync Gateway 1.4 and 1.5.
    case first
    /// As Sync Gateway 3.
    case third
}
