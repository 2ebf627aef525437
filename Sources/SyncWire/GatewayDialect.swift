/// The release of Sync Gateway whose answers a database gives.
///
/// Dialects differ in numbers and digests, in the texts of refusals, in the effect of an absent member of a
/// principal, and in what a feed does with documents of lost channels. A database has one dialect for its whole
/// life.
package enum GatewayDialect: String, Sendable {
    /// Sync Gateway 1.4 and 1.5.
    case first = "1.4"
    /// Sync Gateway 3, and files of 2.
    case third = "3"

    /// How documents have their numbers, in answers, revision digests and the store.
    package var numbers: CanonicalJSON.Numbers { self == .first ? .doubles : .literals }

    /// Whether the digest of a revision is made of its attachments too.
    package var digestsAttachments: Bool { self == .first }
}
