package import SyncWire

/// Pruning: which revisions a document forgets.
extension RevisionTree {
    package struct Pruned: Hashable, Sendable {
        /// The number of removed revisions.
        package var count = 0
        /// Deleted leaves that stay for their ids only; no body of them is needed.
        package var outdatedLeaves: [RevisionID] = []
    }

    /// Removes old ancestors, as Sync Gateway does, except that every leaf stays.
    ///
    /// A revision stays if a leaf is less than `limit` revisions away. A deleted leaf whose
    /// generation is more than `limit` below that of every live leaf loses its ancestors, which no
    /// writer will refer to. Sync Gateway removes the leaf too; then devices that have it offer it
    /// again, and it comes back with each offer. Its id costs 17 bytes.
    ///
    /// In the dialect of 1.4 a revision stays only if its generation also is less than `limit` below
    /// that of every live leaf, or without one of the highest leaf. Sync Gateway 1.4 has this rule alone,
    /// with which an old conflict keeps all revisions of the other branch.
    ///
    /// - Parameters:
    ///   - limit: `revs_limit`, at least 1.
    ///   - dialect: That of the database.
    /// - Returns: What was removed.
    @discardableResult
    package mutating func prune(limit: Int, _ dialect: GatewayDialect = .third) -> Pruned {
        precondition(limit >= 1, "revs_limit is at least 1")
        guard nodes.count > limit else { return Pruned() }
        let isLeaf = leafFlags
        let liveLeaves = zip(nodes, isLeaf).filter { !$0.isDeleted && $1 }
        let shortestLive = liveLeaves.map(\.0.generation).min()
        let generationMin =
            dialect == .first
            ? (shortestLive ?? nodes.map(\.generation).max() ?? 0) - limit + 1
            : (shortestLive ?? 0) - limit
        let isOutdated = zip(nodes, isLeaf).map { node, isLeaf in
            isLeaf && node.isDeleted && node.generation < generationMin
        }
        // The depth of a leaf is 1; that of an outdated one leaves no room for a parent.
        var depths = nodes.indices.map { isLeaf[$0] ? (isOutdated[$0] ? limit : 1) : Int.max }
        // Children follow their parents, so this order knows each child's depth first.
        for index in nodes.indices.reversed() {
            guard let parent = nodes[index].parentIndex else { continue }
            depths[parent] = min(depths[parent], depths[index] + 1)
        }
        let outdated = nodes.indices.filter { isOutdated[$0] }.map { id(at: $0) }
        let isNear = nodes.indices.map { index in
            let isHigh = dialect == .third || nodes[index].generation >= generationMin
            return depths[index] <= limit && (isLeaf[index] || isHigh)
        }
        return Pruned(count: keep { isNear[$0] }, outdatedLeaves: outdated)
    }

    /// Removes all revisions whose index does not satisfy `isKept`, and returns their number.
    private mutating func keep(_ isKept: (Int) -> Bool) -> Int {
        var kept = RevisionTree()
        var places = [Int32](repeating: TreeNode.noParent, count: nodes.count)
        for index in nodes.indices where isKept(index) {
            places[index] = Int32(kept.nodes.count)
            var node = nodes[index]
            node.parent = node.parentIndex.map { places[$0] } ?? TreeNode.noParent
            kept.append(node, digest(of: node))
        }
        let removed = nodes.count - kept.nodes.count
        if removed > 0 { self = kept }
        return removed
    }
}
