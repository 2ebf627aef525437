package import Bytes
package import Vocabulary

/// Computes the stored numeric results of the inner nodes that an edit or a bulk load wrote.
///
/// The caller passes all writes in their order, in one call or several, and stores each table in the
/// same transaction as the nodes. It deletes the tables of freed nodes.
///
/// - The reads are bounded: of a slot that was added to an existing tree, an edit would otherwise
///   compute everything. What is left out is a missing result, which `NumericSlotFill` adds.
/// - A result of an inner child is stored only while the child's own table has all results.
package final class NumericSlotUpdate {
    private let tree: Tree
    private let partials: any PartialSource
    /// Results of nodes whose parents are not written yet.
    private var computed: [IndexNodeID: (version: UInt32, numbers: StoredNumbers)] = [:]
    /// The tables before the edit of the nodes that were processed last: of a node that is split,
    /// children come to the node after it.
    private var earlier: [PartialTable] = []
    private let table = PartialTableWriter()
    private let encoded = ByteWriter()
    private let key = KeyBuffer()
    private var readsLeft: Int
    /// Whether every table has a result for every child.
    package private(set) var isComplete = true

    private static let earlierMax = 4
    /// Nodes read by default: more than an inner node has children, so that a merge is complete.
    package static let readsMax = 512

    /// `tree` and `partials` are those before the edit.
    package init(
        _ tree: Tree,
        partials: any PartialSource,
        readsMax: Int = NumericSlotUpdate.readsMax
    ) {
        self.tree = tree
        self.partials = partials
        readsLeft = readsMax
    }

    /// Calls `store` with the new table of every inner node in `writes`; the bytes are valid during
    /// the call.
    ///
    /// - Throws: What the sources throw.
    package func process(
        _ writes: NodeWriteList,
        bigValues: (IndexValueID) -> [UInt8]?,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) {
        try writes.visit { (write) throws(IndexError) in
            if write.level == 0 {
                let partial = try reduceLeaf(write.body, bigValues)
                computed[write.id] = (write.version, .partial(partial))
            } else {
                try processInner(write, store)
            }
        }
    }

    private func reduceLeaf(
        _ body: ByteView,
        _ bigValues: (IndexValueID) -> [UInt8]?
    ) throws(IndexError) -> NumericPartial {
        var partial = NumericPartial()
        var entries = SequentialEntries(body: body, tree.kind, key: key)
        while let shape = entries.advance() {
            switch LeafPayload(body.start, shape, kind: tree.kind).entryValue(body.start) {
            case .inline(let view): partial.add(view)
            case .big(let id, _):
                // Values of this edit are not stored yet.
                var bytes = bigValues(id)
                if bytes == nil { bytes = try tree.source.bigValue(id) }
                bytes?.withUnsafeBytes { partial.add(ByteView($0)) }
            }
        }
        return partial
    }

    private func processInner(
        _ write: NodeWrite,
        _ store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) {
        let old = try partials.partials(of: write.id)
        var total = StoredNumbers.partial(NumericPartial())
        var place = 0
        table.removeAll()
        var entries = SequentialEntries(body: write.body, .child, key: key)
        while let shape = entries.advance() {
            let child = ChildRef(ChildPayload(write.body.start, shape.payload))
            let numbers = try numbers(of: child, level: write.level - 1, old, hint: place)
            if numbers.isMissing { isComplete = false }
            total.merge(table.append(child, numbers, scratch: encoded))
            place += 1
        }
        computed[write.id] = (write.version, total)
        if let old {
            if earlier.count == Self.earlierMax { earlier.removeFirst() }
            earlier.append(old)
        }
        store(write.id, table.finish())
    }

    private func numbers(
        of child: ChildRef,
        level: Int,
        _ old: PartialTable?,
        hint: Int
    ) throws(IndexError) -> StoredNumbers {
        if let new = computed.removeValue(forKey: child.id), new.version == child.version {
            return new.numbers
        }
        if let numbers = old?.numbers(of: child, hint: hint), !numbers.isMissing { return numbers }
        // The child came from another parent, or its result was never stored.
        for table in earlier.reversed() {
            let numbers = table.numbers(of: child, hint: hint)
            if !numbers.isMissing { return numbers }
        }
        guard readsLeft > 0 else { return .missing }
        readsLeft -= 1
        return try tree.storedNumbers(of: child, level: level, partials)
    }
}
