package import Bytes
package import Vocabulary

/// The entries of the back tree: which rows a document emitted, so that they can be replaced.
///
///     key      vBucket u16 big-endian, document id
///     value    for each row: head (LEB128), z (LEB128), n (LEB128), sort key, CRC-32C of the value u32
///
/// A sort key is stored without its last z bytes, which are zero: those of most numbers have four or
/// more. The head is four times the bytes that are stored, with bit 0 set if z is stored and bit 1 if
/// n is; each is 0 if it is not stored.
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
        var stored = row.sortKey.count
        while stored > 0, row.sortKey[stored - 1] == 0 { stored -= 1 }
        // The number of one zero is no shorter than the zero.
        if row.sortKey.count - stored == 1 { stored += 1 }
        let zeros = row.sortKey.count - stored
        let bits = (zeros > 0 ? zerosBit : 0) | (row.number > 0 ? numberBit : 0)
        LEB128.append(UInt64(stored) << 2 | bits, to: output)
        if zeros > 0 { LEB128.append(UInt64(zeros), to: output) }
        if row.number > 0 { LEB128.append(UInt64(row.number), to: output) }
        output.append(row.sortKey.slice(0, stored))
        output.append(littleEndian: row.valueChecksum)
    }

    private static let zerosBit: UInt64 = 1
    private static let numberBit: UInt64 = 2

    /// Calls `body` for each row in a value; returns false if the value is malformed.
    ///
    /// The row's sort key is valid only during the call.
    package static func forEachRow(in value: ByteView, _ body: (Row) -> Void) -> Bool {
        var reader = ByteReader(value)
        let sortKey = ByteWriter(capacity: 64)
        while !reader.isAtEnd {
            guard let head = reader.leb128(),
                let zeros = head & zerosBit == 0 ? 0 : reader.leb128(),
                let number = head & numberBit == 0 ? 0 : reader.leb128(),
                head >> 2 <= UInt64(reader.rest.count),
                zeros <= UInt64(NodeFormat.keyBytesMax), number <= UInt64(UInt16.max),
                let stored = reader.bytes(Int(head >> 2)),
                let checksum = reader.littleEndian(UInt32.self)
            else { return false }
            sortKey.removeAll()
            sortKey.append(stored)
            for _ in 0..<zeros { sortKey.append(UInt8(0)) }
            body(
                Row(sortKey: sortKey.view, number: UInt16(number), valueChecksum: checksum)
            )
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
