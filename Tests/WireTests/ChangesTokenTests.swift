import Bytes
import Testing
import Vocabulary
import Wire

/// The resume token of the HTTP feed: its size, its round trip, and hostile texts.
@Suite struct ChangesTokenTests {
    private static let bucket = "0123456789abcdef0123456789abcdef"

    /// Positions with UUIDs of their own, of seqnos that a random source yields.
    private func positions(
        _ count: Int = 1_024,
        seed: UInt64 = 1,
        seqno: (inout SeededRandom) -> UInt64
    ) -> [ChangesPosition] {
        var random = SeededRandom(seed: seed)
        return (0..<count).map { _ in
            let uuid = VBucketUUID(random.next() | 1)
            let seqno = Seqno(seqno(&random))
            return ChangesPosition(branch: seqno == .zero ? .none : .uuid(uuid), seqno: seqno)
        }
    }

    /// Whether a decoded token has the same places, with checks of the same histories.
    private func expect(_ decoded: ChangesToken?, isOf token: ChangesToken) {
        guard let decoded, decoded.positions.count == token.positions.count else {
            Issue.record("the token was not decoded")
            return
        }
        #expect(decoded.bucket == token.bucket)
        for (number, pair) in zip(decoded.positions, token.positions).enumerated() {
            let (found, sent) = pair
            #expect(found.seqno == sent.seqno)
            switch (found.branch, sent.branch) {
            case (.none, .none): #expect(found.seqno == .zero)
            case (.check(let check), .uuid(let uuid)):
                #expect(check.matches(uuid, vBucket: VBucketID(UInt16(number))))
            default: Issue.record("vBucket \(number) has the branch \(found.branch)")
            }
        }
    }

    /// How far the seqnos of the vBuckets differ, from a common base.
    struct Load: Sendable {
        let base: UInt64
        let spread: UInt64
    }

    private static let loads = [
        Load(base: 0, spread: 1), Load(base: 1_000, spread: 200),
        Load(base: 1_000_000, spread: 8_000), Load(base: 1 << 40, spread: 1 << 16),
        Load(base: 0, spread: 1 << 24), Load(base: 1 << 30, spread: 1 << 26),
        Load(base: (1 << 48) - (1 << 24), spread: 1 << 24),
    ]

    @Test(arguments: loads) func tokenOfEvenlyUsedBucketFitsAndDecodes(_ load: Load) {
        let positions = positions { load.base + $0.next() % load.spread }
        let token = ChangesToken(bucket: Self.bucket, positions: positions)
        let text = token.text
        #expect(text.utf8.count <= ChangesToken.textBytesMax)
        expect(ChangesToken(text: text), isOf: token)
    }

    @Test func tokenWithMostSnapshotsFits() {
        var positions = positions { (1 << 40) + $0.next() % (1 << 23) }
        for number in positions.indices.prefix(100) {
            positions[number].snapshotStart = .zero
            positions[number].snapshotEnd = Seqno((1 << 48) - 1)
        }
        let token = ChangesToken(bucket: Self.bucket, positions: positions)
        #expect(token.text.utf8.count <= ChangesToken.textBytesMax)
        let decoded = ChangesToken(text: token.text)?.positions ?? []
        #expect(decoded.count { $0.isInSnapshot } == ChangesToken.snapshotsMax)
        #expect(decoded.first?.seqno == positions[0].seqno)
        #expect(decoded.first?.snapshotEnd == positions[0].snapshotEnd)
        // Of the others the token has the start of the snapshot: nothing is lost, changes repeat.
        #expect(decoded.dropFirst(50).first == .start)
    }

    /// The worst case that fits: unevenly used vBuckets, and snapshots of any length.
    @Test func tokenOfUnevenBucketWithLongSnapshotsFits() {
        var positions = positions { (1 << 40) + $0.next() % (1 << 23) }
        for number in positions.indices.prefix(ChangesToken.snapshotsMax) {
            positions[number].snapshotStart = .zero
            positions[number].snapshotEnd = Seqno((1 << 48) - 1)
        }
        let token = ChangesToken(bucket: Self.bucket, positions: positions)
        #expect(token.text.utf8.count <= ChangesToken.textBytesMax)
        expect(ChangesToken(text: token.text), isOf: token)
    }

    /// Seqnos without any order need more than 6 KiB; the token is longer, not wrong.
    @Test func tokenOfAnySeqnosDecodes() {
        let positions = positions { $0.next() >> 16 }
        let token = ChangesToken(bucket: Self.bucket, positions: positions)
        expect(ChangesToken(text: token.text), isOf: token)
    }

