import Bytes
import Persistence
import TestSupport
import Testing
import Vocabulary

/// One vBucket that is written, compacted and scanned concurrently.
private final class Scanned {
    let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
    let store: BucketStore
    let lane: LaneStore
    var random: SeededRandom
    let keys: Int
    var current: [[UInt8]: TestDocument] = [:]
    var history: [TestDocument] = []
    var high: UInt64 = 0

    init(seed: UInt64) throws {
        random = SeededRandom(seed: seed)
        keys = 5 + random.below(60)
        bucket.settings.blocks.rawBytes = 300 + random.below(900)
        bucket.settings.blocks.documents = 3 + random.below(12)
        bucket.settings.blocks.pureDocumentsMin = 2
        bucket.settings.mergedDocumentsMin = 10
        store = try bucket.open()
        lane = store.lanes[0]
    }

    /// The outstanding prepares, by seqno.
    var prepares: [StoredPrepare] = []

    /// Adds new prepares to the batch and completes a third of the outstanding ones; a completion
    /// stores no document here.
    private func prepare(_ batch: CommitBatch, _ prepared: [StoredPrepare]) {
        let completed = prepares.filter { _ in random.below(3) == 0 }
        batch.markCompleted(completed.map(\.meta.seqno))
        prepares.removeAll { completed.contains($0) }
        for prepare in prepared {
            withView(prepare.key) { key in
                withView(prepare.value) { value in
                    batch.append(
                        prepare: prepare.meta,
                        level: prepare.level,
                        key: key,
                        value: value
                    )
                }
            }
        }
        prepares += prepared
    }

    func commit() throws {
        let batch = CommitBatch()
        var documents: [[UInt8]: TestDocument] = [:]
        var prepared: [StoredPrepare] = []
        for _ in 0...random.below(25) {
            high += 1
            let key = Array("key-\(random.below(keys))".utf8)
            if random.below(4) == 0 {
                var document = random.document(seqno: high, key: key, value: random.text(40))
                document.meta.isExpired = false
                let level = DurabilityLevel(rawValue: UInt8(1 + random.below(3))) ?? .majority
                let (meta, value) = (document.meta, document.value)
                prepared.append(StoredPrepare(meta: meta, level: level, key: key, value: value))
                continue
            }
            var document = random.document(seqno: high, key: key, value: random.text(40))
            document.meta.expiry = document.meta.isDeleted ? UInt32(random.below(100)) : 0
            documents[key] = document
        }
        batch.begin(record(0, high: high))
        prepare(batch, prepared)
        for document in documents.values.sorted(by: { $0.meta.seqno < $1.meta.seqno }) {
            batch.append(document)
            if let old = current[document.key] { batch.markSuperseded(old.meta.seqno) }
            current[document.key] = document
            history.append(document)
        }
        // Another vBucket in the same blocks.
        batch.begin(record(1, high: high))
        batch.append(random.document(seqno: high, key: [1], value: [UInt8](repeating: 1, count: 9)))
        if high > 25 { batch.markSuperseded(Seqno(neighbour)) }
        neighbour = high
        try lane.commit(batch)
    }

    var neighbour: UInt64 = 0
    var scannedPrepares: [StoredPrepare] = []

    func compact() throws {
        _ = try lane.compactStep(bytesMax: 1 + random.below(4_000)) { vBucket, key, _ in
            vBucket.number == 0 ? current[key.bytes]?.meta.seqno : Seqno(neighbour)
        }
    }

    func purge() throws {
        _ = try lane.purge(
            VBucketID(0),
            deletedBefore: UInt32(random.below(100)),
            through: Seqno(high),
            currentSeqno: { _, key, _ in current[key.bytes]?.meta.seqno },
            didPurge: { key, _ in current[key.bytes] = nil }
        )
    }

    func state(at seqno: Seqno) -> [[UInt8]: TestDocument] {
        var state: [[UInt8]: TestDocument] = [:]
        for document in history where document.meta.seqno <= seqno {
            state[document.key] = document
        }
        return state
    }

