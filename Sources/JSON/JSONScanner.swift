package import Bytes

/// A cursor over the tokens of JSON (RFC 8259), which allocates nothing.
///
/// The validator uses it where simdjson does not decide, and parsers of trees and bodies use it. Methods
/// that return false may leave the cursor inside the token.
package struct JSONScanner {
    package let view: ByteView
    package private(set) var offset = 0
    /// Whether strings may have ill-formed UTF-8, which the parser repairs.
    private let allowsIllFormedText: Bool

    package init(view: ByteView, offset: Int = 0, allowsIllFormedText: Bool = false) {
        precondition(offset >= 0 && offset <= view.count, "a cursor is within its text")
        self.view = view
        self.offset = offset
        self.allowsIllFormedText = allowsIllFormedText
    }

    package var isAtEnd: Bool { offset == view.count }

    /// The next byte, or 0 at the end: no token begins with NUL.
    package var peek: UInt8 { offset < view.count ? view[offset] : 0 }

    package mutating func skipBlank() {
        while offset < view.count, JSONScanner.isBlank(view[offset]) { offset += 1 }
    }

    package static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
    }

    /// Consumes `byte` if it is next; returns whether it was.
    package mutating func consume(_ byte: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: byte), !isAtEnd else { return false }
        offset += 1
        return true
    }

    /// Consumes `literal` if it is next; returns whether it was.
    package mutating func consume(literal: StaticString) -> Bool {
        let count = literal.utf8CodeUnitCount
        guard view.count - offset >= count,
            view.slice(offset, count).equals(ByteView(start: literal.utf8Start, count: count))
        else { return false }
        offset += count
        return true
    }

    /// Consumes a number: `-`, digits without a leading zero, a fraction, an exponent.
    package mutating func consumeNumber() -> Bool {
        _ = consume("-")
        if !consume("0"), consumeDigits() == 0 { return false }
        if consume("."), consumeDigits() == 0 { return false }
        guard peek | 0x20 == UInt8(ascii: "e") else { return true }
        offset += 1
        if !consume("+") { _ = consume("-") }
        return consumeDigits() > 0
    }

    private mutating func consumeDigits() -> Int {
        let first = offset
        while offset < view.count, view[offset] &- UInt8(ascii: "0") < 10 { offset += 1 }
        return offset - first
    }

    /// Consumes a string with its quotes; afterwards `JSONEscapes` can decode its content.
    package mutating func consumeString() -> Bool {
        guard consume("\"") else { return false }
        while true {
            skipPlain()
            guard offset < view.count else { return false }
            switch view[offset] {
            case UInt8(ascii: "\""):
                offset += 1
                return true
            case UInt8(ascii: "\\"):
                guard consumeEscape() else { return false }
            case 0x80...:
                guard consumeMultibyte() else { return false }
            case ..<0x20: return false
            default: offset += 1
            }
        }
    }

    /// Skips eight bytes at a time while none of them is a quote, a backslash, a control character
    /// or beyond ASCII.
    private mutating func skipPlain() {
        let ones: UInt64 = 0x0101_0101_0101_0101
        while view.count - offset >= 8 {
            let word = view.littleEndian(at: offset, as: UInt64.self)
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5c)
            // In the first two terms, the highest bit of a byte is set if that byte matches; in the
            // third, if it is below 0x20; in the last, if it is beyond ASCII.
            let special =
                ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)
                | ((word &- (ones &* 0x20)) & ~word) | word
            guard special & (ones &* 0x80) == 0 else { return }
            offset += 8
        }
    }

    private mutating func consumeEscape() -> Bool {
        offset += 1
        let byte = peek
        offset = min(offset + 1, view.count)
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"),
            UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return true
        case UInt8(ascii: "u"):
            guard view.count - offset >= 4 else { return false }
            for place in offset..<offset + 4 where JSONScanner.hexDigit(view[place]) == nil {
                return false
            }
            offset += 4
            return true
        default: return false
        }
    }

    /// The value of a hexadecimal digit; nil if it is none.
    package static func hexDigit(_ byte: UInt8) -> UInt16? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt16(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt16(byte - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt16(byte - UInt8(ascii: "A") + 10)
        default: nil
        }
    }

    /// Consumes one well-formed sequence of two to four bytes, or one byte that belongs to none if the
    /// text may be ill-formed.
    private mutating func consumeMultibyte() -> Bool {
        let count = JSONScanner.multibyteCount(at: offset, in: view)
        if count == 0, allowsIllFormedText {
            offset += 1
            return true
        }
        offset += count
        return count > 0
    }

    /// The length of the well-formed sequence of two to four bytes at `offset` (Unicode, table
    /// 3-7); 0 if there is none.
    package static func multibyteCount(at offset: Int, in view: ByteView) -> Int {
        let first = view[offset]
        let count =
            switch first {
            case 0xc2...0xdf: 2
            case 0xe0...0xef: 3
            case 0xf0...0xf4: 4
            default: 0
            }
        guard count > 0, view.count - offset >= count else { return 0 }
        let second = view[offset + 1]
        let isSecondValid =
            switch first {
            case 0xe0: 0xa0...0xbf ~= second
            case 0xed: 0x80...0x9f ~= second
            case 0xf0: 0x90...0xbf ~= second
            case 0xf4: 0x80...0x8f ~= second
            default: 0x80...0xbf ~= second
            }
        guard isSecondValid else { return 0 }
        for place in offset + 2..<max(offset + count, offset + 2)
        where view[place] & 0xc0 != 0x80 {
            return 0
        }
        return count
    }
}
