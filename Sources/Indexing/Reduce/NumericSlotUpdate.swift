package import Bytes
package import Vocabulary

/// Computes the stored numeric results of the inner nodes that an edit or a bulk load wrote.
///
/// The caller passes all writes in their order, in one call or several, and stores each table in the
/// same transaction as the nodes. It deletes the tables of freed nodes.
package final class NumericSlotUpdate {
    private let tree: Tree
    private let partials: any PartialSource
    /// Results of nodes whose parents are not written yet.
    private var computed: [IndexNodeID: (version: UInt32, partial: NumericPartial)] = [:]
    private let table = PartialTableWriter()
    private let encoded = ByteWriter()
    private let key = KeyBuffer()

    /// `tree` and `partials` are those before the edit.
    package init(_ tree: Tree, partials: any PartialSource) {
        self.tree = tree
        self.partials = partials
    }

    /// Calls `store` with the new table of every inner node in `writes`; the bytes are valid during
    /// the call.
    ///
    /// - Throws: What the sources throw.
    package func process(
        _ writes: NodeWrites,
        bigValues: (IndexValueID) -> [UInt8]?,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) {
        try writes.visit { (write) throws(IndexError) in
            if write.level == 0 {
                let partial = try reduceLeaf(write.body, bigValues)
                computed[write.id] = (write.version, partial)
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
            switch LeafPayload(body.start, shape, tree.kind).entryValue(body.start) {
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
        var total = NumericPartial()
        var place = 0
        table.removeAll()
        var entries = SequentialEntries(body: write.body, .child, key: key)
        while let shape = entries.advance() {
            let child = ChildRef(ChildPayload(write.body.start, shape.payload))
            defer { place += 1 }
            if let new = computed.removeValue(forKey: child.id), new.version == child.version {
                append(new.partial, of: child, to: &total)
            } else if let result = old?.result(of: child.id, version: child.version, hint: place),
                let partial = NumericPartial(encoded: result)
            {
                total.merge(partial)
                table.append(child.id, version: child.version, result)
            } else {
                // The child came from another parent, or its result was lost.
                let node = try tree.node(child.id, level: write.level - 1, child.version)
                append(
                    try tree.reduceNumbers(below: node, partials: partials),
                    of: child,
                    to: &total
                )
            }
        }
        computed[write.id] = (write.version, total)
        store(write.id, table.finish())
    }

    private func append(
        _ partial: NumericPartial,
        of child: ChildRef,
        to total: inout NumericPartial
    ) {
        total.merge(partial)
        encoded.removeAll()
        partial.encode(to: encoded)
        table.append(child.id, version: child.version, encoded.view)
    }
}
