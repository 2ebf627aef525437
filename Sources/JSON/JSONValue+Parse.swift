package import Bytes

extension JSONValue {
    /// Far deeper than any file or request of ours, far shallower than a stack.
    package static let depthMax = 64

    /// Reads one JSON text; nil where it is none, or nests deeper than `depthMax`.
    package static func parse(_ view: ByteView) -> JSONValue? {
        var parser = Parser(scanner: JSONScanner(view))
        guard let value = parser.takeValue(depth: 0) else { return nil }
        parser.scanner.skipBlank()
        return parser.scanner.isAtEnd ? value : nil
    }

    package static func parse(_ text: String) -> JSONValue? {
        var text = text
        return text.withUTF8 { parse(ByteView(UnsafeRawBufferPointer($0))) }
    }

    private struct Parser {
        var scanner: JSONScanner

        mutating func takeValue(depth: Int) -> JSONValue? {
            scanner.skipBlank()
            switch scanner.peek {
            case UInt8(ascii: "{"): return depth < depthMax ? takeObject(depth) : nil
            case UInt8(ascii: "["): return depth < depthMax ? takeArray(depth) : nil
            case UInt8(ascii: "\""): return takeString().map { .string($0) }
            case UInt8(ascii: "t"): return scanner.take(literal: "true") ? .bool(true) : nil
            case UInt8(ascii: "f"): return scanner.take(literal: "false") ? .bool(false) : nil
            case UInt8(ascii: "n"): return scanner.take(literal: "null") ? .null : nil
            default: return takeNumber()
            }
        }

        private mutating func takeObject(_ depth: Int) -> JSONValue? {
            var members: [Member] = []
            _ = scanner.take("{")
            scanner.skipBlank()
            if scanner.take("}") { return .object(members) }
            repeat {
                scanner.skipBlank()
                guard let name = takeString() else { return nil }
                scanner.skipBlank()
                guard scanner.take(":"), let value = takeValue(depth: depth + 1) else {
                    return nil
                }
                members.append(Member(name: name, value: value))
                scanner.skipBlank()
            } while scanner.take(",")
            return scanner.take("}") ? .object(members) : nil
        }

        private mutating func takeArray(_ depth: Int) -> JSONValue? {
            var values: [JSONValue] = []
            _ = scanner.take("[")
            scanner.skipBlank()
            if scanner.take("]") { return .array(values) }
            repeat {
                guard let value = takeValue(depth: depth + 1) else { return nil }
                values.append(value)
                scanner.skipBlank()
            } while scanner.take(",")
            return scanner.take("]") ? .array(values) : nil
        }

        private mutating func takeNumber() -> JSONValue? {
            let first = scanner.offset
            guard scanner.takeNumber() else { return nil }
            let text = scanner.view.slice(first, scanner.offset - first).text
            if let number = Int(text) { return .integer(number) }
            if let number = UInt64(text) { return .unsigned(number) }
            guard let number = Double(text), number.isFinite else { return nil }
            return .real(number)
        }

        private mutating func takeString() -> String? {
            let first = scanner.offset
            guard scanner.takeString() else { return nil }
            let content = scanner.view.slice(first + 1, scanner.offset - first - 2)
            return JSONText.decode(content)
        }
    }
}
