/// All that is known of one version of a document, but its key and its value.
@usableFromInline
package struct DocumentMeta: Hashable, Sendable {
    @usableFromInline package var seqno: Seqno
    @usableFromInline package var cas: CAS
    /// How often the document changed, across deletions: 1 for the first version.
    @usableFromInline package var revision: UInt64
    /// The client's own 32 bits, kept as given.
    @usableFromInline package var flags: UInt32
    /// Absolute seconds since 1970, or 0 for never; for a tombstone: when it was deleted.
    @usableFromInline package var expiry: UInt32
    @usableFromInline package var datatype: Datatype
    /// A tombstone: the document is gone, its metadata stays until purged.
    @usableFromInline package var isDeleted: Bool
    /// The tombstone stems from an expiry, not from a client.
    @usableFromInline package var isExpired: Bool

    @inlinable
    package init(
        seqno: Seqno = .zero,
        cas: CAS = .none,
        revision: UInt64 = 1,
        flags: UInt32 = 0,
        expiry: UInt32 = 0,
        datatype: Datatype = [],
        isDeleted: Bool = false,
        isExpired: Bool = false
    ) {
        self.seqno = seqno
        self.cas = cas
        self.revision = revision
        self.flags = flags
        self.expiry = expiry
        self.datatype = datatype
        self.isDeleted = isDeleted
        self.isExpired = isExpired
    }
}
