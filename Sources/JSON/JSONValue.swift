package import Bytes

/// A JSON text as a tree, for small files and requests, never for documents.
///
/// Members keep their order, and duplicates stay. A look-up finds the last one, as in most parsers.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits an `Int`.
    case integer(Int)
    /// A number without fraction or exponent that fits only a `UInt64`.
    case unsigned(UInt64)
    case real(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    package struct Member: Equatable, Sendable {
        package let name: String
        package let value: JSONValue

        package init(name: String, value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    /// The value of this object's last member of that name; nil if there is none, or this is not an
    /// object.
    package subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    package var isNull: Bool { self == .null }

    package var bool: Bool? {
        guard case .bool(let claim) = self else { return nil }
        return claim
    }

    package var int: Int? {
        guard case .integer(let number) = self else { return nil }
        return number
    }

    /// Any number, rounded to a `Double`; nil if this is not a number.
    package var double: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .unsigned(let number): Double(number)
        case .real(let number): number
        default: nil
        }
    }

    package var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    package var array: [JSONValue]? {
        guard case .array(let values) = self else { return nil }
        return values
    }

    package var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}

extension JSONWriter {
    package mutating func value(_ tree: JSONValue) {
        switch tree {
        case .null: null()
        case .bool(let claim): value(claim)
        case .integer(let number): value(number)
        case .unsigned(let number): value(number)
        case .real(let number): value(number)
        case .string(let text): value(text)
        case .array(let values): array { for value in values { $0.value(value) } }
        case .object(let members):
            object { for member in members { $0.member(member.name, member.value) } }
        }
    }

    package mutating func member(_ name: String, _ tree: JSONValue) {
        self.name(name)
        value(tree)
    }
}

extension JSONValue {
    /// Deeper than any file or request that Divan reads, and far from a stack overflow.
    package static let depthMax = 64

    /// Parses one JSON text; nil if it is not JSON, nests deeper than `depthMax`, or has a number
    /// that overflows a `Double`.
    package static func parse(_ view: ByteView) -> JSONValue? {
        var parser = Parser(scanner: JSONScanner(view: view))
        guard let value = parser.parseValue(depth: 0) else { return nil }
        parser.scanner.skipBlank()
        return parser.scanner.isAtEnd ? value : nil
    }

    package static func parse(_ text: String) -> JSONValue? {
        text.withView { parse($0) }
    }

    private struct Parser {
        var scanner: JSONScanner

        mutating func parseValue(depth: Int) -> JSONValue? {
            scanner.skipBlank()
            switch scanner.peek {
            case UInt8(ascii: "{"): return depth < depthMax ? parseObject(depth) : nil
            case UInt8(ascii: "["): return depth < depthMax ? parseArray(depth) : nil
            case UInt8(ascii: "\""): return parseString().map { .string($0) }
            case UInt8(ascii: "t"): return scanner.consume(literal: "true") ? .bool(true) : nil
            case UInt8(ascii: "f"): return scanner.consume(literal: "false") ? .bool(false) : nil
            case UInt8(ascii: "n"): return scanner.consume(literal: "null") ? .null : nil
            default: return parseNumber()
            }
        }

        private mutating func parseObject(_ depth: Int) -> JSONValue? {
            var members: [Member] = []
            _ = scanner.consume("{")
            scanner.skipBlank()
            if scanner.consume("}") { return .object(members) }
            repeat {
                scanner.skipBlank()
                guard let name = parseString() else { return nil }
                scanner.skipBlank()
                guard scanner.consume(":"), let value = parseValue(depth: depth + 1) else {
                    return nil
                }
                members.append(Member(name: name, value: value))
                scanner.skipBlank()
            } while scanner.consume(",")
            return scanner.consume("}") ? .object(members) : nil
        }

        private mutating func parseArray(_ depth: Int) -> JSONValue? {
            var values: [JSONValue] = []
            _ = scanner.consume("[")
            scanner.skipBlank()
            if scanner.consume("]") { return .array(values) }
            repeat {
                guard let value = parseValue(depth: depth + 1) else { return nil }
                values.append(value)
                scanner.skipBlank()
            } while scanner.consume(",")
            return scanner.consume("]") ? .array(values) : nil
        }

        private mutating func parseNumber() -> JSONValue? {
            let first = scanner.offset
            guard scanner.consumeNumber() else { return nil }
            let text = scanner.view.slice(first, scanner.offset - first).text
            if let number = Int(text) { return .integer(number) }
            if let number = UInt64(text) { return .unsigned(number) }
            guard let number = Double(text), number.isFinite else { return nil }
            return .real(number)
        }

        private mutating func parseString() -> String? {
            let first = scanner.offset
            guard scanner.consumeString() else { return nil }
            let content = scanner.view.slice(first + 1, scanner.offset - first - 2)
            return JSONEscapes.decode(content)
        }
    }
}
