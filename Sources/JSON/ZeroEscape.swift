package import Bytes

/// Byte strings that end in 00 and keep their order: inside, 00 becomes 01 01, and 01 becomes 01 02.
///
/// A shorter string sorts before its continuations, because the 00 that follows it is below all.
package enum ZeroEscape {
    static let end: UInt8 = 0x00
    static let escape: UInt8 = 0x01

    /// Appends `bytes` escaped, without the 00 that ends them.
    package static func append(_ bytes: ByteView, to output: ByteWriter) {
        var plain = 0
        for offset in 0..<bytes.count where bytes[offset] <= escape {
            output.append(bytes.slice(plain, offset - plain))
            plain = offset + 1
            append(escaped: bytes[offset], to: output)
        }
        output.append(bytes.dropFirst(plain))
    }

    /// Appends the two bytes of the escape of 00 or 01.
    static func append(escaped byte: UInt8, to output: ByteWriter) {
        output.append(escape)
        output.append(byte + 1)
    }

    /// Appends the bytes that were escaped as `escaped`; false, with nothing appended, if these
    /// contain 00 or an incomplete escape.
    package static func appendUnescaped(_ escaped: ByteView, to output: ByteWriter) -> Bool {
        let first = output.count
        var plain = 0
        var offset = 0
        while offset < escaped.count {
            guard escaped[offset] <= escape else {
                offset += 1
                continue
            }
            guard let byte = unescaped(at: offset, in: escaped) else {
                output.truncate(to: first)
                return false
            }
            output.append(escaped.slice(plain, offset - plain))
            output.append(byte)
            offset += 2
            plain = offset
        }
        output.append(escaped.dropFirst(plain))
        return true
    }

    /// The byte whose escape begins at `offset`; nil if no whole escape does.
    static func unescaped(at offset: Int, in view: ByteView) -> UInt8? {
        guard offset + 1 < view.count, view[offset] == escape,
            view[offset + 1] == 0x01 || view[offset + 1] == 0x02
        else { return nil }
        return view[offset + 1] - 1
    }

    /// The offset of the first 00 at or after `offset`; nil if there is none.
    static func end(of view: ByteView, from offset: Int) -> Int? {
        guard offset <= view.count else { return nil }
        return view.buffer[offset...].firstIndex(of: end)
    }
}
