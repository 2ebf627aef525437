package import Bytes

/// A tree of JSON to be rendered, whose objects keep the order of their keys.
///
/// Clients were tested with one order of keys and one form of numbers; a dictionary's order would
/// change with every start.
package indirect enum JSONText: Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case unsigned(UInt64)
    /// Rendered as null if not finite: JSON has no such numbers.
    case double(Double)
    case string(String)
    case array([JSONText])
    case object([(String, JSONText)])
    /// Already rendered; must be exactly one JSON value.
    case rendered([UInt8])

    /// An integer; clamped to 64 bits.
    package static func number(_ value: some BinaryInteger) -> JSONText {
        if let value = Int64(exactly: value) { return .integer(value) }
        return .unsigned(UInt64(clamping: value))
    }

    package var bytes: [UInt8] {
        let writer = ByteWriter(capacity: 1_024)
        append(to: writer)
        return writer.bytes
    }

    /// Renders the tree as UTF-8.
    package func append(to writer: ByteWriter) {
        switch self {
        case .null: writer.append("null")
        case .bool(let value): writer.append(text: value ? "true" : "false")
        case .integer(let value): writer.append(text: String(value))
        case .unsigned(let value): writer.append(text: String(value))
        case .double(let value): Self.append(value, to: writer)
        case .string(let text): Self.append(quoted: text, to: writer)
        case .rendered(let bytes): writer.append(bytes)
        case .array(let elements):
            writer.append("[")
            for (place, element) in elements.enumerated() {
                if place > 0 { writer.append(",") }
                element.append(to: writer)
            }
            writer.append("]")
        case .object(let members):
            writer.append("{")
            for (place, (key, value)) in members.enumerated() {
                if place > 0 { writer.append(",") }
                Self.append(quoted: key, to: writer)
                writer.append(":")
                value.append(to: writer)
            }
            writer.append("}")
        }
    }

    private static func append(_ value: Double, to writer: ByteWriter) {
        guard value.isFinite else { return writer.append("null") }
        if let whole = Int64(exactly: value) {
            writer.append(text: String(whole))
        } else {
            writer.append(text: "\(value)")
        }
    }

    private static func append(quoted text: String, to writer: ByteWriter) {
        let digits = Array("0123456789abcdef".utf8)
        writer.append("\"")
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""): writer.append("\\\"")
            case UInt8(ascii: "\\"): writer.append("\\\\")
            case 0x0a: writer.append("\\n")
            case 0x0d: writer.append("\\r")
            case 0x09: writer.append("\\t")
            case 0..<0x20:
                writer.append("\\u00")
                writer.append(digits[Int(byte >> 4)])
                writer.append(digits[Int(byte & 15)])
            default: writer.append(byte)
            }
        }
        writer.append("\"")
    }
}

extension JSONText: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
}

extension JSONText: ExpressibleByIntegerLiteral {
    package init(integerLiteral value: Int64) { self = .integer(value) }
}

extension JSONText: ExpressibleByBooleanLiteral {
    package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSONText: ExpressibleByArrayLiteral {
    package init(arrayLiteral elements: JSONText...) { self = .array(elements) }
}

extension JSONText: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, JSONText)...) { self = .object(elements) }
}
