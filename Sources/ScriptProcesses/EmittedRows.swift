package import Bytes
internal import Wire

/// The rows of a work, found by item: what a map function emitted, or what a sync function called.
package struct EmittedRows {
    private struct Row {
        let piece: Int
        let key: Range<Int>
        let value: Range<Int>
    }

    private let pieces: [ScriptResults.Piece]
    private var rows: [Row] = []
    /// The rows of each item; the rows of an item are next to each other.
    private var items: [Range<Int>] = []

    package init(_ results: ScriptResults) {
        pieces = results.pieces
        for (index, piece) in pieces.enumerated() {
            piece.bytes.withUnsafeBytes { bytes in
                guard let base = bytes.baseAddress,
                    var reader = ScriptSection<ScriptRow>(ByteView(bytes))
                else {
                    return
                }
                while let row = reader.next() {
                    let key = row.key.start - base
                    let value = row.value.start - base
                    let item = piece.firstItem + Int(row.item)
                    let place = rows.count
                    rows.append(
                        Row(
                            piece: index,
                            key: key..<key + row.key.count,
                            value: value..<value + row.value.count
                        )
                    )
                    while items.count <= item { items.append(0..<0) }
                    let first = items[item].isEmpty ? place : items[item].lowerBound
                    items[item] = first..<place + 1
                }
            }
        }
    }

    /// Calls `body` with the key and the value of each row of an item, in the order of the calls; both are
    /// JSON texts.
    package func forEach(item: Int, _ body: (_ key: ByteView, _ value: ByteView) -> Void) {
        guard item < items.count else { return }
        for row in rows[items[item]] {
            pieces[row.piece].bytes.withUnsafeBytes { bytes in
                let view = ByteView(bytes)
                body(
                    view.slice(row.key.lowerBound, row.key.count),
                    view.slice(row.value.lowerBound, row.value.count)
                )
            }
        }
    }
}
