package import Bytes

/// Decides whether bytes are one JSON text, in constant memory.
///
/// The definition that `JSONValidator` follows: any value at the root, well-formed UTF-8, numbers
/// of any size, and lone surrogates in escapes, which the grammar allows.
package struct JSONGrammar {
    static let depthMax = 1_024

    private var scanner: JSONScanner
    private var depth = 0
    /// One bit per open bracket, set for an object: 1 024 levels in 128 bytes.
    private var objects = SIMD16<UInt64>(repeating: 0)

    /// Whether all of `view` is one JSON text, nested at most `depthMax` deep.
    package static func accepts(_ view: ByteView) -> Bool {
        var grammar = JSONGrammar(scanner: JSONScanner(view: view))
        return grammar.checkText()
    }

    private init(scanner: JSONScanner) {
        self.scanner = scanner
    }

    private mutating func checkText() -> Bool {
        while true {
            scanner.skipBlank()
            switch checkValue() {
            case .no: return false
            case .opened: continue
            case .whole: break
            }
            switch closeAll() {
            case .no: return false
            case .opened: continue
            case .whole: return true
            }
        }
    }

    private enum Step {
        /// Not JSON.
        case no
        /// A value must follow.
        case opened
        /// A value is complete.
        case whole
    }

    private mutating func checkValue() -> Step {
        switch scanner.peek {
        case UInt8(ascii: "{"):
            guard open(isObject: true) else { return .no }
            scanner.skipBlank()
            if scanner.consume("}") {
                depth -= 1
                return .whole
            }
            return checkName() ? .opened : .no
        case UInt8(ascii: "["):
            guard open(isObject: false) else { return .no }
            scanner.skipBlank()
            guard scanner.consume("]") else { return .opened }
            depth -= 1
            return .whole
        case UInt8(ascii: "\""): return scanner.consumeString() ? .whole : .no
        case UInt8(ascii: "t"): return scanner.consume(literal: "true") ? .whole : .no
        case UInt8(ascii: "f"): return scanner.consume(literal: "false") ? .whole : .no
        case UInt8(ascii: "n"): return scanner.consume(literal: "null") ? .whole : .no
        default: return scanner.consumeNumber() ? .whole : .no
        }
    }

    /// After a value: closes the brackets that end here, up to the next value or the end of the
    /// text.
    private mutating func closeAll() -> Step {
        while true {
            scanner.skipBlank()
            guard depth > 0 else { return scanner.isAtEnd ? .whole : .no }
            let isObject = objects[(depth - 1) / 64] >> UInt64((depth - 1) % 64) & 1 == 1
            if scanner.consume(",") {
                scanner.skipBlank()
                return !isObject || checkName() ? .opened : .no
            }
            guard isObject ? scanner.consume("}") : scanner.consume("]") else { return .no }
            depth -= 1
        }
    }

    /// Checks a member's name and its colon.
    private mutating func checkName() -> Bool {
        guard scanner.consumeString() else { return false }
        scanner.skipBlank()
        return scanner.consume(":")
    }

    /// Consumes an opening bracket and records its kind; false if the nesting is too deep.
    private mutating func open(isObject: Bool) -> Bool {
        guard depth < JSONGrammar.depthMax else { return false }
        _ = isObject ? scanner.consume("{") : scanner.consume("[")
        let bit: UInt64 = 1 << UInt64(depth % 64)
        if isObject { objects[depth / 64] |= bit } else { objects[depth / 64] &= ~bit }
        depth += 1
        return true
    }
}
