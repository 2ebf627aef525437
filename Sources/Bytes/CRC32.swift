/// CRC-32 (IEEE 802.3, reflected): the checksum of stored blocks, and the hash that maps keys to
/// vBuckets.
package enum CRC32 {
    private static let tables = SlicedCRC.makeTables(reflectedPolynomial: 0xedb8_8320)

    /// The checksum of `view`, continued from `seed`, the checksum of the bytes before it.
    package static func checksum(_ view: ByteView, seed: UInt32 = 0) -> UInt32 {
        SlicedCRC.checksum(view, seed: seed, tables: tables)
    }
}
