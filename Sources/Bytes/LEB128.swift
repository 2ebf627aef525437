/// Integers of variable length: seven bits per byte, the lowest first.
package enum LEB128 {
    package static func append(_ value: UInt64, to writer: ByteWriter) {
        var rest = value
        while rest >= 0x80 {
            writer.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        writer.append(UInt8(rest))
    }

    /// The integer at the front and its length in bytes; nil if it is cut short or has more than 64
    /// bits.
    package static func decode(_ view: ByteView) -> (value: UInt64, length: Int)? {
        var value: UInt64 = 0
        for offset in 0..<min(view.count, 10) {
            let byte = view[offset]
            if offset == 9, byte > 1 { return nil }
            value |= UInt64(byte & 0x7f) << UInt64(7 * offset)
            if byte < 0x80 { return (value, offset + 1) }
        }
        return nil
    }

    /// Maps small negative and positive numbers to small unsigned ones.
    package static func zigzag(_ value: Int64) -> UInt64 {
        UInt64(bitPattern: (value << 1) ^ (value >> 63))
    }

    package static func unzigzag(_ value: UInt64) -> Int64 {
        Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
    }
}
