internal import Bytes

/// Bytes of the ASCII texts that headers, tokens and ids are made of.
enum ASCII {
    /// The value of a decimal digit; nil if it is none.
    static func digit(_ byte: UInt8) -> Int? {
        byte &- UInt8(ascii: "0") < 10 ? Int(byte - UInt8(ascii: "0")) : nil
    }

    /// The number that all of `text` writes in decimal digits; nil if it is empty, has another byte, or exceeds
    /// the type.
    static func number<Number: FixedWidthInteger>(_ text: ByteView, as: Number.Type) -> Number? {
        guard !text.isEmpty else { return nil }
        var number: Number = 0
        for byte in text.buffer {
            guard let digit = digit(byte) else { return nil }
            let (tens, overflows) = number.multipliedReportingOverflow(by: 10)
            let (sum, isTooLarge) = tens.addingReportingOverflow(Number(digit))
            guard !overflows, !isTooLarge else { return nil }
            number = sum
        }
        return number
    }

    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
    }

    /// Whether the texts are equal but for the case of ASCII letters.
    static func equals(_ one: ByteView, _ other: String) -> Bool {
        one.count == other.utf8.count
            && zip(one.buffer, other.utf8).allSatisfy { lowercased($0) == lowercased($1) }
    }

    /// The text without blanks and tabs at its ends.
    static func trimmed(_ text: ByteView) -> ByteView {
        var (first, end) = (0, text.count)
        while first < end, isBlank(text[first]) { first += 1 }
        while end > first, isBlank(text[end - 1]) { end -= 1 }
        return text.slice(first, end - first)
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// The parts between the separators; one empty part if `text` is empty.
    static func split(_ text: ByteView, at separator: Unicode.Scalar) -> [ByteView] {
        var parts: [ByteView] = []
        var first = 0
        for offset in 0..<text.count where text[offset] == UInt8(ascii: separator) {
            parts.append(text.slice(first, offset - first))
            first = offset + 1
        }
        parts.append(text.dropFirst(first))
        return parts
    }

    /// The parts before and behind the first separator; nil if there is none.
    static func cut(_ text: ByteView, at separator: Unicode.Scalar) -> (ByteView, ByteView)? {
        guard let offset = text.buffer.firstIndex(of: UInt8(ascii: separator)) else { return nil }
        return (text.slice(0, offset), text.dropFirst(offset + 1))
    }
}
