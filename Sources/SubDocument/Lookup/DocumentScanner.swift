internal import Bytes

/// A cursor over the bytes of a JSON document that skips what it does not need.
///
/// It finds the ends of values and keys, eight or 32 bytes at a time. Of a value that it skips it
/// checks the brackets, the numbers and the literals, but neither the commas and colons inside nor the
/// content of strings: a lookup has to be faster than a validation.
///
/// - It allocates nothing, and neither nesting nor length can exhaust the stack.
/// - For any bytes, each method ends within the document or fails.
/// - Methods that return false may leave the cursor inside a token.
struct DocumentScanner {
    let document: ByteView
    var offset = 0
    /// Why the last method returned false.
    private(set) var failure = PathFailure.documentNotJSON

    init(_ document: ByteView) {
        self.document = document
    }

    @inline(__always) var isAtEnd: Bool { offset >= document.count }

    /// The next byte, or 0 at the end: no token begins with NUL.
    @inline(__always) var peek: UInt8 { offset < document.count ? document[offset] : 0 }

    @inline(__always)
    mutating func skipBlank() {
        while offset < document.count, DocumentScanner.isBlank(document[offset]) { offset += 1 }
    }

    @inline(__always)
    static func isBlank(_ byte: UInt8) -> Bool {
        byte <= 0x20 && (byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09)
    }

    /// Consumes `byte` if it is next; returns whether it was.
    @inline(__always)
    mutating func consume(_ byte: Unicode.Scalar) -> Bool {
        guard offset < document.count, document[offset] == UInt8(ascii: byte) else { return false }
        offset += 1
        return true
    }

    /// Skips the value that begins at the cursor; fails also if it is nested more than `depthMax`
    /// deep.
    @inline(__always)
    mutating func skipValue(depthMax: Int) -> Bool {
        switch peek {
        case UInt8(ascii: "\""):
            offset += 1
            return finishString()
        case UInt8(ascii: "{"), UInt8(ascii: "["): return skipContainer(depthMax: depthMax)
        default: return skipScalar()
        }
    }

    /// Skips the container that begins at the cursor.
    @inline(never)
    mutating func skipContainer(depthMax: Int) -> Bool {
        // One bit per open bracket, the innermost lowest, set for an object.
        var objects: UInt64 = 0
        var depth = 0
        while offset < document.count {
            let byte = document[offset]
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                guard finishString() else { return false }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard depth < min(depthMax, DocumentPath.depthMax) else {
                    failure = .documentTooDeep
                    return false
                }
                objects = objects << 1 | (byte == UInt8(ascii: "{") ? 1 : 0)
                depth += 1
                offset += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                let isObject: UInt64 = byte == UInt8(ascii: "}") ? 1 : 0
                guard depth > 0, objects & 1 == isObject else { return false }
                objects >>= 1
                depth -= 1
                offset += 1
                if depth == 0 { return true }
            // Only malformed documents have such bytes outside of strings.
            default: return false
            }
            seekBracketOrQuote()
        }
        return false
    }

    // MARK: Scalars

    @inline(__always)
    private mutating func skipScalar() -> Bool {
        switch peek {
        case UInt8(ascii: "t"): skip(literal: "true")
        case UInt8(ascii: "f"): skip(literal: "false")
        case UInt8(ascii: "n"): skip(literal: "null")
        default: skipNumber()
        }
    }

    private mutating func skip(literal: StaticString) -> Bool {
        let count = literal.utf8CodeUnitCount
        guard document.count - offset >= count,
            document.slice(offset, count).equals(ByteView(start: literal.utf8Start, count: count))
        else { return false }
        offset += count
        return true
    }

    private mutating func skipNumber() -> Bool {
        _ = consume("-")
        if !consume("0"), skipDigits() == 0 { return false }
        if consume("."), skipDigits() == 0 { return false }
        guard peek | 0x20 == UInt8(ascii: "e") else { return true }
        offset += 1
        if !consume("+") { _ = consume("-") }
        return skipDigits() > 0
    }

    @inline(__always)
    private mutating func skipDigits() -> Int {
        let start = offset
        while offset < document.count, document[offset] &- UInt8(ascii: "0") < 10 { offset += 1 }
        return offset - start
    }
}