    func slice(_ scan: VBucketScan, _ found: inout [[UInt8]: TestDocument]) throws -> Bool {
        var last = scan.position
        defer { #expect(scan.position >= last) }
        return try scan.readSlice(
            bytesMax: 1 + random.below(400),
            isNeeded: { key, seqno in
                guard let current = current[key.bytes]?.meta.seqno else { return false }
                return current == seqno || current > scan.end
            },
            prepare: { prepare in
                #expect(prepare.meta.seqno > last && prepare.meta.seqno <= scan.end)
                last = prepare.meta.seqno
                scannedPrepares.append(prepare)
            },
            visit: { meta, key, value in
                #expect(meta.seqno > last && meta.seqno <= scan.end)
                last = meta.seqno
                let document = TestDocument(meta: meta, key: key.bytes, value: value.bytes)
                found[document.key] = document
            }
        ) == .more
    }
}

@Suite struct ScanTests {
    /// Storage.md 6.9.
    @Test(arguments: 1...60)
    func scanDuringCompactionReturnsStateAtItsEnd(seed: UInt64) throws {
        let scanned = try Scanned(seed: seed)
        for _ in 0..<10 { try scanned.commit() }
        for _ in 0..<6 {
            let start = Seqno(UInt64(scanned.random.below(Int(scanned.high) + 1)))
            // The reader has the state at the start.
            var found = scanned.state(at: start)
            let scan = try scanned.lane.scan(VBucketID(0), after: start)
            #expect(scan.end.value == scanned.high)
            let expected = scanned.state(at: scan.end)
            let outstanding = scanned.prepares
            scanned.scannedPrepares = []
            #expect(scan.outstanding == outstanding.map(\.meta.seqno))
            guard scan.isComplete else { continue }
            var rounds = 0
            while try scanned.slice(scan, &found) {
                rounds += 1
                try #require(rounds < 10_000)
                switch scanned.random.below(6) {
                case 0, 1: try scanned.commit()
                case 2, 3: try scanned.compact()
                case 4: try scanned.purge()
                default: scanned.lane.closeIdle()
                }
            }
            #expect(scan.position == scan.end)
            #expect(scanned.scannedPrepares == outstanding.filter { $0.meta.seqno > start })
            #expect(try scanned.lane.prepares(of: VBucketID(0)) == scanned.prepares)
            // Only live documents are compared: tombstones may have been purged before the scan.
            let live = { (state: [[UInt8]: TestDocument]) in
                state.filter { !$0.value.meta.isDeleted }
            }
            #expect(live(found) == live(expected))
            #expect(try scanned.lane.verify() == [])
        }
        // All holds are released.
        for _ in 0..<200 { try scanned.compact() }
        #expect(try scanned.lane.verify() == [])
        #expect(try scanned.bucket.integrity() == [])
    }

    @Test func purgeDuringScanRemovesNothing() throws {
        let scanned = try Scanned(seed: 3)
        for _ in 0..<20 { try scanned.commit() }
        let tombstones = scanned.current.values.count { $0.meta.isDeleted }
        #expect(tombstones > 0)
        var scan: VBucketScan? = try scanned.lane.scan(VBucketID(0), after: Seqno(1))
        for _ in 0..<50 { try scanned.purge() }
        #expect(scanned.current.values.count { $0.meta.isDeleted } == tombstones)
        #expect(scan?.isComplete == true)
        scan = nil
        for _ in 0..<50 { try scanned.purge() }
        #expect(scanned.current.values.count { $0.meta.isDeleted } < tombstones)
        scan = try scanned.lane.scan(VBucketID(0), after: Seqno(1))
        #expect(scan?.isComplete == false, "deletions are missing")
        #expect(try scanned.lane.scan(VBucketID(0), after: .zero).isComplete)
    }

    @Test func scanOfDroppedCopyFails() throws {
        let scanned = try Scanned(seed: 4)
        for _ in 0..<10 { try scanned.commit() }
        let scan = try scanned.lane.scan(VBucketID(0), after: .zero)
        var found: [[UInt8]: TestDocument] = [:]
        #expect(try scanned.slice(scan, &found))
        try scanned.lane.drop(VBucketID(0))
        let error = #expect(throws: StorageError.self) { _ = try scanned.slice(scan, &found) }
        #expect(error?.code == .gone)
        let other = try scanned.lane.scan(VBucketID(0), after: .zero)
        #expect(try !scanned.slice(other, &found))
        try scanned.store.flush()
        let flushed = #expect(throws: StorageError.self) { _ = try scanned.slice(other, &found) }
        #expect(flushed?.code == .gone)
    }

    @Test func scanOverTimeEndsSliceAndContinues() throws {
        let scanned = try Scanned(seed: 5)
        for _ in 0..<10 { try scanned.commit() }
        let scan = try scanned.lane.scan(VBucketID(0), after: .zero)
        var (seen, slices) = (0, 0)
        while try scan.readSlice(
            isOverTime: { true },
            isNeeded: { _, _ in true },
            prepare: { _ in },
            visit: { _, _, _ in seen += 1 }
        ) == .more {
            slices += 1
        }
        #expect(seen == scanned.history.count)
        #expect(slices > 3, "one block per slice")
    }
}
