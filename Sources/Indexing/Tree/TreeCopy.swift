package import Bytes
package import Vocabulary

/// Copies a tree into full nodes with new numbers, in steps of bounded work.
///
/// - The tree is the same at every step.
/// - Holds one node of each level, and what the caller has not yet collected from `writes`.
package final class TreeCopy {
    private let builder: BulkBuilder
    /// Where the next step begins: the least key after the last copied one.
    private var start: [UInt8] = []
    /// The root of the copy; nil until it is complete.
    package private(set) var root: TreeRoot?

    /// An empty copy of a tree of `kind`; `numbers` are free.
    package init(of kind: EntryKind, format: NodeFormat = .standard, numbers: TreeNumbers) {
        builder = BulkBuilder(of: kind, format: format, numbers: numbers)
    }

    /// Complete nodes, children first; the caller stores them and calls `removeAll`.
    package var writes: NodeWriteList { builder.writes }

    /// The entries that are copied.
    package var rows: UInt64 { builder.rows }

    /// The next free numbers.
    package var numbers: TreeNumbers { builder.numbers }

    /// Copies entries until about `bytesMax` bytes of keys and values are copied.
    ///
    /// - Parameters:
    ///   - tree: The tree.
    ///   - bytesMax: The bound.
    ///   - storeValue: Called with each value that does not fit into a leaf; borrowed.
    /// - Throws: What the source throws; the copy must not be continued then.
    /// - Returns: Whether the copy is complete.
    package func step(
        _ tree: Tree,
        bytesMax: Int,
        storeValue: (IndexValueID, ByteView) -> Void
    ) throws(IndexError) -> Bool {
        let walk = RangeWalk(tree, KeyRange(start: start))
        var bytes = 0
        while let entry = try walk.next() {
            bytes += entry.key.count
            try tree.source.withValue(entry.value) { value in
                let id = builder.append(key: entry.key, vBucket: entry.vBucket, value: value)
                if let id { storeValue(id, value) }
                bytes += value.count
            }
            if bytes >= bytesMax {
                start = entry.key.bytes + [0]
                return false
            }
        }
        root = builder.finish()
        return true
    }
}
