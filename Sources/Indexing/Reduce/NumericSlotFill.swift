package import Bytes
package import Vocabulary

/// Adds the results that the tables of a numeric slot do not have, in steps of bounded work.
///
/// A slot that is added to an existing index has no table; one whose removal had begun lacks some.
/// The fill visits every inner node, children first, and computes what is missing. The tree may be
/// edited between two steps.
package final class NumericSlotFill {
    /// Inner nodes that have all results, as have those below them.
    private var completed: Set<IndexNodeID> = []
    private var readsLeft = 0
    private let table = PartialTableWriter()
    private let encoded = ByteWriter()

    /// The least number of reads in a step: a step that cannot reach a leaf would not proceed.
    package static let readsMin = 64

    package init() {}

    /// Reads at most `readsMax` nodes below the root, and calls `store` with the tables that have
    /// new results; the bytes are valid during the call.
    ///
    /// `partials` must return what was stored.
    ///
    /// - Throws: What the sources throw.
    /// - Returns: Whether the fill is complete; otherwise, call it again.
    package func step(
        _ tree: Tree,
        _ partials: any PartialSource,
        readsMax: Int,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) -> Bool {
        precondition(readsMax >= Self.readsMin, "a step reaches the leaves")
        guard tree.root.height > 1 else { return true }
        readsLeft = readsMax
        return try fill(tree.rootNode(), tree, partials: partials, store: store)
    }

    private func fill(
        _ node: IndexNode,
        _ tree: Tree,
        partials: any PartialSource,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) -> Bool {
        if node.level > 1 {
            for child in node.children where !completed.contains(child.id) {
                guard readsLeft > 0 else { return false }
                readsLeft -= 1
                let below = try tree.node(child.id, level: node.level - 1, child.version)
                guard try fill(below, tree, partials: partials, store: store) else { return false }
            }
        }
        let isComplete = try complete(node, tree, partials: partials, store: store)
        if isComplete { completed.insert(node.id) }
        return isComplete
    }

    /// Computes the missing results of a node's children, as far as reads are left.
    private func complete(
        _ node: IndexNode,
        _ tree: Tree,
        partials: any PartialSource,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) -> Bool {
        let old = try partials.partials(of: node.id)
        var isChanged = false
        var isVisited = true
        table.removeAll()
        for (place, child) in node.children.enumerated() {
            var numbers = old?.numbers(of: child, hint: place) ?? .missing
            if numbers.isMissing {
                if readsLeft == 0 {
                    isVisited = false
                    continue
                }
                readsLeft -= 1
                numbers = try tree.storedNumbers(of: child, level: node.level - 1, partials)
                isChanged = isChanged || !numbers.isMissing
            }
            table.append(child, numbers, scratch: encoded)
        }
        if isChanged { store(node.id, table.finish()) }
        return isVisited
    }
}
