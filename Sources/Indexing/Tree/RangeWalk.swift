internal import Bytes
internal import Vocabulary

/// Iterates over the entries of a range of keys, forward or backward.
///
/// Holds one node of each level. An entry is borrowed: it is valid until the next one is read.
package final class RangeWalk {
    /// An inner node and the child that the walk is in.
    private struct Step {
        let node: Node
        let children: [ChildRef]
        var child: Int
    }

    private let tree: Tree
    private let start: ByteWriter
    private let end: ByteWriter?
    private let isDescending: Bool
    private let mask: VBucketMask?
    private var path: [Step] = []
    private var leaf: LeafCursor?
    private var left: Int
    private var isBegun = false

    /// A walk over `range`; with a mask, over the rows of its vBuckets only; of at most `limit`
    /// entries.
    package init(
        _ tree: Tree,
        _ range: KeyRange = KeyRange(),
        descending: Bool = false,
        mask: VBucketMask? = nil,
        limit: Int = .max
    ) {
        self.tree = tree
        start = ByteWriter(capacity: range.start.count)
        start.append(range.start)
        end = range.end.map { bytes in
            let writer = ByteWriter(capacity: bytes.count)
            writer.append(bytes)
            return writer
        }
        isDescending = descending
        self.mask = mask
        left = limit
    }

    /// The next entry; nil after the last.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged` for nodes that contradict each
    ///   other. The walk must not be continued then.
    package func next() throws(IndexError) -> IndexEntry? {
        guard left > 0 else { return nil }
        if !isBegun { try begin() }
        while leaf != nil {
            while let entry = isDescending ? stepBack() : stepForward() {
                if isDescending ? entry.key.precedes(start.view) : isBeyond(entry.key) {
                    leaf = nil
                    return nil
                }
                if let mask, !mask.contains(entry.vBucket) { continue }
                left -= 1
                return entry
            }
            try moveToNextLeaf()
        }
        return nil
    }

    /// The leaf of the newest entry.
    var leafNode: Node? { leaf?.node }

    private func stepForward() -> IndexEntry? {
        guard leaf?.advance() == true else { return nil }
        return leaf?.entry
    }

    private func stepBack() -> IndexEntry? {
        guard leaf?.retreat() == true else { return nil }
        return leaf?.entry
    }

    private func isBeyond(_ key: ByteView) -> Bool {
        guard let end else { return false }
        return !key.precedes(end.view)
    }

    private func begin() throws(IndexError) {
        isBegun = true
        guard tree.root.id != .none else { return }
        var node = try tree.rootNode()
        let target = isDescending ? end?.view : start.view
        while !node.isLeaf {
            let children = node.children
            // Backward and without an end: the last child.
            let place = target.map { node.child(for: $0) } ?? children.count - 1
            path.append(Step(node: node, children: children, child: place))
            let child = children[place]
            node = try tree.node(child.id, level: node.level - 1, child.version)
        }
        leaf = LeafCursor(node)
        if isDescending {
            leaf?.seekBackward(before: target)
        } else {
            leaf?.seek(start.view)
        }
    }

    private func moveToNextLeaf() throws(IndexError) {
        leaf = nil
        while var step = path.popLast() {
            step.child += isDescending ? -1 : 1
            guard step.children.indices.contains(step.child) else { continue }
            path.append(step)
            var child = step.children[step.child]
            var node = try tree.node(child.id, level: step.node.level - 1, child.version)
            while !node.isLeaf {
                let children = node.children
                let place = isDescending ? children.count - 1 : 0
                path.append(Step(node: node, children: children, child: place))
                child = children[place]
                node = try tree.node(child.id, level: node.level - 1, child.version)
            }
            leaf = LeafCursor(node)
            if isDescending { leaf?.seekBackward(before: nil) }
            return
        }
    }
}
