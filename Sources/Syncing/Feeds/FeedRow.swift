package import SyncWire

/// A row of a feed.
package struct FeedRow: Hashable, Sendable {
    package let position: SequenceToken
    /// The document's id, or `_user/NAME`.
    package let document: [UInt8]
    /// The revisions of `changes`, the winner first; none for principals.
    package private(set) var revisions: [RevisionID]
    package private(set) var isDeleted: Bool
    /// The channels that the document left with this version, in order.
    package let removed: [ChannelName]
    /// Whether the user lost the last channel by which it had the document.
    package let isRevoked: Bool
    package let flags: LogRow.Flags

    init(
        _ position: SequenceToken,
        _ row: LogRow,
        removed: [ChannelName] = [],
        isRevoked: Bool = false
    ) {
        self.position = position
        document = row.document
        revisions = row.revision.map { [$0] } ?? []
        isDeleted = row.flags.contains(.deleted)
        self.removed = removed
        self.isRevoked = isRevoked
        flags = row.flags
    }

    init(_ principal: FeedScope.PrincipalRow) {
        position = SequenceToken(principal.sequence)
        document = principal.id
        revisions = []
        isDeleted = false
        removed = []
        isRevoked = false
        flags = []
    }

    /// Whether the document left all channels by which the feed shows it.
    package var isRemoval: Bool { flags.contains(.removed) }
    /// A row of a user or a role in the feed of an administrator: `changes` has an empty revision.
    package var isPrincipal: Bool { flags.contains(.principal) }
    /// Whether `style=all_docs` shows more leaves than the row has.
    package var needsLeaves: Bool { flags.contains(.branched) }

    /// Adds the other leaves of the document, for `style=all_docs`.
    ///
    /// A live leaf makes the row one of a live document.
    package mutating func add(
        leaves: [(revision: RevisionID, isDeleted: Bool)],
        isActiveOnly: Bool
    ) {
        for leaf in leaves where !revisions.contains(leaf.revision) {
            if !leaf.isDeleted { isDeleted = false }
            if !leaf.isDeleted || !isActiveOnly { revisions.append(leaf.revision) }
        }
    }
}
