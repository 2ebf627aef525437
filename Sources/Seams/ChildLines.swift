package import Bytes

/// Splits what a child writes to its standard error into lines of bounded length.
///
/// - A longer line is cut; the rest of it, up to the line feed, is dropped.
package struct ChildLines: Sendable {
    /// Bytes of a line, without the mark of a cut.
    package static let bytesMax = 1_024

    private var line: [UInt8] = []
    private var isCut = false

    package init() {}

    /// The lines that `bytes` complete, without line feeds; empty ones are left out.
    package mutating func append(_ bytes: ByteView) -> [String] {
        var lines: [String] = []
        for byte in bytes.buffer {
            if byte == UInt8(ascii: "\n") {
                finish().map { lines.append($0) }
            } else if line.count < ChildLines.bytesMax {
                line.append(byte)
            } else {
                isCut = true
            }
        }
        return lines
    }

    /// The line without a line feed at the end of the stream; nil if it is empty.
    package mutating func finish() -> String? {
        defer {
            line.removeAll(keepingCapacity: true)
            isCut = false
        }
        guard !line.isEmpty else { return nil }
        return String(decoding: line, as: UTF8.self) + (isCut ? " ..." : "")
    }
}
