package import SyncWire

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
