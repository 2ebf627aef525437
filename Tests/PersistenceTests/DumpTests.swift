import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct DumpTests {
    private func dump(_ bucket: TemporaryBucket, tombstones: Bool = false) throws -> (
        documents: [UInt16: [TestDocument]], damage: [StorageError]
    ) {
        var documents: [UInt16: [TestDocument]] = [:]
        var damage: [StorageError] = []
        let dump = Dump(disk: FileDisk())
        for directory in try dump.buckets(in: bucket.root) {
            try dump.documents(
                of: directory,
                tombstones: tombstones,
                damage: { damage.append($0) },
                visit: { vBucket, meta, key, value in
                    documents[vBucket.number, default: []].append(
                        TestDocument(meta: meta, key: key.bytes, value: value.bytes)
                    )
                    return true
                }
            )
        }
        return (documents, damage)
    }

    @Test func dumpOfOpenFilesReturnsNewestVersions() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        var random = SeededRandom(seed: 31)
        var newest: [UInt16: [[UInt8]: TestDocument]] = [:]
        let batch = CommitBatch()
        for round in 0..<5 {
            for lane in 0..<2 {
                batch.reset()
                for vBucket in stride(from: UInt16(lane), to: 10, by: 2) {
                    let start = UInt64(round * 10)
                    batch.begin(record(vBucket, high: start + 10))
                    for number in 0..<5 {
                        let document = random.document(
                            seqno: start + UInt64(number) + 1,
                            key: Array("k\(number)-\(random.below(4))".utf8),
                            value: random.text(50)
                        )
                        batch.append(document)
                        newest[vBucket, default: [:]][document.key] = document
                    }
                }
                try store.lanes[lane].commit(batch)
            }
            let expected = newest.mapValues { documents in
                documents.values.sorted { $0.meta.seqno < $1.meta.seqno }
            }
            let all = try dump(bucket, tombstones: true)
            #expect(all.documents == expected)
            #expect(all.damage.isEmpty)
            let alive = expected.mapValues { $0.filter { !$0.meta.isDeleted } }
            #expect(try dump(bucket).documents == alive.filter { !$0.value.isEmpty })
        }
        // After the store is closed the dump is the same.
        let open = try dump(bucket).documents
        try store.closeCleanly()
        #expect(try dump(bucket).documents == open)
        try store.delete()
        #expect(try dump(bucket).documents.isEmpty)
    }

    @Test func dumpReportsDamagedBlockAndReturnsTheOthers() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let batch = CommitBatch()
        for vBucket: UInt16 in [0, 2] {
            batch.begin(record(vBucket, high: 10))
            for seqno in 1...10 as ClosedRange<UInt64> {
                let key = [UInt8(seqno)]
                let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                batch.append(TestDocument(meta: meta, key: key, value: [1, 2, 3]))
            }
        }
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        try SQLiteConnection(path: bucket.lanePath(0), mode: .write, vfs: nil)
            .execute("UPDATE body SET bytes = x'0011223344556677' WHERE id = 1")
        let (documents, damage) = try dump(bucket)
        #expect(documents.keys.sorted() == [2])
        #expect(damage.count == 1)
        #expect(damage.first?.damage?.runs.first?.vBucket == VBucketID(0))
    }
}
