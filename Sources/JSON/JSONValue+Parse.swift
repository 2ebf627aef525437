package import Bytes

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
