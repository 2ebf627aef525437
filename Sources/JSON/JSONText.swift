internal import Bytes

/// Decodes the content of a JSON string that `JSONScanner` has accepted: resolves its escapes.
enum JSONText {
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
        switch rest[1] {
        case UInt8(ascii: "b"): utf8.append(0x08)
        case UInt8(ascii: "f"): utf8.append(0x0c)
        case UInt8(ascii: "n"): utf8.append(0x0a)
        case UInt8(ascii: "r"): utf8.append(0x0d)
        case UInt8(ascii: "t"): utf8.append(0x09)
        case UInt8(ascii: "u"):
            let unit = codeUnit(rest)
            if UTF16.isLeadSurrogate(unit), rest.count >= 12, rest[6] == rest[0],
                rest[7] == rest[1], UTF16.isTrailSurrogate(codeUnit(rest.dropFirst(6)))
            {
                let units = [unit, codeUnit(rest.dropFirst(6))]
                utf8.append(text: String(decoding: units, as: UTF16.self))
                return 12
            }
            // A lone surrogate is not a character: it becomes the replacement character.
            utf8.append(text: String(decoding: [unit], as: UTF16.self))
            return 6
        default: utf8.append(rest[1])
        }
        return 2
    }

    /// The UTF-16 code unit of an escape that begins with backslash and u.
    private static func codeUnit(_ escape: ByteView) -> UInt16 {
        (2..<6).reduce(0) { $0 << 4 | (JSONScanner.hexDigit(escape[$1]) ?? 0) }
    }
}
