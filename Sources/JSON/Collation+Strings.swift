internal import Bytes
internal import CICU

extension Collation {
    /// Appends the S of a string: ICU's sort key, the string's own bytes, 00.
    ///
    /// `content` is what `JSONScanner` accepted between the quotes.
    func append(string content: ByteView, to output: ByteWriter) {
        if widen(content) {
            appendICUKey(unitCount: content.count, to: output)
            // The text of a string has no bytes below 20, so nothing has to be escaped.
            output.append(content)
        } else {
            let count = decode(content)
            appendICUKey(unitCount: count, to: output)
            appendOwnBytes(unitCount: count, to: output)
        }
        output.append(ZeroEscape.end)
    }

    /// Copies the content's bytes to `units`; false if they are not its characters, because it has
    /// escapes or characters beyond ASCII.
    private func widen(_ content: ByteView) -> Bool {
        precondition(content.count <= textBytesMax, "a string is within its text's limit")
        let bytes = content.buffer
        // Without an early exit, so that the compiler makes vector instructions of the loop.
        var isSpecial = false
        for place in 0..<bytes.count {
            let byte = bytes[place]
            units[place] = UInt16(byte)
            isSpecial = isSpecial || byte >= 0x80 || byte == UInt8(ascii: "\\")
        }
        return !isSpecial
    }

    /// Decodes the content to UTF-16 in `units`, and returns the number of units.
    private func decode(_ content: ByteView) -> Int {
        var count = 0
        var offset = 0
        while offset < content.count {
            let byte = content[offset]
            if byte == UInt8(ascii: "\\") {
                let (unit, length) = JSONEscapes.unescape(content.dropFirst(offset))
                units[count] = unit
                offset += length
            } else if byte < 0x80 {
                units[count] = UInt16(byte)
                offset += 1
            } else {
                let (scalar, length) = JSONEscapes.scalar(at: offset, in: content)
                if scalar >= 0x1_0000 {
                    units[count] = UInt16(0xd7c0 + scalar >> 10)
                    count += 1
                    units[count] = UInt16(0xdc00 + scalar & 0x3ff)
                } else {
                    units[count] = UInt16(scalar)
                }
                offset += length
            }
            count += 1
        }
        return count
    }

    private func appendICUKey(unitCount: Int, to output: ByteWriter) {
        let first = output.count
        // Enough for most strings: ICU adds four bytes to an ASCII string, and more for capitals.
        var room = 2 * unitCount + 32
        while true {
            let length = Int(
                divan_collator_sort_key(
                    collator,
                    units,
                    Int32(unitCount),
                    output.claim(room).assumingMemoryBound(to: UInt8.self),
                    Int32(room)
                )
            )
            // ICU fails here only if it gets no memory, on which Divan's own allocations end too.
            precondition(length > 0, "ICU makes a sort key of any string")
            if length <= room { return output.truncate(to: first + length) }
            output.truncate(to: first)
            room = length
        }
    }

    /// Appends the units as UTF-8, escaped; a surrogate without its pair becomes three bytes.
    private func appendOwnBytes(unitCount: Int, to output: ByteWriter) {
        var place = 0
        while place < unitCount {
            let unit = units[place]
            place += 1
            switch unit {
            case 0...0x01: ZeroEscape.append(escaped: UInt8(unit), to: output)
            case ..<0x80: output.append(UInt8(unit))
            case ..<0x800:
                output.append(UInt8(0xc0 | unit >> 6))
                output.append(UInt8(0x80 | unit & 0x3f))
            case 0xd800...0xdbff where place < unitCount && UTF16.isTrailSurrogate(units[place]):
                let high = UInt32(unit & 0x3ff) + 0x40
                let low = UInt32(units[place] & 0x3ff)
                place += 1
                output.append(UInt8(0xf0 | high >> 8))
                output.append(UInt8(0x80 | high >> 2 & 0x3f))
                output.append(UInt8(0x80 | high << 4 & 0x30 | low >> 6))
                output.append(UInt8(0x80 | low & 0x3f))
            default:
                output.append(UInt8(0xe0 | unit >> 12))
                output.append(UInt8(0x80 | unit >> 6 & 0x3f))
                output.append(UInt8(0x80 | unit & 0x3f))
            }
        }
    }
}
