import Bytes
import Credentials
import Testing

/// Vectors of RFC 1321 (MD5) and of FIPS 180 (SHA-1).
@Suite struct LegacyDigestTests {
    /// The text is a piece that is repeated, so that a report of the test is short.
    private static let vectors = [
        (
            piece: "", count: 1, md5: "d41d8cd98f00b204e9800998ecf8427e",
            sha1: "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        ),
        (
            piece: "abc", count: 1, md5: "900150983cd24fb0d6963f7d28e17f72",
            sha1: "a9993e364706816aba3e25717850c26c9cd0d89d"
        ),
        (
            piece: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", count: 1,
            md5: "8215ef0796a20bcaaae116d3876c664a",
            sha1: "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
        (
            piece: "a", count: 1_000_000, md5: "7707d6ae4e027c70eea2a935c2296f21",
            sha1: "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        ),
    ]

    @Test(arguments: vectors)
    func textHasItsPublishedDigests(piece: String, count: Int, md5: String, sha1: String) {
        let text = bytes(String(repeating: piece, count: count))
        #expect(hexadecimal(LegacyDigest.md5(text)) == md5)
        #expect(hexadecimal(LegacyDigest.sha1(text)) == sha1)
    }

    @Test(arguments: [0, 1, 55, 56, 63, 64, 65, 20_000], [1, 63, 64, 65, 8_192])
    func streamedPiecesHaveTheDigestsOfTheWhole(textBytes: Int, pieceBytes: Int) {
        let text = (0..<textBytes).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var digest = StreamedDigest()
        for start in stride(from: 0, to: text.count, by: pieceBytes) {
            let piece = Array(text[start..<min(start + pieceBytes, text.count)])
            piece.withView { digest.append($0) }
        }
        let digests = digest.digests
        #expect(digests.md5 == LegacyDigest.md5(text))
        #expect(digests.sha1 == LegacyDigest.sha1(text))
    }

    @Test func digestContinuesAfterItWasRead() {
        var digest = StreamedDigest()
        bytes("a").withView { digest.append($0) }
        let first = digest.digests
        bytes("bc").withView { digest.append($0) }
        let second = digest.digests
        #expect(first.md5 == LegacyDigest.md5(bytes("a")))
        #expect(second.sha1 == LegacyDigest.sha1(bytes("abc")))
    }

    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }
}
