import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// A lane and its expected content: one dictionary per vBucket.
struct Model {
    struct Table {
        var current: [[UInt8]: TestDocument] = [:]
        var high: UInt64 = 0
        var record: VBucketRecord?
    }

    let bucket: TemporaryBucket
    var store: BucketStore
    var random: SeededRandom
    var tables: [UInt16: Table] = [:]
    /// False once compaction was told of successors that are not on disk: the lane's count of live
    /// documents may then differ from the model's.
    var areCountsExact = true
    let vBuckets: [UInt16] = [0, 2, 4, 6, 8]

    init(seed: UInt64) throws {
        bucket = TemporaryBucket(lanes: 2, vBuckets: 16)
        random = SeededRandom(seed: seed)
        bucket.settings.blocks.rawBytes = 300 + random.below(2_000)
        bucket.settings.blocks.documents = 4 + random.below(40)
        bucket.settings.blocks.pureDocumentsMin = 2 + random.below(8)
        bucket.settings.blocks.pureBytesMin = 400
        bucket.settings.mergedDocumentsMin = 10
        store = try bucket.open()
    }

    var lane: LaneStore { store.lanes[0] }

    mutating func step() throws {
        let dice = random.below(100)
        switch dice {
        case 0..<55: try commit()
        case 55..<75: try compact()
        case 75..<83: try purge()
        case 83..<87: try drop()
        case 87..<92: try reopen()
        case 92..<95: lane.closeIdle()
        default: try checkCopy()
        }
    }

    mutating func commit() throws {
        let batch = CommitBatch()
        for vBucket in vBuckets where random.below(3) > 0 {
            var table = tables[vBucket] ?? Table()
            var documents: [[UInt8]: TestDocument] = [:]
            var seqno = table.high
            for _ in 0..<random.below(random.below(4) == 0 ? 60 : 6) {
                // Gaps: versions that were superseded before the commit use up seqnos.
                seqno += UInt64(random.below(20) == 0 ? random.below(100_000) + 1 : 1)
                let key = Array("key-\(random.below(80))".utf8)
                let value = random.text(random.below(60))
                var document = random.document(seqno: seqno, key: key, value: value)
                document.meta.expiry = document.meta.isDeleted ? UInt32(random.below(100)) : 0
                documents[key] = document
            }
            var record = record(vBucket, high: seqno + UInt64(random.below(3)))
            // The engine's record may be older than the last purge and must not undo it.
            batch.begin(record)
            record.purgeSeqno = table.record?.purgeSeqno ?? .zero
            record.maxRevision = table.record?.maxRevision ?? 0
            for document in documents.values.sorted(by: { $0.meta.seqno < $1.meta.seqno }) {
                batch.append(document)
                if let old = table.current[document.key] { batch.markSuperseded(old.meta.seqno) }
                table.current[document.key] = document
            }
            table.high = record.highSeqno.value
            table.record = record
            tables[vBucket] = table
        }
        try lane.commit(batch)
    }

    func currentSeqno(_ vBucket: VBucketID, _ key: ByteView, _ seqno: Seqno) -> Seqno? {
        tables[vBucket.number]?.current[key.bytes]?.meta.seqno
    }

    mutating func compact() throws {
        let before = try lane.statistics()
        // Some keys have newer versions that are not on disk: their stored versions must stay.
        let isChanging = random.below(2) == 0
        areCountsExact = areCountsExact && !isChanging
        var dice = random
        let summary = try lane.compactStep(bytesMax: 1 + random.below(5_000)) {
            let current = currentSeqno($0, $1, $2)
            guard isChanging, current != nil, dice.below(3) == 0 else { return current }
            return tables[$0.number].map { Seqno($0.high + 7) }
        }
        let after = try lane.statistics()
        #expect(after.documents == before.documents - summary.dropped)
    }

    mutating func purge() throws {
        let vBucket = vBuckets[random.below(vBuckets.count)]
        guard var table = tables[vBucket] else { return }
        let before = UInt32(random.below(100))
        let through = Seqno(table.high - min(table.high, UInt64(random.below(50))))
        let due = table.current.values.filter {
            $0.meta.isDeleted && $0.meta.expiry < before && $0.meta.seqno <= through
        }
        var purged: Set<[UInt8]> = []
        var announced: PurgeSummary?
        let summary = try lane.purge(
            VBucketID(vBucket),
            deletedBefore: before,
            through: through,
            currentSeqno: currentSeqno,
            willPurge: { announced = $0 },
            didPurge: { key, seqno in
                #expect(table.current[key.bytes]?.meta.seqno == seqno)
                purged.insert(key.bytes)
                table.current[key.bytes] = nil
            }
        )
        #expect(announced == (due.isEmpty ? nil : summary))
        #expect(purged == Set(due.map(\.key)))
        #expect(summary.purged == due.count)
        let revision = max(table.record?.maxRevision ?? 0, summary.maxRevision)
        table.record?.maxRevision = revision
        let purgeSeqno = max(table.record?.purgeSeqno ?? .zero, summary.purgeSeqno)
        table.record?.purgeSeqno = purgeSeqno
        tables[vBucket] = table
    }

