import Bytes
import Credentials
import Testing

/// Vectors of RFC 1321 (MD5) and of FIPS 180 (SHA-1).
@Suite struct LegacyDigestTests {
    private static let vectors = [
        (
            "", "d41d8cd98f00b204e9800998ecf8427e",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        ),
        (
            "abc", "900150983cd24fb0d6963f7d28e17f72",
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        ),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "8215ef0796a20bcaaae116d3876c664a",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
        (
            String(repeating: "a", count: 1_000_000),
            "7707d6ae4e027c70eea2a935c2296f21",
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f"
        ),
    ]

    @Test(arguments: vectors)
    func textHasItsPublishedDigests(text: String, md5: String, sha1: String) {
        #expect(hexadecimal(LegacyDigest.md5(bytes(text))) == md5)
        #expect(hexadecimal(LegacyDigest.sha1(bytes(text))) == sha1)
    }

    @Test(arguments: vectors, [1, 63, 64, 65, 8_192])
    func streamedPiecesHaveTheDigestsOfTheWhole(
        vector: (text: String, md5: String, sha1: String),
        pieceBytes: Int
    ) {
        let text = bytes(String(vector.text.prefix(100_000)))
        var digest = StreamedDigest()
        for start in stride(from: 0, to: text.count, by: pieceBytes) {
            let piece = Array(text[start..<min(start + pieceBytes, text.count)])
            piece.withView { digest.append($0) }
        }
        #expect(digest.digests.md5 == LegacyDigest.md5(text))
        #expect(digest.digests.sha1 == LegacyDigest.sha1(text))
    }

    @Test func bytesMayFollowAReadDigest() {
        var digest = StreamedDigest()
        bytes("a").withView { digest.append($0) }
        let first = digest.digests
        bytes("bc").withView { digest.append($0) }
        #expect(first.md5 == LegacyDigest.md5(bytes("a")))
        #expect(digest.digests.sha1 == LegacyDigest.sha1(bytes("abc")))
    }

    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }
}
