package import Bytes
package import Vocabulary

/// The entries of the back tree: which rows a document emitted, so that they can be replaced.
///
///     key      vBucket u16 big-endian, document id
///     value    for each row: length of the sort key, sort key, n (LEB128), CRC-32C of the value u32
///
/// The vBucket comes first, so that the rows of one vBucket are found together.
package enum BackEntry {
    /// One row that a document emitted.
    package struct Row {
        /// The encoded key, without document id.
        package let sortKey: ByteView
        /// How many equal keys the document emitted before.
        package let number: UInt16
        package let valueChecksum: UInt32

        package init(sortKey: ByteView, number: UInt16, valueChecksum: UInt32) {
            self.sortKey = sortKey
            self.number = number
            self.valueChecksum = valueChecksum
        }
    }

    package static func appendKey(
        _ vBucket: VBucketID,
        documentID: ByteView,
        to output: ByteWriter
    ) {
        output.append(bigEndian: vBucket.number)
        output.append(documentID)
    }

    /// The document id in the key of an entry; nil if the key has no vBucket.
    package static func documentID(inKey key: ByteView) -> ByteView? {
        key.count >= 2 ? key.dropFirst(2) : nil
    }

    package static func append(_ row: Row, to output: ByteWriter) {
        LEB128.append(UInt64(row.sortKey.count), to: output)
        output.append(row.sortKey)
        LEB128.append(UInt64(row.number), to: output)
        output.append(littleEndian: row.valueChecksum)
    }

    /// Calls `body` for each row in a value; returns false if the value is malformed.
    package static func forEachRow(in value: ByteView, _ body: (Row) -> Void) -> Bool {
        var reader = ByteReader(value)
        while !reader.isAtEnd {
            guard let length = reader.leb128(), length <= UInt64(reader.rest.count),
                let sortKey = reader.bytes(Int(length)),
                let number = reader.leb128(), number <= UInt64(UInt16.max),
                let checksum = reader.littleEndian(UInt32.self)
            else { return false }
            body(Row(sortKey: sortKey, number: UInt16(number), valueChecksum: checksum))
        }
        return true
    }

    /// The entries of one vBucket.
    package static func range(of vBucket: VBucketID) -> KeyRange {
        let output = ByteWriter(capacity: 2)
        output.append(bigEndian: vBucket.number)
        return KeyRange(start: output.bytes, end: KeyRange.end(ofPrefix: output.view))
    }
}
