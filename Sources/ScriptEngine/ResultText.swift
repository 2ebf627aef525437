internal import Bytes

/// Reads the lines in which the harness returns results.
///
/// The fields of a line end with a tab, the last one with a line feed; JSON text has neither.
struct ResultText {
    private let view: ByteView
    private var position = 0

    init(_ view: ByteView) { self.view = view }

    var isAtEnd: Bool { position >= view.count }

    /// Consumes a decimal number and the tab after it.
    mutating func item() -> UInt32 {
        var number: UInt32 = 0
        while position < view.count, view[position] != UInt8(ascii: "\t") {
            number = number &* 10 &+ UInt32(view[position] & 15)
            position += 1
        }
        position += 1
        return number
    }

    /// Consumes a field and the byte that ends it.
    mutating func field(before end: UInt8) -> ByteView {
        let start = min(position, view.count)
        while position < view.count, view[position] != end { position += 1 }
        defer { position += 1 }
        return view.slice(start, position - start)
    }
}
