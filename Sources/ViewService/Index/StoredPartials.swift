internal import Bytes
package import Indexing
package import Persistence
package import Vocabulary

/// The stored results of one slot in one snapshot of an index's file.
///
/// Keeps the tables that it has read: a walk over groups needs those near the root again and again.
package final class StoredPartials: PartialSource {
    private let reads: IndexReads
    private let slot: IndexSlotID
    private let bytes = ByteWriter(capacity: 4 << 10)
    private var kept: [IndexNodeID: PartialTable?] = [:]
    private var keptBytes = 0
    /// Bytes of tables that are kept: about 100 numeric ones.
    private static let keptBytesMax = 1 << 20
    /// Memory of an entry in addition to its table, in bytes.
    private static let entryBytes = 64

    /// The results of `slot` that `reads` sees.
    package init(_ reads: IndexReads, _ slot: IndexSlotID) {
        self.reads = reads
        self.slot = slot
    }

    /// The results of an inner node's children; nil if none are stored.
    ///
    /// - Throws: `IndexError.damaged` if the row is damaged, `unreadable` if reading failed.
    package func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable? {
        if let table = kept[node] { return table }
        bytes.removeAll()
        let isFound = try fetching(at: node) { () throws(StorageError) in
            try reads.reduction(slot, node, into: bytes)
        }
        let table = isFound ? PartialTable(body: bytes.view) : nil
        keep(table, of: node)
        return table
    }

    /// Replaces what was read of a node by a table that is about to be stored.
    func replace(_ node: IndexNodeID, _ body: ByteView) {
        keep(PartialTable(body: body), of: node)
    }

    private func keep(_ table: PartialTable?, of node: IndexNodeID) {
        keptBytes += (table?.byteCount ?? 0) + Self.entryBytes
        if keptBytes > Self.keptBytesMax {
            kept.removeAll(keepingCapacity: true)
            keptBytes = (table?.byteCount ?? 0) + Self.entryBytes
        }
        kept.updateValue(table, forKey: node)
    }
}
