internal import Bytes

/// Writes a document with one change: the bytes before it, what replaces the old bytes, and the rest.
struct EditWriter {
    private let document: ByteView
    private let writer: ByteWriter
    private let base: Int

    /// Makes room for a document that has at most `additional` bytes more.
    init(_ document: ByteView, _ writer: ByteWriter, additional: Int) {
        self.document = document
        self.writer = writer
        base = writer.count
        writer.reserve(document.count + additional)
    }

    /// Writes the document with `value` in place of the bytes in `old`.
    func replace(_ old: Range<Int>, by value: ByteView) -> Range<Int> {
        copy(upTo: old.lowerBound)
        let written = append(value)
        copy(from: old.upperBound)
        return written
    }

    /// Writes the document without the bytes in `old`.
    func remove(_ old: Range<Int>) {
        copy(upTo: old.lowerBound)
        copy(from: old.upperBound)
    }

    func copy(upTo offset: Int) { writer.append(document.slice(0, offset)) }

    func append(_ text: StaticString) { writer.append(text) }

    /// Begins a member: its key and the colon.
    func append(_ key: PathKey) {
        writer.append(UInt8(ascii: "\""))
        key.append(to: writer)
        writer.append("\":")
    }

    /// Appends `value`; returns where it is in the new document.
    func append(_ value: ByteView) -> Range<Int> {
        let start = writer.count - base
        writer.append(value)
        return start..<writer.count - base
    }

    func copy(from offset: Int) { writer.append(document.dropFirst(offset)) }
}
