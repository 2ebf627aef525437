package import SyncWire

/// One revision in the tree of a document, as readers of the tree get it.
package struct RevisionNode: Hashable, Sendable {
    package let id: RevisionID
    /// The revision that it replaced; nil for the first one, and where the parent was pruned.
    package let parent: RevisionID?
    /// Whether the revision deletes its branch of the document.
    package let isDeleted: Bool
    /// The number of its channels in the metadata of the document.
    package let channelSet: UInt16

    package init(
        _ id: RevisionID,
        parent: RevisionID?,
        isDeleted: Bool = false,
        channelSet: UInt16 = 0
    ) {
        self.id = id
        self.parent = parent
        self.isDeleted = isDeleted
        self.channelSet = channelSet
    }

    /// Whether this leaf wins against another one.
    ///
    /// Every gateway and device has this order, so that all choose the same winner without
    /// messages: a live leaf before a deleted one, then the higher generation, then the higher
    /// digest (S 1).
    func wins(against other: RevisionNode) -> Bool {
        guard isDeleted == other.isDeleted else { return other.isDeleted }
        return other.id < id
    }
}