    @Test(arguments: [64, 128, 256, 1_024]) func tokenOfRandomBucketsDecodes(_ count: Int) {
        for seed in 1...20 as ClosedRange<UInt64> {
            let positions = positions(count, seed: seed) { random in
                let bits = random.next() % 48
                return random.next() & (1 << bits - 1)
            }
            let token = ChangesToken(bucket: Self.bucket, positions: positions)
            expect(ChangesToken(text: token.text), isOf: token)
        }
    }

    @Test func decodedTokenIsEncodedToTheSameText() {
        let positions = positions { 1 + $0.next() % 100_000 }
        let text = ChangesToken(bucket: Self.bucket, positions: positions).text
        #expect(ChangesToken(text: text)?.text == text)
    }

    @Test func changedLetterOfTokenIsRefused() {
        let text = ChangesToken(bucket: Self.bucket, positions: positions(64) { _ in 7 }).text
        let letters = Array(text.utf8)
        for place in letters.indices {
            var changed = letters
            changed[place] =
                letters[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(ChangesToken(text: String(decoding: changed, as: UTF8.self)) == nil)
        }
    }

    @Test(arguments: ["", "A", "AAAA", "AAAAAAAA", "now", "e30", "\u{e9}", "====", "A+B/"])
    func malformedTokenTextIsRefused(_ text: String) {
        #expect(ChangesToken(text: text) == nil)
    }

    /// With a valid checksum, so that the fields behind it are read.
    @Test func anyBytesWithValidChecksumAreDecodedOrRefused() {
        var random = SeededRandom(seed: 9)
        let valid = Array(
            ChangesToken(bucket: Self.bucket, positions: positions(64) { $0.next() >> 30 }).text
                .utf8
        )
        for _ in 0..<2_000 {
            var letters = valid.map { $0 == UInt8(ascii: "-") ? UInt8(ascii: "+") : $0 }
                .map { $0 == UInt8(ascii: "_") ? UInt8(ascii: "/") : $0 }
            while letters.count % 4 != 0 { letters.append(UInt8(ascii: "=")) }
            guard var bytes = letters.withView({ Base64.decode($0) }) else {
                Issue.record("the valid token is not base64")
                return
            }
            bytes.removeLast(4)
            for _ in 0...(random.next() % 4) {
                bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(random.next() & 0xff)
            }
            if random.next() % 4 == 0 { bytes.removeLast(Int(random.next() % UInt64(bytes.count))) }
            let sum = bytes.withView { CRC32C.checksum($0) }
            let sealed = bytes + written { $0.append(bigEndian: sum) }
            let text = String(decoding: sealed.withView { Base64.encode($0) }, as: UTF8.self)
                .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            guard let token = ChangesToken(text: text) else { continue }
            for position in token.positions {
                #expect(position.snapshotStart <= position.seqno)
                #expect(position.seqno <= position.snapshotEnd)
                #expect(position.snapshotEnd.value >> 48 == 0)
            }
        }
    }
}

/// The short digest of a history.
@Suite struct BranchCheckTests {
    private let vBucket = VBucketID(7)

    @Test func checkFindsNewestMatchingHistoryOfLog() throws {
        let entries = (1...5 as ClosedRange<UInt64>).reversed().map {
            FailoverLog.Entry(uuid: VBucketUUID($0), seqno: Seqno($0 * 10))
        }
        let log = try #require(FailoverLog(entries: entries))
        for entry in entries {
            let check = BranchCheck(of: entry.uuid, vBucket: vBucket, width: 24)
            #expect(log.history(matching: check, vBucket: vBucket) == entry.uuid)
        }
        let unknown = BranchCheck(of: VBucketUUID(6), vBucket: vBucket, width: 24)
        #expect(log.history(matching: unknown, vBucket: vBucket) == nil)
    }

    @Test func shortenedCheckStillMatches() {
        let check = BranchCheck(of: VBucketUUID(99), vBucket: vBucket)
        for width in 1...BranchCheck.widthMax {
            let short = check.shortened(to: width)
            #expect(short == BranchCheck(of: VBucketUUID(99), vBucket: vBucket, width: width))
        }
    }

    @Test func checkOfOtherVBucketDiffers() {
        let check = BranchCheck(of: VBucketUUID(99), vBucket: vBucket)
        #expect(check != BranchCheck(of: VBucketUUID(99), vBucket: VBucketID(8)))
    }
}
