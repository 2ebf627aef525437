/// CRC-32 (IEEE 802.3, reflected): the checksum of stored blocks, and the hash that maps keys to
/// vBuckets.
///
/// Eight tables process eight bytes per step ("slicing by eight", Kounavis and Berry 2005).
package enum CRC32 {
    private static let tables: [UInt32] = makeTables()

    /// The checksum of `view`, continued from `seed`, the checksum of the bytes before it.
    package static func checksum(_ view: ByteView, seed: UInt32 = 0) -> UInt32 {
        tables.withUnsafeBufferPointer { tables in
            var crc = ~seed
            var offset = 0
            while view.count - offset >= 8 {
                let word = view.littleEndian(at: offset, as: UInt64.self) ^ UInt64(crc)
                crc = 0
                for lane in 0..<8 {
                    let byte = Int(truncatingIfNeeded: word >> UInt64(8 * lane)) & 0xff
                    crc ^= tables[(7 - lane) * 256 + byte]
                }
                offset += 8
            }
            while offset < view.count {
                crc = crc >> 8 ^ tables[Int((crc ^ UInt32(view[offset])) & 0xff)]
                offset += 1
            }
            return ~crc
        }
    }

    private static func makeTables() -> [UInt32] {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for byte in 0..<256 {
            var crc = UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xedb8_8320 : crc >> 1 }
            tables[byte] = crc
        }
        for index in 256..<tables.count {
            let before = tables[index - 256]
            tables[index] = before >> 8 ^ tables[Int(before & 0xff)]
        }
        return tables
    }
}
