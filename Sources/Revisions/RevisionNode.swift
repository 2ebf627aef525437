package import SyncWire

/// One revision in the tree of a document.
package struct RevisionNode: Hashable, Sendable {
    package let id: RevisionID
    /// The revision that it replaced; nil for the first one, and where the parent was pruned.
    package var parent: RevisionID?
    /// Whether the revision deletes its branch of the document.
    package var isDeleted: Bool

    package init(_ id: RevisionID, parent: RevisionID?, isDeleted: Bool = false) {
        self.id = id
        self.parent = parent
        self.isDeleted = isDeleted
    }
}
