internal import Bytes
internal import JSON

/// A mistake of a configuration file, with its position.
package struct ConfigurationMistake: Error, Equatable, Sendable {
    package let position: SourcePosition
    /// The keys from the root to the value, separated by dots; empty for the whole file.
    package let path: String
    /// The expected value, or the remedy.
    package let reason: String

    /// `3:14: databases.demo.users: expected an object`.
    package var text: String {
        let start = "\(position.line):\(position.column)"
        return path.isEmpty ? "\(start): \(reason)" : "\(start): \(path): \(reason)"
    }
}

/// A JSON value of a configuration file, which knows where it is.
///
/// `JSONValue` has no positions, and a file with a mistake in its last line must name that line.
struct ConfigurationTree {
    indirect enum Kind {
        case null
        case bool(Bool)
        case number(Double)
        case string(String)
        case array([ConfigurationTree])
        case object([Member])
    }

    struct Member {
        let name: String
        let nameOffset: Int
        let value: ConfigurationTree
    }

    /// In the replaced text.
    let offset: Int
    let kind: Kind

    /// How the mistakes of a text name this kind of value.
    var kindName: String {
        switch kind {
        case .null: "null"
        case .bool: "a Boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    var isNull: Bool {
        if case .null = kind { return true }
        return false
    }

    /// Deeper files are no configurations.
    static let depthMax = 64

    /// Parses a whole file.
    ///
    /// - Throws: The first mistake: its position, and the expected token.
    static func parse(_ text: SourceText) throws(ConfigurationMistake) -> ConfigurationTree {
        let result = text.json.withUnsafeBytes { buffer in
            var parser = Parser(scanner: JSONScanner(view: ByteView(buffer)))
            return parser.parseText()
        }
        switch result {
        case .success(let tree): return tree
        case .failure(let unexpected):
            throw ConfigurationMistake(
                position: text.position(of: unexpected.offset),
                path: "",
                reason: "expected \(unexpected.expected)"
            )
        }
    }
}

extension ConfigurationTree {
    fileprivate struct Unexpected: Error {
        let offset: Int
        let expected: String
    }

    fileprivate struct Parser {
        private var scanner: JSONScanner

        init(scanner: JSONScanner) { self.scanner = scanner }

        mutating func parseText() -> Result<ConfigurationTree, Unexpected> {
            do throws(Unexpected) {
                let tree = try parseValue(depth: 0)
                scanner.skipBlank()
                guard scanner.isAtEnd else { throw unexpected("the end of the file") }
                return .success(tree)
            } catch {
                return .failure(error)
            }
        }

        private func unexpected(_ expected: String, at offset: Int? = nil) -> Unexpected {
            Unexpected(offset: offset ?? scanner.offset, expected: expected)
        }

        /// - Throws: The first mistake.
        private mutating func parseValue(depth: Int) throws(Unexpected) -> ConfigurationTree {
            scanner.skipBlank()
            let offset = scanner.offset
            let kind: Kind
            switch scanner.peek {
            case UInt8(ascii: "{"): kind = .object(try parseMembers(depth: depth + 1))
            case UInt8(ascii: "["): kind = .array(try parseElements(depth: depth + 1))
            case UInt8(ascii: "\""): kind = .string(try parseString("a string"))
            case UInt8(ascii: "t"): kind = try parseLiteral("true", .bool(true))
            case UInt8(ascii: "f"): kind = try parseLiteral("false", .bool(false))
            case UInt8(ascii: "n"): kind = try parseLiteral("null", .null)
            default: kind = try parseNumber()
            }
            return ConfigurationTree(offset: offset, kind: kind)
        }

        /// - Throws: The first mistake.
        private mutating func parseMembers(depth: Int) throws(Unexpected) -> [Member] {
            var members: [Member] = []
            try open("{", depth)
            if scanner.consume("}") { return members }
            repeat {
                scanner.skipBlank()
                let nameOffset = scanner.offset
                let name = try parseString("a key in quotes")
                scanner.skipBlank()
                guard scanner.consume(":") else { throw unexpected("':' after a key") }
                let value = try parseValue(depth: depth)
                members.append(Member(name: name, nameOffset: nameOffset, value: value))
                scanner.skipBlank()
            } while scanner.consume(",")
            guard scanner.consume("}") else { throw unexpected("',' or '}'") }
            return members
        }

        /// - Throws: The first mistake.
        private mutating func parseElements(depth: Int) throws(Unexpected) -> [ConfigurationTree] {
            var elements: [ConfigurationTree] = []
            try open("[", depth)
            if scanner.consume("]") { return elements }
            repeat {
                elements.append(try parseValue(depth: depth))
                scanner.skipBlank()
            } while scanner.consume(",")
            guard scanner.consume("]") else { throw unexpected("',' or ']'") }
            return elements
        }

        /// - Throws: The nesting is too deep.
        private mutating func open(_ bracket: Unicode.Scalar, _ depth: Int) throws(Unexpected) {
            guard depth <= depthMax else { throw unexpected("at most \(depthMax) nested brackets") }
            _ = scanner.consume(bracket)
            scanner.skipBlank()
        }

        /// - Throws: There is no string, or it has an invalid escape or character.
        private mutating func parseString(_ expected: String) throws(Unexpected) -> String {
            let start = scanner.offset
            guard scanner.peek == UInt8(ascii: "\"") else { throw unexpected(expected) }
            guard scanner.consumeString() else {
                throw unexpected(
                    scanner.isAtEnd
                        ? "a quote that ends the string"
                        : "a valid character or escape in the string",
                    at: scanner.isAtEnd ? start : scanner.offset
                )
            }
            let content = scanner.view.slice(start + 1, scanner.offset - start - 2)
            let utf8 = ByteWriter(capacity: content.count)
            JSONEscapes.append(decoded: content, to: utf8)
            return utf8.view.text
        }

        /// - Throws: The text is another one.
        private mutating func parseLiteral(
            _ literal: StaticString,
            _ kind: Kind
        ) throws(Unexpected) -> Kind {
            guard scanner.consume(literal: literal) else { throw unexpected("a value") }
            return kind
        }

        /// - Throws: There is no number, or it is too large.
        private mutating func parseNumber() throws(Unexpected) -> Kind {
            let start = scanner.offset
            guard scanner.consumeNumber() else { throw unexpected("a value", at: start) }
            let number = JSONNumber.value(of: scanner.view.slice(start, scanner.offset - start))
            guard number.isFinite else { throw unexpected("a smaller number", at: start) }
            return .number(number)
        }
    }
}

extension ConfigurationTree {
    /// The value as JSON without blanks, members in their order.
    var text: [UInt8] {
        let output = ByteWriter()
        append(to: output)
        return output.bytes
    }

    /// Appends the value as JSON without blanks, members in their order.
    private func append(to output: ByteWriter) {
        switch kind {
        case .null: output.append("null")
        case .bool(let claim): output.append(claim ? "true" : "false")
        case .number(let number): JSONNumber.append(number, to: output)
        case .string(let text): CanonicalJSON.append(string: text, to: output)
        case .array(let elements):
            output.append("[")
            CanonicalJSON.appendList(elements, to: output) { $0.append(to: output) }
            output.append("]")
        case .object(let members):
            output.append("{")
            CanonicalJSON.appendList(members, to: output) { member in
                CanonicalJSON.append(string: member.name, to: output)
                output.append(":")
                member.value.append(to: output)
            }
            output.append("}")
        }
    }
}

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
