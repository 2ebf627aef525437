internal import Bytes

/// The rows that one document emits, in the making.
///
/// - Rows of equal keys are numbered in the order in which they were emitted.
final class EmittedDocument {
    struct Row {
        let sortKey: Range<Int>
        var number: UInt16
        let value: Range<Int>
        let checksum: UInt32
    }

    private(set) var rows: [Row] = []
    private let text = ByteWriter(capacity: 4 << 10)

    init() {}

    /// Begins the next document, which has no rows yet.
    func removeAll() {
        text.removeAll(keepingAtMost: 1 << 20)
        rows.removeAll(keepingCapacity: true)
    }

    /// Adds a row: the encoded key, and the value's JSON text.
    func add(sortKey: ByteView, value: ByteView) {
        let keyStart = text.count
        text.append(sortKey)
        let valueStart = text.count
        text.append(value)
        rows.append(
            Row(
                sortKey: keyStart..<valueStart,
                number: 0,
                value: valueStart..<text.count,
                checksum: CRC32C.checksum(value)
            )
        )
    }

    func view(_ range: Range<Int>) -> ByteView {
        text.view.slice(range.lowerBound, range.count)
    }

    /// Numbers the rows of equal keys, after the last row was added.
    func numberEqualKeys() {
        guard rows.count > 1 else { return }
        var counts: [[UInt8]: UInt16] = [:]
        for index in rows.indices {
            let key = view(rows[index].sortKey).bytes
            let number = counts[key, default: 0]
            counts[key] = number &+ 1
            rows[index].number = number
        }
    }

    /// Appends the value of the document's entry in the back tree.
    func appendEntry(to output: ByteWriter) {
        for row in rows {
            BackEntry.append(
                BackEntry.Row(
                    sortKey: view(row.sortKey),
                    number: row.number,
                    valueChecksum: row.checksum
                ),
                to: output
            )
        }
    }
}

/// A row of a document in the back tree, by its bytes.
struct RowName: Hashable {
    let sortKey: [UInt8]
    let number: UInt16
}
