package import Bytes

/// Decides whether bytes are one JSON text, in constant memory.
///
/// The definition that `JSONValidator` answers by: any value at the root, UTF-8 well formed, numbers
/// of any size, lone surrogates in escapes allowed as the grammar allows them.
package struct JSONGrammar {
    static let depthMax = 1_024

    private var scanner: JSONScanner
    private var depth = 0
    /// One bit per open bracket, set for an object: 1 024 levels in 128 bytes.
    private var objects = SIMD16<UInt64>(repeating: 0)

    package static func accepts(_ view: ByteView) -> Bool {
        var grammar = JSONGrammar(scanner: JSONScanner(view))
        return grammar.takeText()
    }

    private init(scanner: JSONScanner) {
        self.scanner = scanner
    }

    private mutating func takeText() -> Bool {
        while true {
            scanner.skipBlank()
            switch takeValue() {
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
        case no
        /// A value is expected next.
        case opened
        /// A value ended.
        case whole
    }

    private mutating func takeValue() -> Step {
        switch scanner.peek {
        case UInt8(ascii: "{"):
            guard open(isObject: true) else { return .no }
            scanner.skipBlank()
            if scanner.take("}") {
                depth -= 1
                return .whole
            }
            return takeName() ? .opened : .no
        case UInt8(ascii: "["):
            guard open(isObject: false) else { return .no }
            scanner.skipBlank()
            guard scanner.take("]") else { return .opened }
            depth -= 1
            return .whole
        case UInt8(ascii: "\""): return scanner.takeString() ? .whole : .no
        case UInt8(ascii: "t"): return scanner.take(literal: "true") ? .whole : .no
        case UInt8(ascii: "f"): return scanner.take(literal: "false") ? .whole : .no
        case UInt8(ascii: "n"): return scanner.take(literal: "null") ? .whole : .no
        default: return scanner.takeNumber() ? .whole : .no
        }
    }

    /// After a value: closes what ends here, until another value or the end of the text.
    private mutating func closeAll() -> Step {
        while true {
            scanner.skipBlank()
            guard depth > 0 else { return scanner.isAtEnd ? .whole : .no }
            let isObject = objects[(depth - 1) / 64] >> UInt64((depth - 1) % 64) & 1 == 1
            if scanner.take(",") {
                scanner.skipBlank()
                return !isObject || takeName() ? .opened : .no
            }
            guard isObject ? scanner.take("}") : scanner.take("]") else { return .no }
            depth -= 1
        }
    }

    /// A member's name and its colon.
    private mutating func takeName() -> Bool {
        guard scanner.takeString() else { return false }
        scanner.skipBlank()
        return scanner.take(":")
    }

    /// Steps over the bracket and remembers it; false where the nesting is too deep.
    private mutating func open(isObject: Bool) -> Bool {
        guard depth < JSONGrammar.depthMax else { return false }
        _ = isObject ? scanner.take("{") : scanner.take("[")
        let bit: UInt64 = 1 << UInt64(depth % 64)
        if isObject { objects[depth / 64] |= bit } else { objects[depth / 64] &= ~bit }
        depth += 1
        return true
    }
}
