package import Bytes
package import Vocabulary

/// Rows of one responder, in the order of the query: what one frame carries.
///
/// The bytes stay as they arrived; an entry says where its key and value are. So a row costs neither
/// memory of its own nor a copy between the frame and the answer.
package struct RowBatch: Sendable {
    /// Bytes of rows at which a responder sends a batch.
    ///
    /// With two in credit, 64 nodes need 8 MiB of the coordinator at most, and a frame's cost is
    /// small beside its rows'.
    package static let bytesTarget = 64 << 10

    private let bytes: [UInt8]
    private var entries: [Entry] = []

    private struct Entry {
        var keyNumber: UInt32
        var vBucket: UInt16
        var keyStart: UInt32
        var keyCount: UInt32
        var valueStart: UInt32
        var valueCount: UInt32
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
                vBucket: VBucketID(entry.vBucket),
                key: view.slice(Int(entry.keyStart), Int(entry.keyCount)),
                value: view.slice(Int(entry.valueStart), Int(entry.valueCount))
            )
            return body(row)
        }
    }

    // MARK: Encoding

    /// Reads a batch: the number of its rows (UInt32), then key number, vBucket, key and value of
    /// each, all numbers and lengths as LEB128.
    ///
    /// - Throws: `QueryMessageError` if the bytes are not a batch.
    package init(_ view: ByteView) throws(QueryMessageError) {
        bytes = view.bytes
        var reader = ByteReader(view)
        guard let count = reader.bigEndian(UInt32.self) else { throw .truncated("rows") }
        // A row has at least the four numbers.
        guard count <= reader.rest.count / 4 else { throw .truncated("rows") }
        guard view.count <= UInt32.max else { throw .invalid("rows") }
        entries.reserveCapacity(Int(count))
        for _ in 0..<count {
            guard let keyNumber = reader.leb128(), let vBucket = reader.leb128(),
                let keyCount = reader.leb128()
            else { throw .truncated("row") }
            guard let keyNumber = UInt32(exactly: keyNumber),
                let vBucket = UInt16(exactly: vBucket), vBucket < Limits.vBucketsDefault
            else { throw .invalid("row") }
            let keyStart = view.count - reader.rest.count
            guard let keyCount = UInt32(exactly: keyCount),
                reader.bytes(Int(keyCount)) != nil, let valueCount = reader.leb128()
            else { throw .truncated("key") }
            let valueStart = view.count - reader.rest.count
            guard let valueCount = UInt32(exactly: valueCount),
                reader.bytes(Int(valueCount)) != nil
            else { throw .truncated("value") }
            entries.append(
                Entry(
                    keyNumber: keyNumber,
                    vBucket: vBucket,
                    keyStart: UInt32(keyStart),
                    keyCount: keyCount,
                    valueStart: UInt32(valueStart),
                    valueCount: valueCount
                )
            )
        }
    }

    func append(to output: ByteWriter) { output.append(bytes) }
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
        let writer = RecordWriter(output)
        writer.number(keyNumber)
        writer.number(vBucket.number)
        writer.number(key.count)
        output.append(key)
        writer.number(value.count)
        output.append(value)
        count += 1
    }

    /// The encoded batch, which `RowBatch(_:)` reads; the writer is empty afterwards.
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
