package import Bytes
internal import JSON
package import Vocabulary

/// The changes of a batch of mapped documents in the two trees of an index.
///
/// The back tree has the rows that a document emitted before. Rows that the document emits again with
/// the same value are left alone, so an update that changes no row writes nothing.
///
/// - Every document occurs once in a batch.
/// - Both batches belong to one commit, together with the positions of the vBuckets.
package final class IndexUpdate {
    /// Changes of the rows.
    package let rows = EditBatch()
    /// Changes of the documents' entries.
    package let documents = EditBatch()
    /// How many rows each vBucket gains or loses.
    package private(set) var gains: [VBucketID: Int] = [:]
    private let tree: Tree
    private let key = ByteWriter()
    private let entry = ByteWriter()
    private let emitted = EmittedDocument()
    /// The document that rows are added to.
    private var current: (vBucket: VBucketID, id: [UInt8])?

    /// An empty update.
    ///
    /// - Parameter tree: The back tree before the update.
    package init(_ tree: Tree) {
        precondition(tree.kind == .document, "an update reads the back tree")
        self.tree = tree
    }

    /// Begins a document; its rows follow, then `end`.
    package func begin(_ vBucket: VBucketID, id: ByteView) {
        precondition(current == nil, "documents are updated one after the other")
        current = (vBucket, id.bytes)
        emitted.removeAll()
    }

    /// Adds a row that the document emits.
    ///
    /// - Parameters:
    ///   - sortKey: The encoded key.
    ///   - value: The value's JSON text.
    package func add(sortKey: ByteView, value: ByteView) {
        emitted.add(sortKey: sortKey, value: value)
    }

    /// Discards the rows that were added for the document: it has none.
    package func discardRows() { emitted.removeAll() }

    /// Ends the document: its old rows are replaced by those that were added.
    ///
    /// - Throws: `IndexError` if the old rows cannot be read.
    package func end() throws(IndexError) {
        guard let (vBucket, id) = current else {
            preconditionFailure("a document begins before it ends")
        }
        current = nil
        emitted.numberEqualKeys()
        var old = try oldRows(vBucket, id)
        let hadRows = !old.isEmpty
        var gain = 0
        var isChanged = false
        for row in emitted.rows {
            let name = RowName(sortKey: emitted.view(row.sortKey).bytes, number: row.number)
            let before = old.removeValue(forKey: name)
            guard before != row.checksum else { continue }
            isChanged = true
            if before == nil { gain += 1 }
            makeRowKey(emitted.view(row.sortKey), id, number: row.number)
            rows.put(key: key.view, vBucket: vBucket, value: emitted.view(row.value))
        }
        for name in old.keys {
            isChanged = true
            gain -= 1
            name.sortKey.withUnsafeBytes { makeRowKey(ByteView($0), id, number: name.number) }
            rows.remove(key: key.view)
        }
        guard isChanged else { return }
        gains[vBucket, default: 0] += gain
        writeEntry(vBucket, id, hadRows: hadRows)
    }

    /// Removes all rows of a vBucket's next documents.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket.
    ///   - rowsMax: About how many rows are removed at most; at least one document.
    /// - Returns: Whether documents of the vBucket remain.
    /// - Throws: `IndexError` if the rows cannot be read.
    package func remove(_ vBucket: VBucketID, rowsMax: Int) throws(IndexError) -> Bool {
        let walk = RangeWalk(tree, BackEntry.range(of: vBucket))
        var removed = 0
        while let found = try walk.next() {
            guard removed < rowsMax else { return true }
            guard let id = BackEntry.documentID(inKey: found.key)?.bytes else {
                throw .damaged(.none, "an entry of the back tree has no vBucket")
            }
            let old = try rows(in: found)
            for name in old.keys {
                name.sortKey.withUnsafeBytes { makeRowKey(ByteView($0), id, number: name.number) }
                rows.remove(key: key.view)
            }
            documents.remove(key: found.key)
            removed += old.count
            gains[vBucket, default: 0] -= old.count
        }
        return false
    }

    // MARK: Parts

    private func makeRowKey(_ sortKey: ByteView, _ id: [UInt8], number: UInt16) {
        key.removeAll()
        id.withUnsafeBytes { id in
            RowKey.append(sortKey: sortKey, id: ByteView(id), ordinal: number, to: key)
        }
    }

    /// The rows that the document has, with the checksums of their values.
    private func oldRows(
        _ vBucket: VBucketID,
        _ id: [UInt8]
    ) throws(IndexError) -> [RowName: UInt32] {
        key.removeAll()
        id.withUnsafeBytes { BackEntry.appendKey(vBucket, documentID: ByteView($0), to: key) }
        let wanted = key.bytes
        let walk = RangeWalk(tree, KeyRange(start: wanted))
        guard let found = try walk.next(), found.key.bytes == wanted else { return [:] }
        return try rows(in: found)
    }

    private func rows(in entry: IndexEntry) throws(IndexError) -> [RowName: UInt32] {
        var rows: [RowName: UInt32] = [:]
        let isWhole = try tree.source.withValue(entry.value) { value in
            BackEntry.forEachRow(in: value) { row in
                let name = RowName(sortKey: row.sortKey.bytes, number: row.number)
                rows[name] = row.valueChecksum
            }
        }
        guard isWhole else { throw .damaged(.none, "an entry of the back tree is malformed") }
        return rows
    }

    /// Writes the document's entry in the back tree, or removes it if the document emits nothing.
    private func writeEntry(_ vBucket: VBucketID, _ id: [UInt8], hadRows: Bool) {
        key.removeAll()
        id.withUnsafeBytes { BackEntry.appendKey(vBucket, documentID: ByteView($0), to: key) }
        guard !emitted.rows.isEmpty else {
            if hadRows { documents.remove(key: key.view) }
            return
        }
        entry.removeAll(keepingAtMost: 1 << 20)
        emitted.appendEntry(to: entry)
        documents.put(key: key.view, vBucket: vBucket, value: entry.view)
    }
}
