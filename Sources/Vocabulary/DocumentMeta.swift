/// The metadata of one version of a document: everything but its key and its value.
@usableFromInline
package struct DocumentMeta: Hashable, Sendable {
    @usableFromInline package var seqno: Seqno
    @usableFromInline package var cas: CAS
    /// How often the document changed, across deletions: 1 for the first version.
    @usableFromInline package var revision: UInt64
    /// The client's own 32 bits, stored unchanged.
    @usableFromInline package var flags: UInt32
    /// Absolute seconds since 1970, or 0 for never; for a tombstone, the time of the deletion.
    @usableFromInline package var expiry: UInt32
    @usableFromInline package var datatype: Datatype
    /// A tombstone: the document is deleted, its metadata stays until it is purged.
    @usableFromInline package var isDeleted: Bool
    /// The document expired; no client deleted it.
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
