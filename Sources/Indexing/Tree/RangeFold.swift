internal import Bytes
internal import Vocabulary

/// What a fold over a range does with its parts, in the order of keys.
protocol RangeVisitor {
    /// A row at the border of the range, or in a child without a result.
    mutating func add(_ entry: IndexEntry) throws(IndexError)

    /// A child that lies in the range with all its rows; false to be passed its parts instead.
    mutating func addChild(_ child: ChildRef, at place: Int, of parent: Node) throws(IndexError)
        -> Bool
}

/// Divides a range of keys into whole children and the rows at its borders: a few nodes of each
/// level, whatever the range has.
struct RangeFold<Visitor: RangeVisitor> {
    private let tree: Tree
    private let mask: VBucketMask?
    private(set) var visitor: Visitor

    /// With a mask, every row of the range is visited: no stored result is for a part of its rows.
    init(_ tree: Tree, mask: VBucketMask?, _ visitor: Visitor) {
        self.tree = tree
        self.mask = mask
        self.visitor = visitor
    }

    mutating func run(_ range: KeyRange) throws(IndexError) {
        guard tree.root.id != .none else { return }
        let start = ByteWriter(capacity: range.start.count)
        start.append(range.start)
        let end = ByteWriter()
        if let bytes = range.end { end.append(bytes) }
        try visit(
            try tree.rootNode(),
            from: range.start.isEmpty ? nil : start.view,
            to: range.end == nil ? nil : end.view
        )
        // The views above borrow from both.
        withExtendedLifetime((start, end)) {}
    }

    /// Visits the rows of a node from `low` on and before `high`; nil where it is no border.
    mutating func visit(
        _ node: Node,
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
            if mask == nil, from == nil, to == nil,
                try visitor.addChild(child, at: place, of: node)
            {
                continue
            }
            let below = try tree.node(child.id, level: node.level - 1, child.version)
            try visit(below, from: from, to: to)
        }
    }

    private mutating func visitLeaf(
        _ node: Node,
        from low: ByteView?,
        to high: ByteView?
    ) throws(IndexError) {
        var cursor = LeafCursor(node)
        if let low { cursor.seek(low) }
        while cursor.advance(), let entry = cursor.entry {
            if let high, !entry.key.precedes(high) { return }
            if let mask, !mask.contains(entry.vBucket) { continue }
            try visitor.add(entry)
        }
    }
}

extension Tree {
    /// The rows of a range: of those of the mask's vBuckets, if there is a mask.
    ///
    /// Without a mask, this reads the nodes at the borders only.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged` for nodes that contradict each
    ///   other.
    package func count(
        _ range: KeyRange = KeyRange(),
        mask: VBucketMask? = nil
    ) throws(IndexError) -> UInt64 {
        var fold = RangeFold(self, mask: mask, RowCounter())
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
        of parent: Node
    ) throws(IndexError) -> Bool {
        count += child.rows
        return true
    }
}
