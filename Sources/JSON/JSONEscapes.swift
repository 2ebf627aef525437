package import Bytes

/// The escapes in JSON strings: resolves those of a string that `JSONScanner` has accepted, and
/// writes those that JSON needs.
package enum JSONEscapes {
    /// Appends the content of a string, without quotes and escapes, as well-formed UTF-8.
    ///
    /// Each lone surrogate, and each byte that is not part of a well-formed sequence, becomes one
    /// U+FFFD, as in Go's decoder.
    package static func append(decoded content: ByteView, to utf8: ByteWriter) {
        var plain = 0
        var offset = 0
        while offset < content.count {
            let byte = content[offset]
            let length = byte < 0x80 ? 1 : JSONScanner.multibyteCount(at: offset, in: content)
            if byte != UInt8(ascii: "\\"), length > 0 {
                offset += length
                continue
            }
            utf8.append(content.slice(plain, offset - plain))
            if length == 0 {
                utf8.append("\u{fffd}")
                offset += 1
            } else {
                offset += appendUnescaped(content.dropFirst(offset), to: utf8)
            }
            plain = offset
        }
        utf8.append(content.dropFirst(plain))
    }

    static func decode(_ content: ByteView) -> String {
        let backslash = UInt8(ascii: "\\")
        guard content.buffer.contains(backslash) else { return content.text }
        let utf8 = ByteWriter(capacity: content.count)
        var offset = 0
        while offset < content.count {
            if content[offset] == backslash {
                offset += appendUnescaped(content.dropFirst(offset), to: utf8)
            } else {
                utf8.append(content[offset])
                offset += 1
            }
        }
        return utf8.view.text
    }

    /// Appends the character of the escape at the front, and returns the escape's length.
    private static func appendUnescaped(_ rest: ByteView, to utf8: ByteWriter) -> Int {
        let (unit, length) = unescape(rest)
        if unit < 0x80 {
            utf8.append(UInt8(unit))
            return length
        }
        if UTF16.isLeadSurrogate(unit), rest.count >= 12, rest[6] == rest[0],
            rest[7] == rest[1], UTF16.isTrailSurrogate(codeUnit(rest.dropFirst(6)))
        {
            let units = [unit, codeUnit(rest.dropFirst(6))]
            utf8.append(text: String(decoding: units, as: UTF16.self))
            return 12
        }
        // A lone surrogate is not a character: it becomes the replacement character.
        utf8.append(text: String(decoding: [unit], as: UTF16.self))
        return length
    }

    /// The UTF-16 unit of the escape at the front of `rest`, and the escape's length in bytes.
    static func unescape(_ rest: ByteView) -> (unit: UInt16, length: Int) {
        switch rest[1] {
        case UInt8(ascii: "b"): (0x08, 2)
        case UInt8(ascii: "f"): (0x0c, 2)
        case UInt8(ascii: "n"): (0x0a, 2)
        case UInt8(ascii: "r"): (0x0d, 2)
        case UInt8(ascii: "t"): (0x09, 2)
        case UInt8(ascii: "u"): (codeUnit(rest), 6)
        default: (UInt16(rest[1]), 2)
        }
    }

    /// The scalar of the well-formed sequence of two to four bytes at `offset`, and its length.
    static func scalar(at offset: Int, in content: ByteView) -> (scalar: UInt32, length: Int) {
        let first = UInt32(content[offset])
        let length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
        // The first byte has as many high bits set as the sequence has bytes, then a zero.
        let head = first & (0x7f >> UInt32(length))
        let scalar = (1..<length).reduce(head) { $0 << 6 | UInt32(content[offset + $1]) & 0x3f }
        return (scalar, length)
    }

    /// The UTF-16 code unit of an escape that begins with backslash and u.
    private static func codeUnit(_ escape: ByteView) -> UInt16 {
        (2..<6).reduce(0) { $0 << 4 | (JSONScanner.hexDigit(escape[$1]) ?? 0) }
    }

    /// Whether JSON strings have `byte` only as an escape: quotes, backslashes, control characters.
    static func needsEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// Appends the shortest escape of a byte that needs one.
    static func appendEscape(of byte: UInt8, to output: ByteWriter) {
        switch byte {
        case UInt8(ascii: "\""): output.append("\\\"")
        case UInt8(ascii: "\\"): output.append("\\\\")
        case 0x08: output.append("\\b")
        case 0x09: output.append("\\t")
        case 0x0a: output.append("\\n")
        case 0x0c: output.append("\\f")
        case 0x0d: output.append("\\r")
        default: appendEscape(ofUnit: UInt16(byte), to: output)
        }
    }

    /// Appends the escape of a UTF-16 unit by its four hexadecimal digits.
    static func appendEscape(ofUnit unit: UInt16, to output: ByteWriter) {
        output.append("\\u")
        for shift: UInt16 in [12, 8, 4, 0] {
            let digit = UInt8(unit >> shift & 0x0f)
            output.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
        }
    }
}
