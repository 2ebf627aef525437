internal import Bytes
internal import JSON

/// Finds the parts of a JSON text that `JSONGrammar` has accepted, as views of the text.
///
/// `JSONValue` would lose what keys need: `1e400` and the difference of equal numbers' texts.
///
/// - Precondition: the text is valid; on other text the parts are meaningless.
struct JSONParts {
    private let text: ByteView
    private var offset = 0

    /// The elements of an array; nil if the text is another value.
    static func elements(of text: ByteView) -> [ByteView]? {
        var parts = JSONParts(text: text)
        parts.skipBlank()
        guard parts.consume("[") else { return nil }
        var elements: [ByteView] = []
        parts.skipBlank()
        if parts.consume("]") { return elements }
        repeat {
            elements.append(parts.value())
        } while parts.consume(",")
        return elements
    }

    /// Whether the text is an object.
    static func isObject(_ text: ByteView) -> Bool {
        var parts = JSONParts(text: text)
        parts.skipBlank()
        return parts.consume("{")
    }

    /// The value of an object's last member of that name; nil if there is none.
    static func member(_ name: String, of text: ByteView) -> ByteView? {
        var parts = JSONParts(text: text)
        parts.skipBlank()
        guard parts.consume("{") else { return nil }
        parts.skipBlank()
        if parts.consume("}") { return nil }
        var found: ByteView?
        repeat {
            let memberName = parts.value()
            _ = parts.consume(":")
            let value = parts.value()
            if JSONValue.parse(memberName)?.string == name { found = value }
        } while parts.consume(",")
        return found
    }

    /// The text without the blanks around it.
    static func trimmed(_ text: ByteView) -> ByteView {
        var first = 0
        var end = text.count
        while first < end, isBlank(text[first]) { first += 1 }
        while end > first, isBlank(text[end - 1]) { end -= 1 }
        return text.slice(first, end - first)
    }

    // MARK: Implementation

    /// Consumes a value and the blanks around it; returns the value without them.
    private mutating func value() -> ByteView {
        let first = offset
        var depth = 0
        var isInString = false
        scan: while offset < text.count {
            let byte = text[offset]
            if isInString {
                if byte == UInt8(ascii: "\\") {
                    offset += 1
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
                case UInt8(ascii: "]"), UInt8(ascii: "}"):
                    if depth == 0 { break scan }
                    depth -= 1
                case UInt8(ascii: ","), UInt8(ascii: ":"):
                    if depth == 0 { break scan }
                default: break
                }
            }
            offset += 1
        }
        offset = min(offset, text.count)
        return JSONParts.trimmed(text.slice(first, offset - first))
    }

    private mutating func skipBlank() {
        while offset < text.count, JSONParts.isBlank(text[offset]) { offset += 1 }
    }

    private mutating func consume(_ byte: Unicode.Scalar) -> Bool {
        guard offset < text.count, text[offset] == UInt8(ascii: byte) else { return false }
        offset += 1
        return true
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
    }
}
