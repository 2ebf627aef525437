/// Reflected CRCs of 32 bits, eight bytes per step ("slicing by eight", Kounavis and Berry 2005).
///
/// `CRC32` and `CRC32C` differ only in the polynomial, which is in their tables.
enum SlicedCRC {
    /// The eight tables of a polynomial, one after the other: entry `256 * t + b` is the checksum
    /// of the byte `b` followed by `t` zeros.
    static func makeTables(reflectedPolynomial: UInt32) -> [UInt32] {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for byte in 0..<256 {
            var crc = UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ reflectedPolynomial : crc >> 1 }
            tables[byte] = crc
        }
        for index in 256..<tables.count {
            let before = tables[index - 256]
            tables[index] = before >> 8 ^ tables[Int(before & 0xff)]
        }
        return tables
    }

    /// The checksum of `view`, continued from `seed`, the checksum of the bytes before it.
    @inline(__always)
    static func checksum(_ view: ByteView, seed: UInt32, tables: [UInt32]) -> UInt32 {
        tables.withUnsafeBufferPointer { tables in
            var crc = ~seed
            // A pointer, because offsets that are checked cost a sixth of this loop.
            var next = view.start
            for _ in 0..<view.count / 8 {
                let bytes = UInt64(littleEndian: next.loadUnaligned(as: UInt64.self))
                let word = bytes ^ UInt64(crc)
                crc = 0
                for lane in 0..<8 {
                    let byte = Int(truncatingIfNeeded: word >> UInt64(8 * lane)) & 0xff
                    crc ^= tables[(7 - lane) * 256 + byte]
                }
                next += 8
            }
            for byte in view.dropFirst(view.count & ~7).buffer {
                crc = crc >> 8 ^ tables[Int((crc ^ UInt32(byte)) & 0xff)]
            }
            return ~crc
        }
    }
}
