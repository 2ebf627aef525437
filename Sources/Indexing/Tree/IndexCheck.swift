package import Bytes
internal import Vocabulary

/// Verifies that the two trees of an index agree: every back entry has its rows, and every row its
/// back entry.
package enum IndexCheck {
    /// Everything that is wrong, up to `limit` sentences.
    ///
    /// `appendRowKey` makes a row's key from the sort key, the document id and the number among
    /// equal keys. Rows are sought one by one, so this takes some microseconds for each.
    ///
    /// - Throws: What the source throws, and `IndexError.damaged`: run `TreeCheck` first.
    package static func violations(
        main: Tree,
        back: Tree,
        limit: Int = 100,
        appendRowKey: (BackEntry.Row, _ documentID: ByteView, ByteWriter) -> Void
    ) throws(IndexError) -> [String] {
        var found: [String] = []
        var rows: UInt64 = 0
        let entries = RangeWalk(back)
        let key = ByteWriter()
        while let entry = try entries.next(), found.count < limit {
            let id = BackEntry.documentID(inKey: entry.key) ?? .empty
            var expected: [(key: [UInt8], checksum: UInt32)] = []
            let isValid = try back.source.withValue(entry.value) { value in
                BackEntry.forEachRow(in: value) { row in
                    key.removeAll()
                    appendRowKey(row, id, key)
                    expected.append((key.bytes, row.valueChecksum))
                }
            }
            if !isValid { found.append("the back entry of \(id.text) is malformed") }
            if expected.isEmpty { found.append("the back entry of \(id.text) has no rows") }
            if Set(expected.map(\.key)).count != expected.count {
                found.append("the back entry of \(id.text) has a row twice")
            }
            rows += UInt64(expected.count)
            for row in expected {
                let isFound = try has(main, row.key, checksum: row.checksum, of: entry.vBucket)
                if !isFound { found.append("a row of \(id.text) is missing or has another value") }
            }
        }
        if found.isEmpty, rows != main.root.rows {
            found.append("\(main.root.rows) rows, but \(rows) in back entries")
        }
        return found
    }

    private static func has(
        _ tree: Tree,
        _ key: [UInt8],
        checksum: UInt32,
        of vBucket: VBucketID
    ) throws(IndexError) -> Bool {
        let walk = RangeWalk(tree, KeyRange(start: key, end: key + [0]))
        guard let row = try walk.next(), row.vBucket == vBucket else { return false }
        return try tree.source.withValue(row.value) { CRC32C.checksum($0) } == checksum
    }
}
