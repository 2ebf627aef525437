package import SyncWire

/// Where a new revision belongs in a tree, or why it is refused.
extension RevisionTree {
    package enum Placement: Hashable, Sendable {
        /// The tree has the revision already; the write succeeds and changes nothing.
        case known
        case refused(Refusal)
        case added(Addition)
    }

    /// A revision with those of its ancestors that the tree lacks.
    package struct Addition: Hashable, Sendable {
        /// A revision of the tree; nil if the addition begins a branch without a common ancestor.
        package let parent: RevisionID?
        /// The new revisions, the oldest first.
        ///
        /// The last one is the new leaf; the others have no bodies.
        package let chain: [RevisionID]

        package init(parent: RevisionID?, chain: [RevisionID]) {
            self.parent = parent
            self.chain = chain
        }
    }

    /// The revision that an edit of a client replaces.
    package enum EditParent: Hashable, Sendable {
        case refused(Refusal)
        /// Nil if the document is new.
        case parent(RevisionID?)
    }

    /// The most revisions that one replicated write may name.
    package static let historyMax = 1_000

    /// Decides which revision an edit replaces: only a leaf can be replaced.
    ///
    /// - Parameters:
    ///   - requested: The `_rev` of the request. If it is nil and the document is deleted, the edit
    ///     continues the generations of the winning tombstone, so that the new document wins on all
    ///     devices.
    ///   - isDeleted: Whether the edit deletes.
    ///   - allowsConflicts: Whether branches may continue that are not the winner.
    /// - Returns: The parent, or why there is none.
    package func parentOfEdit(
        _ requested: RevisionID?,
        isDeleted: Bool,
        allowsConflicts: Bool
    ) -> EditParent {
        guard let winner else {
            return requested == nil ? .parent(nil) : .refused(.staleRevision)
        }
        guard let requested else {
            return winner.isDeleted ? .parent(winner.id) : .refused(.documentExists)
        }
        let isAllowed =
            allowsConflicts
            || !isConflict(parent: requested, isDeleted: isDeleted, history: [])
        return isLeaf(requested) && isAllowed ? .parent(requested) : .refused(.staleRevision)
    }

    /// Decides where a revision of another database belongs (`new_edits=false`).
    ///
    /// - Parameters:
    ///   - history: The revision and its ancestors, newest first. Generations must decrease.
    ///   - isDeleted: Whether the revision is a tombstone.
    ///   - allowsConflicts: Whether the revision may begin a branch beside a live one.
    /// - Returns: The place.
    package func placeReplicated(
        _ history: [RevisionID],
        isDeleted: Bool,
        allowsConflicts: Bool
    ) -> Placement {
        guard !history.isEmpty, zip(history, history.dropFirst()).allSatisfy({ $0 > $1 }),
            Set(history.map(\.generation)).count == history.count
        else { return .refused(.invalidHistory) }
        guard history.count <= RevisionTree.historyMax else {
            return .refused(.historyTooLong(history.count))
        }
        let known = firstKnown(of: history)
        if known == 0 { return .known }
        let parent = known.map { history[$0] }
        if !allowsConflicts, isConflict(parent: parent, isDeleted: isDeleted, history: history) {
            return .refused(.staleRevision)
        }
        let chain = Array(history.prefix(known ?? history.count).reversed())
        return .added(Addition(parent: parent, chain: chain))
    }

    /// Whether an addition would leave a database without conflicts with one (Sync Gateway 3,
    /// `allow_conflicts: false`).
    private func isConflict(parent: RevisionID?, isDeleted: Bool, history: [RevisionID]) -> Bool {
        guard let winner, parent != winner.id else { return false }
        // A tombstone may end a live branch, which is how conflicts are resolved.
        if isDeleted { return !leaves.contains { $0.id == parent && !$0.isDeleted } }
        // A deleted document may be written again by a device that knows nothing of it.
        return !winner.isDeleted || history.contains(where: contains)
    }

    /// Adds the revisions of an addition.
    ///
    /// All but the last one are live and have no channels of their own.
    package mutating func add(_ addition: Addition, isDeleted: Bool) {
        var parent = addition.parent.flatMap(index)
        for id in addition.chain {
            append(id, parent: parent, isDeleted: isDeleted && id == addition.chain.last)
            parent = nodes.count - 1
        }
    }

    /// Sets the number of a revision's channels; of an unknown revision nothing.
    mutating func setChannelSet(_ number: UInt16, of id: RevisionID) {
        if let index = index(of: id) { nodes[index].channelSet = number }
    }

    mutating func mapChannelSets(_ transform: (UInt16) -> UInt16) {
        for index in nodes.indices {
            nodes[index].channelSet = transform(nodes[index].channelSet)
        }
    }
}
