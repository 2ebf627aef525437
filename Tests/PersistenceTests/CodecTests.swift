import Bytes
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct CodecTests {
    /// The blobs of some blocks without their checksums, as the decoders receive them.
    private func blobs(_ table: String) throws -> [[UInt8]] {
        let bucket = TemporaryBucket()
        bucket.settings.blocks.rawBytes = 1_000
        let store = try bucket.open()
        var random = SeededRandom(seed: 21)
        let batch = CommitBatch()
        for vBucket: UInt16 in stride(from: 0, to: 12, by: 2) {
            batch.begin(record(vBucket, high: 500))
            for index in 0..<(vBucket < 6 ? 2 : 40) as Range<UInt64> {
                let key = random.bytes(1 + random.below(40))
                batch.append(
                    random.document(
                        seqno: 1 + index * 7,
                        key: key,
                        value: random.text(random.below(300))
                    )
                )
            }
        }
        try store.lanes[0].commit(batch)
        let connection = try SQLiteConnection(path: bucket.lanePath(0), mode: .read, vfs: nil)
        return try connection.texts("SELECT hex(substr(bytes, 5)) FROM \(table)").map { text in
            let digits = Array(text.utf8)
            return stride(from: 0, to: digits.count, by: 2).map { place in
                UInt8(String(decoding: digits[place..<place + 2], as: UTF8.self), radix: 16) ?? 0
            }
        }
    }

    private func isMeta(_ bytes: [UInt8], _ probe: BlockProbe) -> Bool {
        withView(bytes) { probe.readMeta($0) } != nil
    }

    private func isBody(_ bytes: [UInt8], _ probe: BlockProbe) -> Bool {
        withView(bytes) { probe.readBody($0) } != nil
    }

    /// The decoders must not depend on the checksum that is verified before them.
    @Test func decodersRefuseInvalidBytesWithoutChecksum() throws {
        let probe = BlockProbe()
        let metas = try blobs("meta")
        let bodies = try blobs("body")
        try #require(metas.count > 4)
        for bytes in metas { #expect(isMeta(bytes, probe)) }
        for bytes in bodies { #expect(isBody(bytes, probe)) }
        var random = SeededRandom(seed: 22)
        var refused = 0
        func feed(_ bytes: [UInt8]) {
            refused += isMeta(bytes, probe) ? 0 : 1
            refused += isBody(bytes, probe) ? 0 : 1
        }
        for bytes in metas + bodies {
            for length in stride(from: 0, to: bytes.count, by: 1 + bytes.count / 200) {
                #expect(!isMeta(Array(bytes[..<length]), probe))
                #expect(!isBody(Array(bytes[..<length]), probe))
            }
            for _ in 0..<100 {
                var wrong = bytes
                for _ in 0...random.below(4) {
                    wrong[random.below(wrong.count)] = UInt8(truncatingIfNeeded: random.next())
                }
                feed(wrong)
            }
        }
        for _ in 0..<5_000 { feed(random.bytes(random.below(120))) }
        #expect(refused > 10_000)
    }

    /// The decoder must not allocate memory for a stated size that LZ4 cannot reach.
    @Test func valueLengthBeyondCompressedBytesIsRefused() {
        let writer = ByteWriter()
        LEB128.append(1, to: writer)  // One run:
        LEB128.append(3, to: writer)  // vBucket,
        LEB128.append(9, to: writer)  // first seqno,
        LEB128.append(1, to: writer)  // one document
        LEB128.append(50 << 20, to: writer)  // of 50 MiB,
        writer.append(bigEndian: UInt32(0))  // in four bytes.
        #expect(!isBody(writer.bytes, BlockProbe()))
    }
}
