package import Bytes
package import Vocabulary

/// The extras of SET_WITH_META, ADD_WITH_META and DELETE_WITH_META: the metadata that another
/// cluster gave a version.
///
/// Layout: flags 4, expiry 4, revision 8, CAS 8; then options 4, the length of the extended metadata
/// 2, or both.
package struct WithMetaExtras: Hashable, Sendable {
    package struct Options: OptionSet, Hashable, Sendable {
        package let rawValue: UInt32

        package init(rawValue: UInt32) { self.rawValue = rawValue }

        /// The version is stored even if the current one would win.
        package static let skipsConflictResolution = Options(rawValue: 0x01)
        /// Needed in buckets that resolve conflicts by time, and refused in all others.
        package static let forcesAcceptance = Options(rawValue: 0x02)
        /// The version gets a CAS of this cluster.
        package static let regeneratesCAS = Options(rawValue: 0x04)
        /// The deletion is an expiration.
        package static let isExpiration = Options(rawValue: 0x10)
    }

    package let flags: UInt32
    /// Absolute seconds, or 0; not read for a deletion.
    package let expiry: UInt32
    package let revision: UInt64
    package let cas: CAS
    package let options: Options
    /// The bytes of extended metadata at the end of the value, which have no effect.
    package let extendedCount: Int

    /// The lengths of extras that a request may have.
    package static let counts = [24, 26, 28, 30]

    /// Decodes extras of one of the `counts`; nil for any other length.
    package init?(_ extras: ByteView) {
        guard WithMetaExtras.counts.contains(extras.count) else { return nil }
        flags = extras.bigEndian(at: 0, as: UInt32.self)
        expiry = extras.bigEndian(at: 4, as: UInt32.self)
        revision = extras.bigEndian(at: 8, as: UInt64.self)
        cas = CAS(extras.bigEndian(at: 16, as: UInt64.self))
        let hasOptions = extras.count >= 28
        options = Options(
            rawValue: hasOptions ? extras.bigEndian(at: 24, as: UInt32.self) : 0
        )
        let hasLength = extras.count == 26 || extras.count == 30
        extendedCount =
            hasLength ? Int(extras.bigEndian(at: extras.count - 2, as: UInt16.self)) : 0
    }
}

extension WithMetaExtras {
    /// Why the options contradict each other, or are not for buckets that resolve conflicts by
    /// revision; nil if they are accepted.
    package func flaw(isDeletion: Bool) -> String? {
        let known: Options = [
            .skipsConflictResolution, .forcesAcceptance, .regeneratesCAS, .isExpiration,
        ]
        guard options.isSubset(of: known) else { return "An option is unknown." }
        if options.contains(.forcesAcceptance) {
            return "Only buckets that resolve conflicts by time need FORCE_ACCEPT_WITH_META_OPS."
        }
        if options.contains(.regeneratesCAS), !options.contains(.skipsConflictResolution) {
            return "REGENERATE_CAS needs SKIP_CONFLICT_RESOLUTION."
        }
        return options.contains(.isExpiration) && !isDeletion ? "Only a deletion expires." : nil
    }
}