    mutating func drop() throws {
        let gone = vBuckets.filter { _ in random.below(vBuckets.count) == 0 }
        try lane.drop(gone.map { VBucketID($0) })
        for vBucket in gone { tables[vBucket] = nil }
    }

    mutating func reopen() throws {
        if random.below(2) == 0 { try store.closeCleanly() }
        store = try bucket.open()
        areCountsExact = true
        // As warmup: the version with the higher seqno is current, the other one is dead.
        var newest: [UInt16: [[UInt8]: Seqno]] = [:]
        let lane = self.lane
        let end = try lane.scanMetadata(from: .start, blocksMax: .max) { vBucket, cursor in
            while cursor.next() {
                let key = cursor.key.bytes
                let known = newest[vBucket.number]?[key]
                if let known { lane.markDead(vBucket, min(known, cursor.seqno)) }
                newest[vBucket.number, default: [:]][key] = max(known ?? .zero, cursor.seqno)
            }
            return true
        }
        #expect(end == nil)
    }

    /// Checks a copy of the current files, as a process crash would leave them.
    func checkCopy() throws {
        let copy = TemporaryBucket(lanes: 2, vBuckets: 16)
        copy.settings = bucket.settings
        try FileManager.default.createDirectory(
            atPath: copy.root,
            withIntermediateDirectories: true
        )
        try FileManager.default.copyItem(atPath: bucket.directory, toPath: copy.directory)
        try check(try copy.open().lanes[0], isFresh: true)
        #expect(try copy.integrity() == [])
    }

    func check(_ lane: LaneStore, isFresh: Bool = false) throws {
        #expect(lane.closedBy == nil)
        #expect(try lane.verify() == [])
        let expected = tables.mapValues { $0.current.mapValues(\.meta) }
            .filter { !$0.value.isEmpty }
        #expect(try lane.newest() == expected)
        for (vBucket, table) in tables {
            for document in table.current.values {
                #expect(try lane.document(vBucket, document.meta.seqno.value) == document)
                #expect(try lane.value(vBucket, document.meta.seqno.value) == document.value)
            }
            #expect(try lane.value(vBucket, table.high + 1) == nil)
        }
        #expect(try lane.records() == tables.values.compactMap(\.record).sorted { $0.id < $1.id })
        if !isFresh, areCountsExact {
            let live = tables.values.reduce(0) { $0 + $1.current.count }
            #expect(try lane.statistics().liveDocuments == live)
        }
    }
}

@Suite struct ModelTests {
    @Test(arguments: 1...80 as ClosedRange<UInt64>)
    func laneEqualsModelAfterRandomOperations(seed: UInt64) throws {
        var model = try Model(seed: seed)
        for _ in 0..<40 { try model.step() }
        try model.check(model.lane)
        try model.reopen()
        try model.check(model.lane)
        #expect(try model.bucket.integrity() == [])
    }
}

@Suite struct PurgeCrashTests {
    /// Opens a copy of the lane's current files: whether each key is alive there.
    private func copy(_ bucket: TemporaryBucket) throws -> [[UInt8]: Bool] {
        let copy = TemporaryBucket(lanes: 1, vBuckets: 4)
        copy.settings = bucket.settings
        try FileManager.default.createDirectory(
            atPath: copy.root,
            withIntermediateDirectories: true
        )
        try FileManager.default.copyItem(atPath: bucket.directory, toPath: copy.directory)
        let lane = try copy.open().lanes[0]
        #expect(try lane.verify() == [])
        // The files are removed with `copy`.
        return try withExtendedLifetime(copy) {
            try lane.newest()[0, default: [:]].mapValues { !$0.isDeleted }
        }
    }

