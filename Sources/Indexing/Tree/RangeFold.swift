internal import Bytes
internal import Vocabulary

/// Visits the rows and whole children of a range in a fold, in the order of keys.
protocol RangeVisitor {
    /// A row at the border of the range, or in a child without a result.
    mutating func add(_ entry: IndexEntry) throws(IndexError)

    /// A child that lies in the range with all its rows; false to be passed its parts instead.
    mutating func addChild(_ child: ChildRef, at place: Int, of parent: IndexNode)
        throws(IndexError)
        -> Bool
}

/// Divides a range of keys into whole children and the rows at its borders: a few nodes of each
/// level, whatever the range has.
struct RangeFold<Visitor: RangeVisitor> {
    let tree: Tree
    private(set) var visitor: Visitor

    mutating func run(_ range: KeyRange) throws(IndexError) {
        guard tree.root.id != .none else { return }
        let bounds = KeyBounds(range)
        try visit(try tree.rootNode(), from: bounds.low, to: bounds.high)
        // The views above borrow from it.
        withExtendedLifetime(bounds) {}
    }

    /// Visits the rows of a node from `low` on and before `high`; nil where it is no border.
    mutating func visit(
        _ node: IndexNode,
        from low: ByteView?,
        to high: ByteView?
    ) throws(IndexError) {
        if node.isLeaf { return try visitLeaf(node, from: low, to: high) }
        let children = node.children
        let first = low.map { node.child(for: $0) } ?? 0
        let last = high.map { node.child(for: $0) } ?? children.count - 1
        guard first <= last else { return }
        for place in first...last {
            let child = children[place]
            let from = place == first ? low : nil
            let to = place == last ? high : nil
            if from == nil, to == nil, try visitor.addChild(child, at: place, of: node) { continue }
            let below = try tree.node(child.id, level: node.level - 1, child.version)
            try visit(below, from: from, to: to)
        }
    }

    private mutating func visitLeaf(
        _ node: IndexNode,
        from low: ByteView?,
        to high: ByteView?
    ) throws(IndexError) {
        var cursor = LeafCursor(node)
        if let low { cursor.seek(low) }
        while cursor.advance(), let entry = cursor.entry {
            if let high, !entry.key.precedes(high) { return }
            try visitor.add(entry)
        }
    }
}

extension Tree {
    /// The rows of a range.
    ///
    /// It reads the nodes at the borders only.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged` for nodes that contradict each
    ///   other.
    package func count(_ range: KeyRange) throws(IndexError) -> UInt64 {
        var fold = RangeFold(tree: self, visitor: RowCounter())
        try fold.run(range)
        return fold.visitor.count
    }
}

private struct RowCounter: RangeVisitor {
    var count: UInt64 = 0

    mutating func add(_ entry: IndexEntry) throws(IndexError) { count += 1 }

    mutating func addChild(
        _ child: ChildRef,
        at place: Int,
        of parent: IndexNode
    ) throws(IndexError) -> Bool {
        count += child.rows
        return true
    }
}
