internal import Bytes
package import Vocabulary

/// Verifies the invariants of a whole tree, for tests and for the check of an index's file.
///
/// - Nodes are valid, have the level and version that their parents have, and occur once.
/// - Keys strictly increase from leaf to leaf, and lie between the separators above them.
/// - Row counts of inner nodes and of the root are those of the leaves.
/// - A node is larger than the format allows only if it has one entry, or two children.
package struct TreeCheck {
    /// Everything that is wrong, as sentences; empty for a sound tree.
    package private(set) var violations: [String] = []
    /// Rows of each vBucket, by its number.
    package private(set) var rows: [UInt64] = Array(repeating: 0, count: 1 << 16)
    package private(set) var nodes: Set<IndexNodeID> = []
    /// Big values that entries refer to.
    package private(set) var bigValues: Set<IndexValueID> = []
    /// Bytes of all nodes.
    package private(set) var bytes = 0
    private var last: [UInt8]?
    private let tree: Tree

    private init(_ tree: Tree) { self.tree = tree }

    /// Reads the whole tree; what cannot be read is a violation.
    package static func run(_ tree: Tree) -> TreeCheck {
        var check = TreeCheck(tree)
        guard tree.root.id != .none else {
            if tree.root != .empty { check.violations.append("the empty root has rows or levels") }
            return check
        }
        let rows = check.visit(
            ChildRef(id: tree.root.id, version: tree.root.version, rows: tree.root.rows),
            level: tree.root.height - 1,
            low: [],
            high: nil
        )
        if rows != tree.root.rows { check.violations.append("the root's row count is wrong") }
        return check
    }

    private mutating func visit(
        _ child: ChildRef,
        level: Int,
        low: [UInt8],
        high: [UInt8]?
    ) -> UInt64 {
        let node: IndexNode
        do {
            node = try tree.node(child.id, level: level, child.version)
        } catch {
            violations.append("\(child.id): \(error)")
            return 0
        }
        bytes += node.count
        if !nodes.insert(child.id).inserted { violations.append("\(child.id) occurs twice") }
        let least = node.isLeaf ? 1 : 2
        if node.count > tree.format.bodyBytesMax, node.entries > least {
            violations.append("\(child.id) has \(node.count) bytes")
        }
        let rows =
            node.isLeaf
            ? visitLeaf(node, low: low, high: high) : visitInner(node, low: low, high: high)
        if rows != child.rows || rows != node.rows {
            violations.append("\(child.id) has \(rows) rows, not \(child.rows)")
        }
        return rows
    }

    private mutating func visitLeaf(_ node: IndexNode, low: [UInt8], high: [UInt8]?) -> UInt64 {
        var cursor = LeafCursor(node)
        var count: UInt64 = 0
        while cursor.advance(), let entry = cursor.entry {
            count += 1
            let key = entry.key.bytes
            if let last, !last.lexicographicallyPrecedes(key) {
                violations.append("\(node.id): keys do not increase")
            }
            let isBelow = key.lexicographicallyPrecedes(low)
            let isAbove = high.map { !key.lexicographicallyPrecedes($0) } ?? false
            if isBelow || isAbove {
                violations.append("\(node.id): a key is outside of the separators")
            }
            rows[Int(entry.vBucket.number)] += 1
            if case .big(let id, let length) = entry.value {
                if !bigValues.insert(id).inserted {
                    violations.append("\(node.id): a big value occurs twice")
                }
                if length <= tree.format.inlineBytesMax {
                    violations.append("\(node.id): a big value is small")
                }
            }
            last = key
        }
        return count
    }

    private mutating func visitInner(_ node: IndexNode, low: [UInt8], high: [UInt8]?) -> UInt64 {
        var children: [(ref: ChildRef, low: [UInt8])] = []
        let key = KeyBuffer()
        var entries = SequentialEntries(node, key: key)
        while let shape = entries.advance() {
            let ref = ChildRef(ChildPayload(node.start, shape.payload))
            children.append((ref, children.isEmpty ? low : key.view.bytes))
        }
        var count: UInt64 = 0
        for (index, child) in children.enumerated() {
            let end = index + 1 < children.count ? children[index + 1].low : high
            if let end, !child.low.lexicographicallyPrecedes(end) {
                violations.append("\(node.id): separators do not increase")
            }
            count += visit(child.ref, level: node.level - 1, low: child.low, high: end)
        }
        return count
    }
}