    /// Commits three versions of each key in separate blocks; the last version of every second key
    /// is a tombstone.
    private func fill(_ bucket: TemporaryBucket, _ lane: LaneStore) throws -> [[UInt8]: Seqno] {
        var current: [[UInt8]: Seqno] = [:]
        var seqno: UInt64 = 0
        for version in 0..<3 {
            let batch = CommitBatch()
            batch.begin(record(0, high: seqno + 40))
            for number in 0..<40 {
                seqno += 1
                var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                meta.isDeleted = version == 2 && number % 2 == 0
                meta.expiry = meta.isDeleted ? 10 : 0
                let key = Array("key-\(number)".utf8)
                let value = [UInt8](repeating: 7, count: meta.isDeleted ? 0 : 100)
                batch.append(TestDocument(meta: meta, key: key, value: value))
                if let old = current[key] { batch.markSuperseded(old) }
                current[key] = Seqno(seqno)
            }
            try lane.commit(batch)
        }
        return current
    }

    /// At each callback of a purge, the files hold either all or none of its changes.
    @Test(arguments: [16 << 20, 500])
    func crashDuringPurgeRestoresNoDeletedDocument(bytesMax: Int) throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 4)
        bucket.settings.blocks.documents = 6
        bucket.settings.blocks.rawBytes = 600
        let store = try bucket.open()
        // The store lists the lanes that have files.
        defer { withExtendedLifetime(store) {} }
        let lane = store.lanes[0]
        let current = try fill(bucket, lane)
        let alive = Set(
            current.keys.filter { key in
                Int(String(decoding: key.dropFirst(4), as: UTF8.self)).map { $0 % 2 == 1 } ?? false
            }
        )
        var (moments, rounds) = (0, 0)
        func check() {
            moments += 1
            guard moments % 7 == 0 else { return }
            do {
                let found = try copy(bucket)
                #expect(Set(found.filter(\.value).map(\.key)) == alive)
            } catch {
                Issue.record("the copy cannot be read: \(error)")
            }
        }
        var summary = PurgeSummary(isPartial: true)
        var purged: Set<[UInt8]> = []
        while summary.isPartial {
            rounds += 1
            try #require(rounds < 100)
            summary = try lane.purge(
                VBucketID(0),
                deletedBefore: 20,
                through: Seqno(120),
                bytesMax: bytesMax,
                currentSeqno: { _, key, _ in
                    check()
                    return purged.contains(key.bytes) ? nil : current[key.bytes]
                },
                didPurge: { key, seqno in
                    check()
                    #expect(purged.insert(key.bytes).inserted)
                    #expect(current[key.bytes] == seqno)
                }
            )
            #expect(summary.purged > 0)
        }
        #expect(bytesMax > 1_000 ? rounds == 1 : rounds > 5)
        #expect(purged == Set(current.keys).subtracting(alive))
        #expect(try copy(bucket).count == alive.count)
        #expect(try bucket.integrity() == [])
        #expect(try lane.records()[0].purgeSeqno == purged.compactMap { current[$0] }.max())
    }
}

@Suite struct HotKeyTests {
    /// Keys that always have a version in memory that is not on disk yet.
    @Test func constantlyChangedKeysDoNotFillTheDisk() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        let lane = try bucket.open().lanes[0]
        let batch = CommitBatch()
        let (keys, rounds) = (UInt64(40), UInt64(200))
        for round in 0..<rounds {
            batch.reset()
            for vBucket in 0..<4 as Range<UInt16> {
                let start = round * keys
                batch.begin(record(vBucket, high: start + keys))
                for key in 0..<keys {
                    let meta = DocumentMeta(seqno: Seqno(start + key + 1), cas: CAS(1))
                    let value = [UInt8](repeating: UInt8(round), count: 100)
                    batch.append(TestDocument(meta: meta, key: [UInt8(key)], value: value))
                    if round > 0 { batch.markSuperseded(Seqno(start + key + 1 - keys)) }
                }
            }
            try lane.commit(batch)
            while lane.compactionNeeded().deadShare > 0.5 {
                let step = try lane.compactStep(bytesMax: 1 << 20) { _, _, _ in
                    Seqno((round + 2) * keys)
                }
                try #require(step.dropped > 0, "a compaction step drops documents")
            }
            #expect(try lane.statistics().documents <= Int(8 * keys))
            #expect(try lane.statistics().liveDocuments == Int(4 * keys))
        }
        #expect(try lane.value(0, rounds * keys)?.first == UInt8(rounds - 1))
        #expect(try lane.newest().values.reduce(0) { $0 + $1.count } == Int(4 * keys))
    }
}
