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
        guard let winner else { return requested == nil ? .parent(nil) : .refused(.staleRevision) }
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

/// Questions of replicators to a tree: histories, and which revisions it lacks.
extension RevisionTree {
    /// The answer of `_revs_diff` for one document.
    package struct Difference: Hashable, Sendable {
        /// The revisions that the tree does not have, in the order of the request.
        package var missing: [RevisionID] = []
        /// Revisions that the sender may have too, the highest first: with one of them, it sends
        /// less.
        package var possibleAncestors: [RevisionID] = []
    }

    /// The answer to the proposal of one revision (BLIP `proposeChanges`).
    package enum ProposalAnswer: Hashable, Sendable {
        /// Send it.
        case wanted
        case known
        case conflict(current: RevisionID)
    }

    /// Of a leaf this much lower than a missing revision, no ancestor of it is expected (S 6).
    private static let ancestorDistanceMax = 100

    /// The revision and its ancestors, newest first; empty if the tree does not have it.
    package func ancestry(of id: RevisionID) -> [RevisionID] {
        ancestry(from: index(of: id)).map { self.id(at: $0) }
    }

    func ancestry(from index: Int?) -> [Int] {
        var path: [Int] = []
        var next = index
        while let index = next {
            path.append(index)
            next = nodes[index].parentIndex
        }
        return path
    }

    /// The history that a reader gets with a revision, newest first (`_revisions`).
    ///
    /// - Parameters:
    ///   - id: A revision.
    ///   - limit: How many ids at most, unless a known revision is further back: a reader can
    ///     connect the revision only with an ancestor that it has.
    ///   - known: Revisions that the reader has (`revs_from`, `atts_since`). The newest of them in
    ///     the history is its last id.
    /// - Returns: The ids; none if the tree does not have the revision.
    package func history(
        of id: RevisionID,
        limit: Int = .max,
        cutAt known: [RevisionID] = []
    ) -> [RevisionID] {
        let history = ancestry(of: id)
        let known = Set(known)
        let end = history.firstIndex(where: known.contains)
        return Array(history.prefix(end.map { $0 + 1 } ?? max(limit, 0)))
    }

    /// The newest of `candidates` that is the revision or an ancestor of it; nil if none is.
    package func nearest(of candidates: [RevisionID], to id: RevisionID) -> RevisionID? {
        let candidates = Set(candidates)
        return candidates.isEmpty ? nil : ancestry(of: id).first(where: candidates.contains)
    }

    /// Which of `ids` the tree lacks, and what the sender may have in common with it (S 6).
    package func difference(to ids: [RevisionID]) -> Difference {
        var found = Difference()
        let known = ids.count == 1 ? [] : Set(nodes.indices.map { id(at: $0) })
        found.missing = ids.filter { ids.count == 1 ? !contains($0) : !known.contains($0) }
        let generations = Set(found.missing.map(\.generation).filter { $0 > 1 })
        guard !generations.isEmpty else { return found }
        let named = Set(ids)
        var ancestors: Set<RevisionID> = []
        for leaf in leaves where !named.contains(leaf.id) {
            let generation = leaf.id.generation
            let isBelow = (1...RevisionTree.ancestorDistanceMax).contains {
                generations.contains(generation &+ $0)
            }
            if isBelow { ancestors.insert(leaf.id) }
            if generations.contains(generation), let parent = leaf.parent {
                ancestors.insert(parent)
            }
        }
        found.possibleAncestors = ancestors.sorted(by: >)
        return found
    }

    /// Whether a revision that a device proposes would be accepted without a branch.
    ///
    /// - Parameters:
    ///   - id: The proposed revision.
    ///   - parent: The revision of this tree that the device replaces; nil if it knows none.
    /// - Returns: The answer.
    package func answer(toProposed id: RevisionID, parent: RevisionID?) -> ProposalAnswer {
        guard let winner else { return .wanted }
        if winner.id == id { return .known }
        if let parent { return winner.id == parent ? .wanted : .conflict(current: winner.id) }
        return winner.isDeleted ? .wanted : .conflict(current: winner.id)
    }
}
