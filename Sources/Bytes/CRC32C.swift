/// CRC-32C (Castagnoli, reflected; RFC 3720): the checksum of an index's nodes.
///
/// It detects more errors of a few bits than CRC-32 does, and it is not the hash that maps keys to
/// vBuckets: nodes full of keys must not be checked by the function that chose these keys.
package enum CRC32C {
    private static let tables = SlicedCRC.makeTables(reflectedPolynomial: 0x82f6_3b78)

    /// The checksum of `view`, continued from `seed`, the checksum of the bytes before it.
    package static func checksum(_ view: ByteView, seed: UInt32 = 0) -> UInt32 {
        SlicedCRC.checksum(view, seed: seed, tables: tables)
    }
}
