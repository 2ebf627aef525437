/// Integers of variable length: seven bits per byte, the lowest first.
package enum LEB128 {
    package static func append(_ value: UInt64, to writer: ByteWriter) {
        // Room for the longest is claimed once, not for each byte.
        let end = writer.count
        let bytes = writer.claim(lengthMax)
        var length = 0
        var rest = value
        while rest >= 0x80 {
            bytes.storeBytes(
                of: UInt8(truncatingIfNeeded: rest) | 0x80,
                toByteOffset: length,
                as: UInt8.self
            )
            rest >>= 7
            length += 1
        }
        bytes.storeBytes(of: UInt8(rest), toByteOffset: length, as: UInt8.self)
        writer.truncate(to: end + length + 1)
    }

    /// Bytes that 64 bits take.
    private static let lengthMax = 10

    /// The integer at the front and its length in bytes; nil if it is cut short or has more than 64
    /// bits.
    package static func decode(_ view: ByteView) -> (value: UInt64, length: Int)? {
        var value: UInt64 = 0
        for offset in 0..<min(view.count, lengthMax) {
            let byte = view[offset]
            if offset == lengthMax - 1, byte > 1 { return nil }
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
