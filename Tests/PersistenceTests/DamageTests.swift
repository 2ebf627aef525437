import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct DamageTests {
    /// Three vBuckets of lane 0 with fifty documents each, in several blocks.
    private func filled(_ bucket: TemporaryBucket) throws -> [UInt16: [TestDocument]] {
        bucket.settings.blocks.rawBytes = 2_000
        let store = try bucket.open()
        var random = SeededRandom(seed: 11)
        var documents: [UInt16: [TestDocument]] = [:]
        let batch = CommitBatch()
        for vBucket: UInt16 in [0, 2, 4] {
            batch.begin(record(vBucket, high: 50))
            for seqno in 1...50 as ClosedRange<UInt64> {
                let key = Array("key-\(seqno)".utf8)
                let document = random.document(seqno: seqno, key: key, value: random.text(200))
                documents[vBucket, default: []].append(document)
                batch.append(document)
            }
        }
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        return documents
    }

    private func change(_ path: String, _ sql: String) throws {
        try SQLiteConnection(path: path, mode: .write, vfs: nil).execute(sql)
    }

    @Test func damagedByteInMetadataOrValuesIsReportedWithItsBlock() throws {
        for table in ["meta", "body"] {
            let bucket = TemporaryBucket()
            let documents = try filled(bucket)
            let path = bucket.lanePath(0)
            let connection = try SQLiteConnection(path: path, mode: .read, vfs: nil)
            let length = try #require(
                try connection.integer("SELECT length(bytes) FROM \(table) WHERE id = 2")
            )
            for position in [1, 4, 5, 9, length / 2, length] {
                let damaged = TemporaryBucket()
                damaged.settings = bucket.settings
                try FileManager.default.createDirectory(
                    atPath: damaged.root,
                    withIntermediateDirectories: true
                )
                try FileManager.default.copyItem(
                    atPath: bucket.directory,
                    toPath: damaged.directory
                )
                try change(
                    damaged.lanePath(0),
                    """
                    UPDATE \(table) SET bytes = CAST(substr(bytes, 1, \(position - 1)) ||
                      CASE substr(bytes, \(position), 1) WHEN x'41' THEN x'42' ELSE x'41' END ||
                      substr(bytes, \(position + 1)) AS BLOB) WHERE id = 2
                    """
                )
                try expectOneBlockLost(try damaged.open(), documents)
            }
        }
    }

    /// Expects that block 2 is reported as damaged and all other documents are readable.
    private func expectOneBlockLost(
        _ store: BucketStore,
        _ documents: [UInt16: [TestDocument]]
    ) throws {
        let lane = store.lanes[0]
        var refused: Set<Seqno> = []
        var damage: BlockDamage?
        for (vBucket, documents) in documents {
            for document in documents {
                do {
                    let found = try lane.document(vBucket, document.meta.seqno.value)
                    #expect(found == document)
                } catch let error as StorageError {
                    #expect(error.code == .damaged)
                    #expect(error.damage?.block == 2)
                    #expect(error.description.contains("block 2 of"))
                    damage = error.damage
                    refused.insert(document.meta.seqno)
                }
            }
        }
        let run = try #require(damage?.runs.first)
        #expect(damage?.lane == 0)
        #expect(run.vBucket == VBucketID(0))
        #expect(refused.min() == run.first)
        #expect(refused.max() == run.last)
        #expect(try lane.verify().count == 1)
        #expect(try lane.statistics().unreadableBlocks == 1)

        // Compaction skips the block and still processes the others.
        #expect(
            throws: Never.self,
            performing: {
                _ = try lane.compactStep(bytesMax: 1 << 20) { _, _, seqno in seqno }
            }
        )
        try lane.discard(block: 2)
        #expect(try lane.verify() == [])
        #expect(try lane.value(0, run.first.value) == nil)
    }

    @Test func damagedOutlineIsRecoveredFromMetadata() throws {
        let bucket = TemporaryBucket()
        let documents = try filled(bucket)
        try change(bucket.lanePath(0), "UPDATE block SET runs = x'0102030405' WHERE id IN (1, 3)")
        let store = try bucket.open()
        for (vBucket, documents) in documents {
            for document in documents {
                let seqno = document.meta.seqno.value
                #expect(try store.lanes[0].document(vBucket, seqno) == document)
            }
        }
    }

    @Test func bodyOfAnotherBlockIsRefused() throws {
        let bucket = TemporaryBucket()
        _ = try filled(bucket)
        try change(
            bucket.lanePath(0),
            "UPDATE body SET bytes = (SELECT bytes FROM body WHERE id = 3) WHERE id = 2"
        )
        #expect(try bucket.open().lanes[0].verify().count == 1)
    }

    @Test func filesOfOtherProgramsFormatsAndLanesAreRefused() throws {
        let changes: [(StorageError.Code, String)] = [
            (.otherFormat, "PRAGMA user_version = 2"),
            (.foreign, "PRAGMA application_id = 7"),
            (.foreign, "UPDATE lane SET lane = 1"),
            (.foreign, "UPDATE lane SET bucket_uuid = 'ffff'"),
            (.foreign, "UPDATE lane SET vbuckets = 128"),
            (.foreign, "UPDATE lane SET generation = 2"),
        ]
        for (code, sql) in changes {
            let bucket = TemporaryBucket()
            _ = try filled(bucket)
            try change(bucket.lanePath(0), sql)
            do {
                _ = try bucket.open()
                Issue.record("\(sql) was accepted")
            } catch let error as StorageError {
                #expect(error.code == code, "\(sql): \(error)")
                #expect(error.description.contains("lane-00.sqlite"))
            }
        }
        let bucket = TemporaryBucket()
        _ = try filled(bucket)
        let path = bucket.directory + "/bucket.divan"
        let text = try String(contentsOfFile: path, encoding: .utf8)
        for (code, wrong): (StorageError.Code, String) in [
            (.otherFormat, text.replacingOccurrences(of: "divan-bucket 1", with: "divan-bucket 2")),
            (.damaged, text.replacingOccurrences(of: "generation 1", with: "generation 2")),
            (.damaged, String(text.prefix(40))),
            (.damaged, ""),
        ] {
            try wrong.write(toFile: path, atomically: true, encoding: .utf8)
            do {
                _ = try bucket.open()
                Issue.record("\(wrong) was accepted")
            } catch let error as StorageError {
                #expect(error.code == code, "\(error)")
            }
        }
    }

    @Test func damagedLaneFileIsQuarantinedAndOtherLanesServe() throws {
        let bucket = TemporaryBucket()
        _ = try filled(bucket)
        let other = try bucket.open()
        let batch = CommitBatch()
        batch.begin(record(1, high: 1))
        batch.append(
            TestDocument(meta: DocumentMeta(seqno: Seqno(1), cas: CAS(1)), key: [1], value: [9])
        )
        try other.lanes[1].commit(batch)
        try other.closeCleanly()
        try Data(repeating: 0x55, count: 20_000).write(to: URL(filePath: bucket.lanePath(0)))

        func check(_ store: BucketStore) throws {
            #expect(store.lanes[0].closedBy?.code == .quarantined)
            #expect(throws: StorageError.self) { try store.lanes[0].value(0, 1) }
            #expect(throws: StorageError.self) { try store.lanes[0].commit(state(of: 0)) }
            #expect(try store.lanes[1].value(1, 1) == [9])
            #expect(try store.records().records.map(\.id) == [VBucketID(1)])
        }
        func state(of vBucket: UInt16) -> CommitBatch {
            let batch = CommitBatch()
            batch.begin(record(vBucket, high: 1))
            return batch
        }
        try check(try bucket.open())
        let names = try FileManager.default.contentsOfDirectory(
            atPath: bucket.directory + "/generation-1"
        )
        #expect(names.contains("lane-00.sqlite.damaged-1700000000"))
        // The lane is still closed after the next start, not empty.
        let store = try bucket.open()
        try check(store)
        try store.recreate(0)
        try store.lanes[0].commit(state(of: 0))
        #expect(try bucket.open().records().records.map(\.id) == [VBucketID(0), VBucketID(1)])
    }

    @Test func laneWithMissingFileIsClosed() throws {
        let bucket = TemporaryBucket()
        _ = try filled(bucket)
        try FileManager.default.removeItem(atPath: bucket.lanePath(0))
        #expect(try bucket.open().lanes[0].closedBy?.code == .quarantined)
    }

    @Test func batchRefusedByFullDiskIsCommittedLater() throws {
        let bucket = TemporaryBucket()
        let documents = try filled(bucket)
        bucket.settings.filePagesMax = 40
        var random = SeededRandom(seed: 5)
        let batch = CommitBatch()
        batch.begin(record(6, high: 400))
        for seqno in 1...400 as ClosedRange<UInt64> {
            let key = Array("key-\(seqno)".utf8)
            batch.append(random.document(seqno: seqno, key: key, value: random.bytes(1_000)))
        }
        var store = try bucket.open()
        let before = try store.records().records
        for _ in 0..<5 {
            do {
                try store.lanes[0].commit(batch)
                Issue.record("the disk was not full")
            } catch {
                #expect(error.code == .full)
            }
        }
        #expect(store.lanes[0].closedBy == nil, "a full disk does not close the lane")
        #expect(try store.records().records == before)
        #expect(try store.lanes[0].value(6, 1) == nil)
        #expect(try store.lanes[0].value(0, 7) == documents[0]?[6].value)
        bucket.settings.filePagesMax = 0
        store = try bucket.open()
        try store.lanes[0].commit(batch)
        #expect(try store.lanes[0].newest()[6]?.count == 400)
        #expect(try bucket.integrity() == [])
    }

    @Test func failedFileIsReopenedAndClosedAfterThreeFailures() throws {
        let bucket = TemporaryBucket()
        let documents = try filled(bucket)
        let store = try bucket.open()
        let lane = store.lanes[0]
        func hide() throws {
            lane.closeIdle()
            lane.closeIdle()
            try FileManager.default.moveItem(
                atPath: bucket.lanePath(0),
                toPath: bucket.root + "/hidden"
            )
        }
        func bringBack() throws {
            try FileManager.default.moveItem(
                atPath: bucket.root + "/hidden",
                toPath: bucket.lanePath(0)
            )
        }
        let batch = CommitBatch()
        batch.begin(record(6, high: 1))
        let one = TestDocument(meta: DocumentMeta(seqno: Seqno(1)), key: [1], value: [1])
        var two = one
        two.meta.seqno = Seqno(2)
        two.key = [2]
        batch.append(one)
        try lane.commit(batch)
        batch.reset()
        try hide()
        batch.begin(record(6, high: 3))
        // The failed batch is repeated, together with a document that the file already has.
        batch.append(one)
        batch.append(two)
        for _ in 0..<2 {
            #expect(throws: StorageError.self) { try lane.commit(batch) }
        }
        #expect(lane.closedBy == nil)
        try bringBack()
        try lane.commit(batch)
        #expect(try lane.newest()[6]?.count == 2)
        #expect(try lane.value(0, 7) == documents[0]?[6].value)
        #expect(try lane.statistics().documents == 152, "the first document was written once")

        try hide()
        batch.reset()
        batch.begin(record(6, high: 4))
        for _ in 0..<3 {
            #expect(throws: StorageError.self) { try lane.commit(batch) }
        }
        #expect(lane.closedBy?.code == .quarantined)
        #expect(!FileManager.default.fileExists(atPath: bucket.lanePath(0)), "no file was created")
        try bringBack()
        #expect(try bucket.open().lanes[0].newest()[6]?.count == 2)
    }

    /// After any bit flips in a file, a read returns the written document, nothing or an error.
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func flippedBitsAreNeverServed(seed: UInt64) throws {
        let bucket = TemporaryBucket()
        let documents = try filled(bucket)
        var random = SeededRandom(seed: seed)
        var bytes = try Data(contentsOf: URL(filePath: bucket.lanePath(0)))
        for _ in 0...random.below(3) {
            bytes[random.below(bytes.count)] ^= UInt8(1 << random.below(8))
        }
        if random.below(5) == 0 { bytes.removeLast(random.below(bytes.count)) }
        try bytes.write(to: URL(filePath: bucket.lanePath(0)))
        do {
            let lane = try bucket.open().lanes[0]
            for (vBucket, documents) in documents {
                for document in documents {
                    let seqno = document.meta.seqno.value
                    do {
                        let found = try lane.document(vBucket, seqno)
                        #expect(found == nil || found == document)
                        let value = try lane.value(vBucket, seqno)
                        #expect(value == nil || value == document.value)
                    } catch is StorageError {}
                }
            }
            _ = try lane.verify()
            while try lane.compactStep(bytesMax: 1 << 20, currentSeqno: { $2 }).kind != .nothing {}
        } catch is StorageError {}
    }
}
