internal import Bytes

/// A line and a column of a configuration file, as an editor shows them.
package struct SourcePosition: Equatable, Sendable {
    /// From 1 on.
    package let line: Int
    /// Characters from 1 on.
    package let column: Int
}

/// A configuration file, with its back-quoted strings replaced by JSON strings.
///
/// Files of 1.x have functions in back-quotes, over many lines. The rule (contract, section 0): the text between
/// a back-quote and the next one that has no backslash before it, at least one character, becomes a JSON string:
/// backslashes and quotes are escaped, line feeds and tabs become `\n` and `\t`, carriage returns are dropped.
///
/// - Each offset of the replaced text has a position in the original file.
struct SourceText {
    private let original: [UInt8]
    let json: [UInt8]
    /// The edges of back-quoted strings, in their order.
    private let edges: [Edge]

    /// From `json` on, each byte is `original` plus the distance, or, within a string, all bytes are its first.
    private struct Edge {
        let json: Int
        let original: Int
        let isString: Bool
    }

    var hasBackQuotes: Bool { edges.contains(where: \.isString) }

    init(_ text: ByteView) {
        // Editors of Windows begin files with a byte order mark.
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let bytes = text.bytes
        original = bytes.starts(with: mark) ? Array(bytes.dropFirst(3)) : bytes
        var json: [UInt8] = []
        var edges = [Edge(json: 0, original: 0, isString: false)]
        var offset = 0
        // Whether a back-quote may have an end.
        var searchEnd = true
        json.reserveCapacity(original.count)
        while offset < original.count {
            let isQuote = searchEnd && original[offset] == UInt8(ascii: "`")
            guard isQuote, let end = SourceText.end(of: offset, in: original) else {
                // If one back-quote has no end, no later one has.
                if isQuote { searchEnd = false }
                json.append(original[offset])
                offset += 1
                continue
            }
            edges.append(Edge(json: json.count, original: offset, isString: true))
            SourceText.appendString(original[(offset + 1)..<end], to: &json)
            offset = end + 1
            edges.append(Edge(json: json.count, original: offset, isString: false))
        }
        self.json = json
        self.edges = edges
    }

    /// The position of a byte of `json`, in the original file.
    func position(of offset: Int) -> SourcePosition {
        let edge = edges.last { $0.json <= offset } ?? edges[0]
        let source = edge.isString ? edge.original : edge.original + offset - edge.json
        let before = original[..<min(source, original.count)]
        let lineStart = before.lastIndex(of: 0x0a).map { $0 + 1 } ?? 0
        let line = before.reduce(1) { $1 == 0x0a ? $0 + 1 : $0 }
        // Bytes that continue a character of UTF-8 are no columns.
        let column = before[lineStart...].reduce(1) { $1 & 0xc0 == 0x80 ? $0 : $0 + 1 }
        return SourcePosition(line: line, column: column)
    }

    /// The back-quote that ends the string that begins at `start`; nil if there is none.
    private static func end(of start: Int, in text: [UInt8]) -> Int? {
        var offset = start + 2
        while offset < text.count {
            let isEscaped = text[offset - 1] == UInt8(ascii: "\\")
            if text[offset] == UInt8(ascii: "`"), !isEscaped { return offset }
            offset += 1
        }
        return nil
    }

    private static func appendString(_ content: ArraySlice<UInt8>, to json: inout [UInt8]) {
        json.append(UInt8(ascii: "\""))
        for byte in content {
            switch byte {
            case 0x0d: break
            case 0x0a: json += Array("\\n".utf8)
            case 0x09: json += Array("\\t".utf8)
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): json += [UInt8(ascii: "\\"), byte]
            default: json.append(byte)
            }
        }
        json.append(UInt8(ascii: "\""))
    }
}
