package import Bytes
package import Vocabulary

/// Rows of one responder, in the order of the query: what one message carries.
///
/// The bytes stay as they arrived; an entry says where its key and value are. So a row costs neither
/// memory of its own nor a copy between the message and the answer.
package struct RowBatch: Sendable {
    /// Bytes of rows at which a responder sends a batch.
    ///
    /// With two in credit, 64 nodes need 8 MiB of the coordinator at most, and a message's cost is
    /// small beside its rows'.
    package static let bytesTarget = 64 << 10

    private let bytes: [UInt8]
    private var entries: [Entry] = []

    private struct Entry {
        var keyNumber: UInt32 = 0
        var vBucket = VBucketID(0)
        var key = Place()
        var value = Place()
    }

    private struct Place {
        var start: UInt32 = 0
        var count: UInt32 = 0
    }

    /// A row as views of its batch.
    package struct Row {
        /// The number of the row's key in `keys`; 0 in other queries.
        package let keyNumber: Int
        /// Of a group: 0, since it has rows of many.
        package let vBucket: VBucketID
        package let key: ByteView
        package let value: ByteView

        package init(keyNumber: Int, vBucket: VBucketID, key: ByteView, value: ByteView) {
            self.keyNumber = keyNumber
            self.vBucket = vBucket
            self.key = key
            self.value = value
        }
    }

    package var count: Int { entries.count }
    package var isEmpty: Bool { entries.isEmpty }

    /// Calls `body` with a row, whose views are valid during the call only.
    package func withRow<Result>(_ index: Int, _ body: (Row) -> Result) -> Result {
        let entry = entries[index]
        return bytes.withUnsafeBytes { buffer in
            let view = ByteView(buffer)
            let row = Row(
                keyNumber: Int(entry.keyNumber),
                vBucket: entry.vBucket,
                key: view.slice(Int(entry.key.start), Int(entry.key.count)),
                value: view.slice(Int(entry.value.start), Int(entry.value.count))
            )
            return body(row)
        }
    }
}

/// The number of the rows (UInt32), then key number, vBucket, key and value of each, all numbers and
/// lengths as LEB128, up to the end of the bytes.
extension RowBatch: Coded {
    package func write(to writer: inout FieldWriter) { writer.output.append(bytes) }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let view = try reader.readView(reader.bytesLeft)
        bytes = view.bytes
        var rows = FieldReader(view)
        var count: UInt32 = 0
        try rows.fixed(&count, "rows")
        // A row has at least the four numbers.
        guard count <= rows.bytesLeft / 4 else { throw rows.failure(.cutShort) }
        try rows.require(view.count <= UInt32.max, "rows")
        entries.reserveCapacity(Int(count))
        for _ in 0..<count {
            var entry = Entry()
            try rows.field(&entry.keyNumber, "row")
            try rows.field(&entry.vBucket, "row")
            try RowBatch.findBytes(&entry.key, in: &rows, before: view.count, name: "key")
            try RowBatch.findBytes(&entry.value, in: &rows, before: view.count, name: "value")
            entries.append(entry)
        }
    }

    /// Skips the next bytes, which their count precedes, and stores where they are of `end` bytes.
    private static func findBytes(
        _ place: inout Place,
        in rows: inout FieldReader,
        before end: Int,
        name: StaticString
    ) throws(CodingFailure) {
        try rows.field(&place.count, name)
        place.start = UInt32(end - rows.bytesLeft)
        _ = try rows.readView(Int(place.count))
    }
}

extension RowBatch: Equatable {
    package static func == (one: RowBatch, other: RowBatch) -> Bool { one.bytes == other.bytes }
}

/// Collects the rows of a batch on the responder, in the order of the query.
package struct RowBatchWriter {
    private let output: ByteWriter
    package private(set) var count = 0

    package init() {
        // Most answers are a few rows: the memory of a whole batch would cost more than they do. The
        // allocator keeps freed memory of up to this size for its thread; it searches for larger one.
        output = ByteWriter(capacity: 1_000)
        removeAll()
    }

    package var isEmpty: Bool { count == 0 }

    /// Whether the batch is to be sent before another row is appended.
    package var isFull: Bool { output.count >= RowBatch.bytesTarget }

    /// Appends a row, or a group with vBucket 0; whatever its size, as one batch may have one row of
    /// the largest size.
    package mutating func append(
        keyNumber: Int,
        vBucket: VBucketID,
        key: ByteView,
        value: ByteView
    ) {
        var writer = FieldWriter(output)
        writer.write(number: keyNumber)
        writer.write(number: vBucket.number)
        writer.write(number: key.count)
        output.append(key)
        writer.write(number: value.count)
        output.append(value)
        count += 1
    }

    /// The encoded batch, which `RowBatch` decodes; the writer is empty afterwards.
    package mutating func finish() -> [UInt8] {
        output.replace(at: 0, bigEndian: UInt32(count))
        let bytes = output.bytes
        removeAll()
        return bytes
    }

    private mutating func removeAll() {
        output.removeAll(keepingAtMost: 2 * RowBatch.bytesTarget)
        output.append(bigEndian: UInt32(0))
        count = 0
    }
}
