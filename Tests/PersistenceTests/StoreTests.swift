import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct StoreTests {
    @Test func everyCombinationOfFieldsIsReadBack() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        var random = SeededRandom(seed: 1)
        var documents: [TestDocument] = []
        for combination in 0..<256 {
            let key = random.bytes(combination == 0 ? 1 : combination == 1 ? 255 : 20)
            var document = random.document(
                seqno: UInt64(combination * 3 + 1),
                key: key,
                value: random.text(combination % 5 * 30)
            )
            document.meta.isDeleted = combination & 1 != 0
            document.meta.isExpired = combination & 2 != 0
            document.meta.revision = combination & 4 != 0 ? .max >> UInt64(combination % 60) : 1
            document.meta.flags = combination & 8 != 0 ? .max : 0
            document.meta.expiry = combination & 16 != 0 ? 1 << 31 : 0
            document.meta.datatype = Datatype(rawValue: UInt8(combination >> 5))
            document.meta.cas = CAS(combination == 7 ? .max : random.next() >> 3)
            documents.append(document)
        }
        let batch = CommitBatch()
        batch.begin(record(2, high: 1_000))
        for document in documents { batch.append(document) }
        try store.lanes[0].commit(batch)

        func check(_ store: BucketStore) throws {
            let lane = store.lanes[0]
            for document in documents {
                let seqno = document.meta.seqno.value
                #expect(try lane.document(2, seqno) == document)
                #expect(try lane.value(2, seqno) == document.value)
            }
            #expect(try lane.value(2, 2) == nil)
            #expect(try lane.value(2, 5_000) == nil)
            #expect(try lane.value(4, 1) == nil)
        }
        try check(store)
        try store.closeCleanly()
        try check(try bucket.open())
        #expect(try bucket.integrity() == [])
    }

    @Test func recordsAndFailoverLogsAreReadBackAsCommitted() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        var one = record(4, high: 12, state: .replica)
        one.snapshotStart = Seqno(3)
        one.snapshotEnd = Seqno(20)
        one.purgeSeqno = Seqno(2)
        one.maxCAS = CAS(.max - 1)
        one.maxRevision = .max >> 1
        one.failoverLog.begin(VBucketUUID(.max), at: Seqno(9))
        let batch = CommitBatch()
        batch.begin(one)
        batch.begin(record(0, high: 0, state: .dead))
        try store.lanes[0].commit(batch)
        batch.reset()
        batch.begin(record(7, high: 5))
        try store.lanes[1].commit(batch)
        one.state = .active
        one.failoverLog.begin(VBucketUUID(5), at: Seqno(12))
        one.highSeqno = Seqno(13)
        batch.reset()
        batch.begin(one)
        try store.lanes[0].commit(batch)

        let expected = [record(0, high: 0, state: .dead), one, record(7, high: 5)]
        #expect(try store.records().records == expected)
        let again = try bucket.open()
        #expect(try again.records().records == expected)
        #expect(try again.records().unclean == [0, 1])
    }

    @Test func onlyLanesWithoutCleanStopAreUnclean() throws {
        let bucket = TemporaryBucket()
        func restart(_ body: (BucketStore) throws -> Void) throws -> Set<Int> {
            let store = try bucket.open()
            let unclean = try store.records().unclean
            try body(store)
            return unclean
        }
        let batch = CommitBatch()
        batch.begin(record(1, high: 3))
        #expect(try restart { try $0.markRunning() }.isEmpty)
        #expect(try restart { try $0.lanes[1].commit(batch) }.isEmpty, "an empty bucket is clean")
        #expect(try restart { try $0.closeCleanly() } == [1])
        #expect(try restart { _ in }.isEmpty, "the lane was not used since the clean stop")
        #expect(try restart { try $0.markRunning() }.isEmpty)
        #expect(try restart { try $0.closeCleanly() } == [1])
        #expect(try restart { $0.lanes[1].closeIdle() }.isEmpty)
        let later = CommitBatch()
        later.begin(record(1, high: 3, state: .dead))
        #expect(try restart { try $0.lanes[1].commit(later) }.isEmpty)
        #expect(try restart { try $0.closeCleanly() } == [1], "a commit clears the mark")
        // Closing and reopening idle connections is not a start.
        let store = try bucket.open()
        try store.markRunning()
        for _ in 0..<2 { store.lanes[1].closeIdle() }
        batch.reset()
        batch.begin(record(1, high: 4))
        try store.lanes[1].commit(batch)
        #expect(store.lanes[1].wasClean)
    }

    /// A scan locks its connection while it reads a slow disk; commits must not wait for that.
    @Test(.timeLimit(.minutes(1))) func closeIdleDuringScanDoesNotWait() throws {
        let bucket = TemporaryBucket()
        let lane = try bucket.open().lanes[0]
        let batch = CommitBatch()
        batch.begin(record(2, high: 1))
        batch.append(
            TestDocument(meta: DocumentMeta(seqno: Seqno(1), cas: CAS(1)), key: [1], value: [2])
        )
        try lane.commit(batch)
        var visits = 0
        _ = try lane.scanMetadata(from: .start, blocksMax: 8) { _, _ in
            lane.closeIdle()
            visits += 1
            return true
        }
        #expect(visits == 1)
        #expect(try lane.value(2, 1) == [2])
    }

    @Test func emptyLanesHaveNoFiles() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        try store.markRunning()
        #expect(try store.lanes[0].value(0, 1) == nil)
        #expect(try store.records().records.isEmpty)
        try store.closeCleanly()
        #expect(!FileManager.default.fileExists(atPath: bucket.lanePath(0)))
    }

    @Test func manyDocumentsAndTheLargestValueSpanBlocks() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        var random = SeededRandom(seed: 2)
        let batch = CommitBatch()
        var documents: [TestDocument] = []
        for seqno in 1...1_200 as ClosedRange<UInt64> {
            let size = seqno == 600 ? 20 << 20 : seqno == 601 ? 0 : random.below(400)
            let key = Array("user:\(seqno)".utf8)
            let value = seqno == 600 ? random.bytes(size) : random.text(size)
            documents.append(random.document(seqno: seqno * 100, key: key, value: value))
        }
        batch.begin(record(0, high: 120_000))
        for document in documents { batch.append(document) }
        let summary = try store.lanes[0].commit(batch)
        #expect(summary.documents == 1_200)
        #expect(summary.blocks > 5)
        for document in documents where document.meta.seqno.value % 700 == 0 {
            #expect(try store.lanes[0].value(0, document.meta.seqno.value) == document.value)
        }
        #expect(try store.lanes[0].value(0, 60_000)?.count == 20 << 20)
        let newest = try store.lanes[0].newest()
        #expect(newest[0]?.count == 1_200)
        #expect(try bucket.integrity() == [])
    }

    /// Commits six rounds of documents of ten vBuckets, 60 per round in vBucket 4.
    private func fill(_ lane: LaneStore) throws -> [UInt16: [TestDocument]] {
        var random = SeededRandom(seed: 3)
        let batch = CommitBatch()
        var expected: [UInt16: [TestDocument]] = [:]
        for round in 0..<6 {
            batch.reset()
            for vBucket in stride(from: UInt16(0), to: 20, by: 2) {
                let count = vBucket == 4 ? 60 : 1 + random.below(3)
                let start = UInt64(round * 100)
                batch.begin(record(vBucket, high: start + 99))
                for index in 0..<count {
                    let document = random.document(
                        seqno: start + UInt64(index) + 1,
                        key: Array("k\(random.below(50))".utf8),
                        value: random.text(random.below(2_000))
                    )
                    batch.append(document)
                    expected[vBucket, default: []].append(document)
                }
            }
            try lane.commit(batch)
        }
        return expected
    }

    @Test func scansReturnCommittedDocuments() throws {
        let bucket = TemporaryBucket()
        let lane = try bucket.open().lanes[0]
        let expected = try fill(lane)
        for (vBucket, documents) in expected {
            let id = VBucketID(vBucket)
            var scanned: [TestDocument] = []
            var seqno: Seqno? = .zero
            while let after = seqno {
                seqno = try lane.scanDocuments(
                    id,
                    after: after,
                    through: Seqno(500),
                    bytesMax: 3_000
                ) { meta, key, value in
                    scanned.append(TestDocument(meta: meta, key: key.bytes, value: value.bytes))
                    return true
                }
            }
            #expect(scanned == documents.filter { $0.meta.seqno.value <= 500 })
            var metas: [DocumentMeta] = []
            let start = documents[documents.count / 2].meta.seqno
            seqno = start
            while let after = seqno {
                seqno = try lane.scanMetadata(id, after: after, blocksMax: 1) { cursor in
                    while cursor.next() { metas.append(cursor.meta) }
                    return true
                }
            }
            #expect(metas == documents.map(\.meta).filter { $0.seqno > start })
            var values: [Seqno: [UInt8]] = [:]
            let end = try lane.scanValues(
                id,
                after: .zero,
                blocksMax: .max,
                wants: { $0.value % 2 == 0 },
                visit: { seqno, value in
                    values[seqno] = value.bytes
                    return true
                }
            )
            #expect(end == nil)
            let even = documents.filter { $0.meta.seqno.value % 2 == 0 }
            #expect(values.count == even.count)
            for document in even { #expect(values[document.meta.seqno] == document.value) }
        }
        var count = 0
        let end = try lane.scanValues(from: .start, blocksMax: .max) { vBucket, seqno, value in
            count += 1
            return expected[vBucket.number]?.contains {
                $0.meta.seqno == seqno && $0.value == value.bytes
            } == true
        }
        #expect(end == nil)
        #expect(count == expected.values.reduce(0) { $0 + $1.count })
    }

    @Test func resetLiveRestoresLiveCountOfOneVBucket() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let lane = store.lanes[0]
        let batch = CommitBatch()
        for vBucket: UInt16 in [0, 2] {
            batch.begin(record(vBucket, high: 9))
            for seqno in 1...9 as ClosedRange<UInt64> {
                let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                batch.append(TestDocument(meta: meta, key: [UInt8(seqno)], value: [1]))
            }
        }
        try lane.commit(batch)
        for seqno in 1...4 as ClosedRange<UInt64> { lane.markDead(VBucketID(0), Seqno(seqno)) }
        lane.markDead(VBucketID(2), Seqno(1))
        lane.markDead(VBucketID(2), Seqno(4_000))
        lane.markDead(VBucketID(4), Seqno(1))
        #expect(try lane.statistics().liveDocuments == 13)
        lane.resetLive(VBucketID(0))
        #expect(try lane.statistics().liveDocuments == 17)
        #expect(try lane.statistics().documents == 18)
    }

    @Test func compactionSkipsBlocksWithLessDeadThanTheLane() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        let lane = try bucket.open().lanes[0]
        let batch = CommitBatch()
        // In vBucket 0 one document of ten is live, in vBucket 1 one of five is dead.
        for vBucket: UInt16 in [0, 1] {
            batch.begin(record(vBucket, high: 200))
            for seqno in 1...200 as ClosedRange<UInt64> {
                let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                let value = [UInt8](repeating: UInt8(seqno), count: 1_000)
                batch.append(TestDocument(meta: meta, key: [UInt8(seqno)], value: value))
            }
        }
        try lane.commit(batch)
        for seqno in 1...200 as ClosedRange<UInt64> {
            if seqno % 10 != 0 { lane.markDead(VBucketID(0), Seqno(seqno)) }
            if seqno % 5 == 0 { lane.markDead(VBucketID(1), Seqno(seqno)) }
        }
        // Every key has a newer version in memory only, so only marked versions are dead.
        let step = try lane.compactStep(bytesMax: 1 << 20) { _, _, _ in Seqno(1_000) }
        #expect(step.kind == .compacted)
        #expect(step.dropped == 180)
        #expect(step.rewritten == 20)
        #expect(try lane.statistics().documents == 220)
        #expect(try lane.value(0, 10)?.first == 10)
        #expect(try lane.value(1, 1)?.first == 1)
        let rest = try lane.compactStep(bytesMax: 1 << 20, isUnhurried: true) { _, _, _ in
            Seqno(1_000)
        }
        #expect(rest.dropped == 40)
        #expect(try lane.statistics().documents == 180)
        #expect(try lane.value(1, 199)?.count == 1_000)
    }

    @Test func compactionKeepsVersionThatTheTableServes() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        let lane = try bucket.open().lanes[0]
        let batch = CommitBatch()
        batch.begin(record(0, high: 20))
        for seqno in 1...20 as ClosedRange<UInt64> {
            let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
            batch.append(TestDocument(meta: meta, key: [UInt8(seqno)], value: [1, 2, 3]))
        }
        try lane.commit(batch)
        for seqno in 1...19 as ClosedRange<UInt64> { lane.markDead(VBucketID(0), Seqno(seqno)) }
        let step = try lane.compactStep(bytesMax: 1 << 20) { _, _, seqno in
            seqno.value < 5 ? seqno : Seqno(20)
        }
        #expect(step.dropped == 15)
        #expect(try lane.value(0, 4) == [1, 2, 3])
        #expect(try lane.value(0, 5) == nil)
    }

    @Test func savedHeatIsReadBack() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let batch = CommitBatch()
        batch.begin(record(2, high: 1))
        try store.lanes[0].commit(batch)
        try store.lanes[0].saveHeat([(VBucketID(2), [1, 2, 3])])
        try store.lanes[0].saveHeat([(VBucketID(2), [4, 5])])
        try store.closeCleanly()
        let again = try bucket.open()
        #expect(try again.lanes[0].loadHeat(VBucketID(2)) == [4, 5])
        #expect(try again.lanes[0].loadHeat(VBucketID(4)) == nil)
    }

    @Test func flushStartsEmptyGenerationAndDeleteRemovesAllFiles() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let batch = CommitBatch()
        batch.begin(record(2, high: 1))
        batch.append(
            TestDocument(meta: DocumentMeta(seqno: Seqno(1), cas: CAS(1)), key: [1], value: [2])
        )
        let old = store.lanes[0]
        try old.commit(batch)
        try store.flush()
        #expect(throws: StorageError.self) { try old.commit(batch) }
        #expect(old.closedBy?.code == .gone)
        #expect(try store.lanes[0].value(2, 1) == nil)
        try store.lanes[0].commit(batch)
        #expect(try store.lanes[0].value(2, 1) == [2])
        #expect(FileManager.default.fileExists(atPath: bucket.lanePath(0, generation: 1)))
        try store.removeLeftovers()
        #expect(!FileManager.default.fileExists(atPath: bucket.lanePath(0, generation: 1)))
        #expect(try bucket.integrity(generation: 2) == [])

        // A crash between flush and removal leaves the old generation; opening removes it.
        try store.flush()
        let again = try bucket.open()
        #expect(!FileManager.default.fileExists(atPath: bucket.lanePath(0, generation: 2)))
        #expect(try again.records().records.isEmpty)

        try again.delete()
        #expect(!FileManager.default.fileExists(atPath: bucket.directory))
        #expect(try FileDisk().list(bucket.root).count == 1)
        try BucketStore.removeDeleted(disk: FileDisk(), dataDirectory: bucket.root)
        #expect(try FileDisk().list(bucket.root).isEmpty)
    }
}
