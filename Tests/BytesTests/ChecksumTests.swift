import Bytes
import Testing

@Suite struct ChecksumTests {
    /// RFC 3720, appendix B.4, whose CRCs are listed byte by byte, the least significant first.
    @Test func crc32cAgreesWithTheVectorsOfRFC3720() {
        let readCommand: [UInt8] = [
            0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14,
            0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ]
        let vectors: [([UInt8], UInt32)] = [
            ([UInt8](repeating: 0, count: 32), 0x8a91_36aa),
            ([UInt8](repeating: 0xff, count: 32), 0x62a8_ab43),
            ([UInt8](0..<32), 0x46dd_794e),
            ([UInt8]((0..<32).reversed()), 0x113f_db5c),
            (readCommand, 0xd996_3a56),
            (Array("123456789".utf8), 0xe306_9283),
            ([], 0),
        ]
        for (bytes, checksum) in vectors {
            bytes.withUnsafeBytes { #expect(CRC32C.checksum(ByteView($0)) == checksum) }
        }
    }

    @Test func checksumOfPartsContinuesFromTheSeed() {
        let bytes = (0..<61).map { UInt8(truncatingIfNeeded: $0 &* 37) }
        bytes.withUnsafeBytes {
            let whole = ByteView($0)
            for length in 0...whole.count {
                let (first, rest) = (whole.slice(0, length), whole.dropFirst(length))
                let crc32 = CRC32.checksum(rest, seed: CRC32.checksum(first))
                let crc32c = CRC32C.checksum(rest, seed: CRC32C.checksum(first))
                #expect(crc32 == CRC32.checksum(whole), "split at \(length)")
                #expect(crc32c == CRC32C.checksum(whole), "split at \(length)")
            }
        }
    }
}
