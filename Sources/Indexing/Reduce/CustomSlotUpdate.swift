package import Bytes
package import Vocabulary

/// Adds results that queries computed to the tables of a custom slot.
///
/// A query computes in its snapshot; the tree may have changed since. A result is added only if its
/// parent still has the child in the same version. The table keeps only such results.
package enum CustomSlotUpdate {
    /// Bytes of a table.
    ///
    /// Results beyond are left out, and every query computes them.
    private static let tableBytesMax = 1 << 20

    /// Calls `store` with each table that has a new result; the bytes are valid during the call.
    ///
    /// `node` returns nil for a node that was freed.
    ///
    /// - Throws: What the sources throw.
    package static func process(
        _ computed: [ComputedPartial],
        _ partials: any PartialSource,
        node: (IndexNodeID) throws(IndexError) -> IndexNode?,
        store: (IndexNodeID, ByteView) -> Void
    ) throws(IndexError) {
        let writer = PartialTableWriter()
        for (parent, results) in Dictionary(grouping: computed, by: \.parent) {
            guard let node = try node(parent), !node.isLeaf else { continue }
            let new = Dictionary(results.map { ($0.child, $0) }) { _, last in last }
            let isChanged = merge(
                new,
                of: node,
                replacing: try partials.partials(of: parent),
                to: writer
            )
            if isChanged { store(parent, writer.finish()) }
        }
    }

    /// Writes the valid results of both into a table; returns whether one is new.
    private static func merge(
        _ new: [IndexNodeID: ComputedPartial],
        of node: IndexNode,
        replacing old: PartialTable?,
        to writer: PartialTableWriter
    ) -> Bool {
        var isChanged = false
        writer.removeAll()
        for (place, child) in node.children.enumerated() {
            let stored = old?.result(of: child.id, version: child.version, hint: place)
            if let stored {
                guard writer.byteCount + stored.count <= tableBytesMax else { continue }
                writer.append(child.id, version: child.version, stored)
            } else if let added = new[child.id], added.version == child.version,
                writer.byteCount + added.result.count <= tableBytesMax
            {
                added.result.withUnsafeBytes {
                    writer.append(child.id, version: child.version, ByteView($0))
                }
                isChanged = true
            }
        }
        return isChanged
    }
}
