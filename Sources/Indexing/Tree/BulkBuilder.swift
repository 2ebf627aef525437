package import Bytes
package import Vocabulary

/// Builds a tree from sorted entries, bottom up, with nodes that are 90 % full.
///
/// Holds one node of each level and the nodes that the caller has not yet collected from `writes`.
///
/// - Keys strictly increase, or the process ends: the caller merges sorted runs.
package final class BulkBuilder {
    private struct Level {
        let run: EntryRun
        /// The separator of the node in the making.
        var separator: [UInt8] = []
    }

    /// Complete nodes, children first; the caller stores them and calls `removeAll`.
    package let writes: NodeWriteList
    /// The next free numbers.
    package private(set) var numbers: TreeNumbers
    private let format: NodeFormat
    private let kind: EntryKind
    private var levels: [Level]
    private let leaf: EntryRun
    /// The entries so far.
    package private(set) var rows: UInt64 = 0

    /// An empty tree; a builder that follows another one may continue its list of nodes.
    package init(
        of kind: EntryKind,
        format: NodeFormat = .standard,
        numbers: TreeNumbers,
        writes: NodeWriteList = NodeWriteList()
    ) {
        precondition(kind != .child, "the entries of a tree are rows or documents")
        self.kind = kind
        self.format = format
        self.numbers = numbers
        self.writes = writes
        leaf = EntryRun(kind)
        levels = [Level(run: leaf)]
    }

    /// Appends an entry.
    ///
    /// If the value is too large for a leaf, returns the number under which the caller stores it.
    package func append(
        key: ByteView,
        vBucket: VBucketID,
        value: ByteView
    ) -> IndexValueID? {
        precondition(key.count <= NodeFormat.keyBytesMax, "a key of an index is at most 20 KiB")
        let isBig = value.count > format.inlineBytesMax
        var head = SmallBytes()
        if kind == .row { head.append(UInt64(vBucket.number)) }
        head.append(UInt64(value.count) << 1 | (isBig ? 1 : 0))
        let id = isBig ? numbers.makeBigValue() : nil
        if let id { head.append(id.value) }
        let inline = isBig ? .empty : value
        if leaf.entries > 0 {
            precondition(leaf.lastKey.view.precedes(key), "a bulk load is sorted")
            let needed = leaf.bodyBytes + key.count + head.count + inline.count + 6
            if needed > format.fillBytes { closeLeaf(before: key) }
        }
        leaf.append(key: key, head: head, value: inline)
        leaf.rows += 1
        rows += 1
        return id
    }

    private func closeLeaf(before key: ByteView) {
        let count = min(key.count, leaf.lastKey.view.sharedPrefix(with: key) + 1)
        close(0, next: key.slice(0, count))
    }

    /// Completes the node of a level; the next node of the level begins at `next`.
    private func close(_ index: Int, next: ByteView) {
        let run = levels[index].run
        let id = numbers.makeNode()
        run.write(to: writes, id, version: 1, level: index)
        if index + 1 == levels.count { levels.append(Level(run: EntryRun(.child))) }
        let child = ChildRef(id: id, version: 1, rows: run.rows)
        levels[index].separator.withUnsafeBytes { separator in
            append(child, ByteView(separator), to: index + 1)
        }
        levels[index].separator = next.bytes
        run.removeAll()
    }

    private func append(_ child: ChildRef, _ separator: ByteView, to index: Int) {
        let run = levels[index].run
        let payload = child.payload
        let needed = run.bodyBytes + separator.count + payload.count + 6
        if run.entries >= 2, needed > format.fillBytes { close(index, next: separator) }
        payload.withView { run.append(key: run.entries == 0 ? .empty : separator, payload: $0) }
        run.rows += child.rows
    }

    /// Completes all nodes, and returns the root.
    package func finish() -> TreeRoot {
        guard rows > 0 else { return .empty }
        var index = 0
        while index + 1 < levels.count {
            close(index, next: .empty)
            index += 1
        }
        let run = levels[index].run
        let id = numbers.makeNode()
        run.write(to: writes, id, version: 1, level: index)
        return TreeRoot(id: id, height: index + 1, version: 1, rows: rows)
    }
}
