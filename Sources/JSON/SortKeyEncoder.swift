internal import Bytes

/// Walks over one JSON text and appends its sort key, token by token.
///
/// It follows `JSONGrammar`, with a stack of its own for brackets instead of recursion. The objects
/// that it uses are arguments: as stored properties they would be retained at each use.
struct SortKeyEncoder {
    private var scanner: JSONScanner
    private var brackets = BracketStack()

    init(text: ByteView) {
        scanner = JSONScanner(view: text)
    }

    /// Appends the whole text; false, with undefined bytes appended, if it is not JSON.
    mutating func encode(by collation: Collation, to output: ByteWriter) -> Bool {
        while true {
            scanner.skipBlank()
            switch encodeValue(by: collation, to: output) {
            case .invalid: return false
            case .opened: continue
            case .complete: break
            }
            switch closeBrackets(by: collation, to: output) {
            case .invalid: return false
            case .opened: continue
            case .complete: return true
            }
        }
    }

    private enum Step {
        /// The text is not JSON.
        case invalid
        /// A value must follow.
        case opened
        /// A value is complete.
        case complete
    }

    private mutating func encodeValue(by collation: Collation, to output: ByteWriter) -> Step {
        switch scanner.peek {
        case UInt8(ascii: "{"): return open(isObject: true, by: collation, to: output)
        case UInt8(ascii: "["): return open(isObject: false, by: collation, to: output)
        case UInt8(ascii: "\""):
            return encodeString(by: collation, to: output) ? .complete : .invalid
        case UInt8(ascii: "t"): return encode(literal: "true", as: SortKeyTag.yes, to: output)
        case UInt8(ascii: "f"): return encode(literal: "false", as: SortKeyTag.no, to: output)
        case UInt8(ascii: "n"): return encode(literal: "null", as: SortKeyTag.null, to: output)
        default: return encodeNumber(to: output)
        }
    }

    private mutating func open(
        isObject: Bool,
        by collation: Collation,
        to output: ByteWriter
    ) -> Step {
        _ = isObject ? scanner.consume("{") : scanner.consume("[")
        output.append(isObject ? SortKeyTag.object : SortKeyTag.array)
        scanner.skipBlank()
        if isObject ? scanner.consume("}") : scanner.consume("]") {
            output.append(SortKeyTag.end)
            return .complete
        }
        brackets.push(isObject: isObject)
        return !isObject || encodeName(by: collation, to: output) ? .opened : .invalid
    }

    /// After a value: closes the brackets that end here, up to the next value or the end of the
    /// text.
    private mutating func closeBrackets(by collation: Collation, to output: ByteWriter) -> Step {
        while true {
            scanner.skipBlank()
            guard !brackets.isEmpty else { return scanner.isAtEnd ? .complete : .invalid }
            let isObject = brackets.isObject
            if scanner.consume(",") {
                scanner.skipBlank()
                return !isObject || encodeName(by: collation, to: output) ? .opened : .invalid
            }
            guard isObject ? scanner.consume("}") : scanner.consume("]") else { return .invalid }
            output.append(SortKeyTag.end)
            brackets.pop()
        }
    }

    /// Encodes a member's name and consumes its colon.
    private mutating func encodeName(by collation: Collation, to output: ByteWriter) -> Bool {
        guard encodeString(by: collation, to: output) else { return false }
        scanner.skipBlank()
        return scanner.consume(":")
    }

    private mutating func encode(
        literal: StaticString,
        as tag: UInt8,
        to output: ByteWriter
    ) -> Step {
        guard scanner.consume(literal: literal) else { return .invalid }
        output.append(tag)
        return .complete
    }

    private mutating func encodeNumber(to output: ByteWriter) -> Step {
        let first = scanner.offset
        guard scanner.consumeNumber() else { return .invalid }
        let number = JSONNumber.value(of: scanner.view.slice(first, scanner.offset - first))
        output.append(SortKeyTag.number)
        output.append(bigEndian: SortKeyNumber.encode(number))
        return .complete
    }

    private mutating func encodeString(by collation: Collation, to output: ByteWriter) -> Bool {
        let first = scanner.offset
        guard scanner.consumeString() else { return false }
        output.append(SortKeyTag.string)
        collation.append(
            string: scanner.view.slice(first + 1, scanner.offset - first - 2),
            to: output
        )
        return true
    }
}
