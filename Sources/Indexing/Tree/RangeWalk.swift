internal import Bytes
internal import Vocabulary

/// Iterates over the entries of a range of keys, forward or backward.
///
/// Holds one node of each level. An entry is borrowed: it is valid until the next one is read.
package final class RangeWalk {
    /// An inner node and the child that the walk is in.
    private struct Step {
        let node: IndexNode
        let children: [ChildRef]
        var child: Int
    }

    private let tree: Tree
    private let bounds: KeyBounds
    private let isDescending: Bool
    private var path: [Step] = []
    private var leaf: LeafCursor?
    private var isBegun = false

    /// A walk over the entries of `range`.
    package init(_ tree: Tree, _ range: KeyRange = KeyRange(), descending: Bool = false) {
        self.tree = tree
        bounds = KeyBounds(range)
        isDescending = descending
    }

    /// The next entry; nil after the last.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged` for nodes that contradict each
    ///   other. The walk must not be continued then.
    package func next() throws(IndexError) -> IndexEntry? {
        if !isBegun { try begin() }
        while leaf != nil {
            while let entry = isDescending ? stepBack() : stepForward() {
                if isDescending ? entry.key.precedes(bounds.start) : isBeyond(entry.key) {
                    leaf = nil
                    return nil
                }
                return entry
            }
            try moveToNextLeaf()
        }
        return nil
    }

    /// The leaf of the newest entry.
    var leafNode: IndexNode? { leaf?.node }

    private func stepForward() -> IndexEntry? {
        guard leaf?.advance() == true else { return nil }
        return leaf?.entry
    }

    private func stepBack() -> IndexEntry? {
        guard leaf?.retreat() == true else { return nil }
        return leaf?.entry
    }

    private func isBeyond(_ key: ByteView) -> Bool {
        guard let end = bounds.high else { return false }
        return !key.precedes(end)
    }

    private func begin() throws(IndexError) {
        isBegun = true
        guard tree.root.id != .none else { return }
        try descend(from: try tree.rootNode(), to: isDescending ? bounds.high : bounds.low)
    }

    /// Descends to the leaf of `target`; if that is nil, to the first one in the walk's direction.
    private func descend(from top: IndexNode, to target: ByteView?) throws(IndexError) {
        var node = top
        while !node.isLeaf {
            let children = node.children
            let first = isDescending ? children.count - 1 : 0
            let place = target.map { node.child(for: $0) } ?? first
            path.append(Step(node: node, children: children, child: place))
            let child = children[place]
            node = try tree.node(child.id, level: node.level - 1, child.version)
        }
        leaf = LeafCursor(node)
        if isDescending {
            leaf?.seekBackward(before: target)
        } else if let target {
            leaf?.seek(target)
        }
    }

    private func moveToNextLeaf() throws(IndexError) {
        leaf = nil
        while var step = path.popLast() {
            step.child += isDescending ? -1 : 1
            guard step.children.indices.contains(step.child) else { continue }
            path.append(step)
            let child = step.children[step.child]
            let node = try tree.node(child.id, level: step.node.level - 1, child.version)
            return try descend(from: node, to: nil)
        }
    }
}
