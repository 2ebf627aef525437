package import Bytes
package import Vocabulary

/// The changes of an edit, for one transaction of the index's file.
package struct TreeEditResult {
    package var root: TreeRoot
    /// The next free numbers after the edit.
    package var numbers: TreeNumbers
    package var rowsAdded = 0
    package var rowsRemoved = 0
    package let writes: NodeWriteList
    package var freed: [IndexNodeID] = []
    package var bigValuesFreed: [IndexValueID] = []
    /// Values to store outside of the leaves; the bytes are in the batch: `EditBatch.bigValue`.
    package var bigValues: [BigValueWrite] = []
}

/// A value to store under a number of its own.
package struct BigValueWrite: Sendable {
    package let id: IndexValueID
    /// The place of its operation in the sorted batch.
    let operation: Int
}

/// Applies a batch of operations to a tree.
///
/// One descent: each node that an operation falls into is read once and written once, children
/// before their parents; a node that becomes larger than the format allows is split, and one below a
/// quarter is merged with its right neighbour (the last with its left one). Nodes keep their numbers
/// when they are written, because SQLite's write-ahead log already gives readers their snapshot.
///
/// - Applying a batch again changes nothing: an operation that finds its effect is no change.
/// - A written node has a new version, and so has every node above it.
package final class TreeEdit {
    let tree: Tree
    let batch: EditBatch
    var result: TreeEditResult
    /// The separators of the children in the lists of this edit.
    let separators = ByteWriter(capacity: 16 << 10)
    /// The old version of every leaf as it is changed, one at a time.
    private let leafRun: EntryRun
    /// Pieces of a node that is split or merged.
    private let pieceRuns: (leaf: EntryRun, inner: EntryRun)
    let cursorKey = KeyBuffer()
    /// Nodes from this number on are made by this edit, and not stored yet.
    private let firstNewNode: UInt64

    private init(_ batch: EditBatch, to tree: Tree, _ numbers: TreeNumbers) {
        self.tree = tree
        self.batch = batch
        result = TreeEditResult(root: tree.root, numbers: numbers, writes: NodeWriteList())
        leafRun = EntryRun(tree.kind)
        pieceRuns = (EntryRun(tree.kind), EntryRun(.child))
        firstNewNode = numbers.nextNode
    }

    var format: NodeFormat { tree.format }

    private var kind: EntryKind { tree.kind }

    /// Applies `batch` to a tree; stores nothing.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged` for nodes that contradict each
    ///   other.
    package static func apply(
        _ batch: EditBatch,
        to tree: Tree,
        numbers: TreeNumbers
    ) throws(IndexError) -> TreeEditResult {
        batch.sort()
        let edit = TreeEdit(batch, to: tree, numbers)
        try edit.run()
        return edit.result
    }

    func pieceRun(_ level: Int) -> EntryRun { level == 0 ? pieceRuns.leaf : pieceRuns.inner }

    private func run() throws(IndexError) {
        guard batch.count > 0 else { return }
        var pieces: [ChildRef] = []
        var level = result.root.height - 1
        let all = 0..<batch.count
        if result.root.id == .none {
            level = 0
            insertIntoEmptyTree(all, &pieces)
        } else {
            let root = ChildRef(
                id: result.root.id,
                version: result.root.version,
                rows: result.root.rows
            )
            try edit(root, level: level, all, isLast: true, into: &pieces)
        }
        // More pieces than one need a root above them.
        while pieces.count > 1 {
            level += 1
            var above: [ChildRef] = []
            let id = result.numbers.makeNode()
            writeInner(
                pieces,
                ChildRef(id: id, version: 0, rows: 0),
                level: level,
                isLast: true,
                pieces: &above
            )
            pieces = above
        }
        guard let root = pieces.first else {
            result.root = .empty
            return
        }
        try collapse(root, level: level)
    }

    /// Makes `root` the root, or the only child below it.
    private func collapse(_ piece: ChildRef, level: Int) throws(IndexError) {
        var root = piece
        var level = level
        while level > 0 {
            let node = try load(root, level: level)
            guard node.entries == 1 else { break }
            discard(root)
            root = node.children[0]
            // The child may have been written by this edit.
            root.place = result.writes.index(of: root.id)
            level -= 1
        }
        result.root = TreeRoot(
            id: root.id,
            height: level + 1,
            version: root.version,
            rows: root.rows
        )
    }

    /// Applies the operations `range` to a node, and appends what replaces it to `pieces`.
    func edit(
        _ child: ChildRef,
        level: Int,
        _ range: Range<Int>,
        isLast: Bool,
        into pieces: inout [ChildRef]
    ) throws(IndexError) {
        let node = try load(child, level: level)
        if level == 0 {
            editLeaf(node, child, range: range, isLast: isLast, into: &pieces)
        } else {
            try editInner(node, child, range: range, isLast: isLast, into: &pieces)
        }
    }

    /// The node of a child, which must be what its parent says.
    func load(_ child: ChildRef, level: Int) throws(IndexError) -> IndexNode {
        if child.place >= 0 {
            let body = result.writes.write(at: child.place).body
            return try IndexNode(child.id, body: body, format: format)
        }
        return try tree.node(child.id, level: level, child.version)
    }

    /// Drops a node: what this edit wrote is not stored, and what was stored is freed.
    func discard(_ child: ChildRef) {
        if child.place >= 0 { result.writes.drop(child.place) }
        if child.id.value < firstNewNode { result.freed.append(child.id) }
    }

    // MARK: Leaves

    private func editLeaf(
        _ node: IndexNode,
        _ child: ChildRef,
        range: Range<Int>,
        isLast: Bool,
        into pieces: inout [ChildRef]
    ) {
        leafRun.removeAll()
        var rewrite = LeafRewrite(node, to: leafRun)
        for index in range {
            let operation = batch.operations[index]
            let key = batch.key(operation)
            let found = rewrite.seek(key)
            let value = batch.value(operation)
            if let found {
                let old = LeafPayload(node.start, found, kind: kind)
                if let value, isSame(old, of: node, as: value, operation) { continue }
                freeBigValue(old, of: node)
                rewrite.drop(found)
            }
            if let value {
                insert(value, operation, at: index) { head, rest in
                    rewrite.insert(key: key, head: head, value: rest)
                }
            }
        }
        guard rewrite.isChanged else {
            pieces.append(child)
            return
        }
        rewrite.finish()
        result.rowsAdded += rewrite.inserted
        result.rowsRemoved += rewrite.removed
        var changed = child
        changed.hasShrunk = rewrite.removed > rewrite.inserted
        writeLeaf(changed, isLast: isLast, into: &pieces)
    }

    private func isSame(
        _ old: LeafPayload,
        of node: IndexNode,
        as value: ByteView,
        _ operation: EditBatch.Operation
    ) -> Bool {
        !old.isBig && old.length == value.count
            && (kind != .row || old.vBucket == operation.vBucket)
            && Memory.areEqual(node.start + old.value, value.start, count: value.count)
    }

    private func freeBigValue(_ old: LeafPayload, of node: IndexNode) {
        if case .big(let id, _) = old.entryValue(node.start) { result.bigValuesFreed.append(id) }
    }

    /// Encodes what precedes a value in a leaf, and passes it on with the value or its number.
    private func insert(
        _ value: ByteView,
        _ operation: EditBatch.Operation,
        at index: Int,
        append: (SmallBytes, ByteView) -> Void
    ) {
        var head = SmallBytes()
        if kind == .row { head.append(UInt64(operation.vBucket)) }
        if value.count <= format.inlineBytesMax {
            head.append(UInt64(value.count) << 1)
            return append(head, value)
        }
        let id = result.numbers.makeBigValue()
        head.append(UInt64(value.count) << 1 | 1)
        head.append(id.value)
        result.bigValues.append(BigValueWrite(id: id, operation: index))
        append(head, .empty)
    }

    private func insertIntoEmptyTree(_ range: Range<Int>, _ pieces: inout [ChildRef]) {
        leafRun.removeAll()
        for index in range {
            let operation = batch.operations[index]
            let key = batch.key(operation)
            guard let value = batch.value(operation) else { continue }
            insert(value, operation, at: index) { head, rest in
                leafRun.append(key: key, head: head, value: rest)
            }
            leafRun.rows += 1
        }
        result.rowsAdded = leafRun.entries
        if leafRun.entries > 0 {
            let id = result.numbers.makeNode()
            let child = ChildRef(id: id, version: 0, rows: 0)
            writeLeaf(child, isLast: true, into: &pieces)
        }
    }

    /// Writes the entries in `leafRun` in place of `child`, as one leaf or several.
    private func writeLeaf(_ child: ChildRef, isLast: Bool, into pieces: inout [ChildRef]) {
        guard leafRun.entries > 0 else { return discard(child) }
        let isOrderly = leafRun.restarts.count <= leafRun.entries / 8 + 2
        if isOrderly, leafRun.bodyBytes <= format.bodyBytesMax {
            pieces.append(write(leafRun, in: child, level: 0))
            return
        }
        var split = PieceWriter(self, level: 0, pieces: [child], total: leafRun.bodyBytes, isLast)
        var entries = SequentialEntries(leafRun, key: cursorKey)
        while let shape = entries.advance() {
            split.append(entries.key.view, entries.payload(shape), rows: 1)
        }
        split.finish(into: &pieces)
    }

    /// Writes a run as the new version of `child`.
    func write(_ run: EntryRun, in child: ChildRef, level: Int) -> ChildRef {
        if child.place >= 0 { result.writes.drop(child.place) }
        var written = child
        written.version &+= 1
        written.rows = run.rows
        written.bytes = run.bodyBytes
        run.write(to: result.writes, child.id, version: written.version, level: level)
        written.place = result.writes.lastIndex
        return written
    }
}

extension EditBatch {
    /// The bytes to store under the number of a big value.
    package func bigValue(_ write: BigValueWrite) -> ByteView {
        value(operations[write.operation]) ?? .empty
    }
}
