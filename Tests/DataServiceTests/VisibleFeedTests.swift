import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary
import Wire

/// Durable writes in a visible-only feed, and the endings of feeds.
@Suite struct VisibleFeedTests {
    let base = FeedTests()

    private var world: TestWorld { base.world }

    private func write(
        _ key: String,
        _ bucket: OpenBucket,
        _ level: DurabilityLevel? = nil
    ) -> Seqno? {
        base.write(key, "value of \(key)", in: bucket, level: level)
    }

    // MARK: Durable writes

    @Test(arguments: [false, true])
    func visibleOnlyFeedOmitsPreparesAndAborts(_ isFromDisk: Bool) throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let aborted = write("b", bucket, .majority)
        let committed = write("c", bucket, .majority)
        let undecided = write("d", bucket, .majority)
        try base.complete(committed, in: bucket, commits: true)
        try base.complete(aborted, in: bucket, commits: false)
        #expect(base.highs(bucket) == [6, 5], "the commit is the newest visible change")
        if isFromDisk { base.eject(bucket) }
        let reader = base.reader(bucket)
        base.follow(reader)
        #expect(
            reader.events == [.snapshot(0, 5), .change("a", 1), .change("c", 5), .advanced(6)]
        )
        // An undecided prepare does not block the feed, and its commit is a change.
        _ = write("e", bucket)
        try base.complete(undecided, in: bucket, commits: true)
        base.follow(reader)
        #expect(
            reader.events.suffix(3) == [.snapshot(6, 8), .change("e", 7), .change("d", 8)]
        )
        let copy = base.reader(bucket, isReplication: true)
        base.follow(copy)
        #expect(copy.events.first == .snapshot(0, 8) && copy.last == 8)
    }

    @Test func replicationFeedIncludesPreparesAndAborts() throws {
        let bucket = try base.open()
        let copy = base.reader(bucket, isReplication: true)
        copy.read()
        let prepare = write("a", bucket, .majority)
        copy.read()
        try base.complete(prepare, in: bucket, commits: false)
        copy.read()
        #expect(
            copy.events == [.snapshot(0, 1), .prepare(1), .snapshot(1, 2), .abort(2)]
        )
    }

    @Test func invisibleChangesAloneAdvanceFeedWithoutSnapshot() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let reader = base.reader(bucket)
        reader.read()
        for number in 0..<3 {
            let prepare = write("b\(number)", bucket, .majority)
            try base.complete(prepare, in: bucket, commits: false)
            reader.read()
        }
        #expect(reader.last == 7)
        let kinds = reader.events.dropFirst(2).allSatisfy { event in
            if case .advanced = event { true } else { false }
        }
        #expect(kinds, "every announced snapshot has a change")
        #expect(base.highs(bucket) == [7, 1])
    }

    @Test(arguments: [false, true])
    func oneShotFeedEndsAfterInvisibleLastSeqnos(_ isFromDisk: Bool) throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let prepare = write("b", bucket, .majority)
        try base.complete(prepare, in: bucket, commits: false)
        if isFromDisk { base.eject(bucket) }
        let reader = base.reader(bucket, end: Seqno(3))
        base.follow(reader)
        #expect(reader.events.last == .end(.finished) && reader.isOver)
        #expect(Array(reader.documents.keys) == ["a"])
        // From a position after which nothing is visible.
        let rest = base.reader(bucket, from: 1, uuid: reader.uuid, end: Seqno(3))
        base.follow(rest)
        #expect(rest.events == [.end(.finished)])
    }

    /// Another node may have acknowledged changes after the end of the lease.
    @Test func activeSeqnosWithoutLeaseAreInvalid() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let id = VBucketID(0)
        let uuid = bucket.engine[0]?.withCore { $0.uuid }
        func read() -> (isValid: Bool, highs: [UInt64], histories: [VBucketUUID?]) {
            var (highs, histories): ([UInt64], [VBucketUUID?]) = ([], [])
            let isValid = world.service.readServedHighs(of: [id], in: bucket) { _, high, history in
                highs.append(high.value)
                histories.append(history)
            }
            return (isValid, highs, histories)
        }
        let now = world.time.monotonicNanoseconds()
        world.service.setLease(endNanoseconds: now + 1_000_000_000)
        let served = read()
        #expect(served.isValid && served.highs == [1] && served.histories == [uuid])
        world.jump(milliseconds: 1_000)
        #expect(!read().isValid)
        world.service.setLease(endNanoseconds: .max)
        #expect(read().isValid)
    }

    @Test func highVisibleIsCorrectAfterRestart() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        _ = write("b", bucket)
        let prepare = write("c", bucket, .majority)
        try base.complete(prepare, in: bucket, commits: false)
        _ = write("d", bucket, .majority)
        world.pass(milliseconds: 3_000)
        #expect(base.highs(bucket) == [5, 2])
        #expect(world.stop())
        let next = TestWorld(directory: world.directory)
        try next.service.open(TestWorld.settings("guests", .persistent, vBuckets: 1))
        let again = try #require(next.service.bucket(named: "guests"))
        next.pass(milliseconds: 1_000)
        // The prepare is inherited, and was committed: this copy is a majority.
        let high = try #require(again.engine[0]?.withCore { $0.highSeqno })
        let visible = try #require(again.highVisible(VBucketID(0)))
        let expected: UInt64 = high.value == 5 ? 2 : high.value
        #expect(visible.value == expected)
        #expect(next.stop())
    }

    // MARK: Opening

    @Test func openingRequestsAreAnsweredByStreamRules() throws {
        let bucket = try base.open()
        for number in 0..<10 { _ = write("key\(number)", bucket) }
        let uuid = base.reader(bucket).uuid
        #expect(base.reader(bucket, from: 10, uuid: uuid).refusal == nil)
        #expect(base.reader(bucket, from: 11, uuid: uuid).refusal == "roll back to 10")
        #expect(base.reader(bucket, from: 5, uuid: VBucketUUID(77)).refusal == "roll back to 0")
        #expect(base.reader(bucket, from: 5, end: Seqno(4)).refusal == "out of range")
        let missing = FeedReader(bucket, 9, world.service)
        #expect(missing.refusal == "no vBucket")
        let refused = FeedReader(bucket, 0, admits: { _ in false }, world.service)
        #expect(refused.refusal == "not admitted")
    }

    @Test func readerBelowPurgedTombstonesRollsBackToZero() throws {
        let bucket = try base.open(.ephemeral)
        for number in 0..<4 { _ = write("key\(number)", bucket) }
        _ = base.write("key0", "", in: bucket, deletes: true)
        let reader = base.reader(bucket, end: Seqno(1))
        reader.read()
        let uuid = reader.uuid
        let slow = base.reader(bucket, from: 2, uuid: uuid)
        _ = write("last", bucket)
        bucket.engine[0]?.withCore { core in
            _ = core.dropCursors()
            _ = core.forgetTombstones(from: 0, groupsMax: .max / 2, deletedBefore: .max)
        }
        slow.read()
        #expect(slow.events == [.purged] && slow.isOver)
        #expect(base.reader(bucket, from: 2, uuid: uuid).refusal == "roll back to 0")
        let fresh = base.reader(bucket)
        fresh.read()
        #expect(fresh.documents.count == 4 && fresh.last == 6)
    }

    // MARK: Endings

    @Test(arguments: [true, false])
    func feedEndsWithItsBucket(_ isFlushed: Bool) throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let reader = base.reader(bucket)
        reader.read()
        let wakes = reader.wakes
        if isFlushed {
            try world.service.flush("guests")
        } else {
            try world.service.delete("guests")
        }
        #expect(reader.wakes > wakes, "the feed wakes its consumer")
        world.settle()
        reader.read()
        #expect(reader.events.last == .end(.stateChanged) && reader.isOver)
        #expect(bucket.highVisible(VBucketID(0)) == nil || isFlushed)
    }

    @Test func feedEndsWhenItsAdmissionFails() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let isAdmitted = Guarded(true)
        let reader = FeedReader(
            bucket,
            0,
            admits: { _ in isAdmitted.withLock { $0 } },
            world.service
        )
        reader.read()
        isAdmitted.withLock { $0 = false }
        _ = write("b", bucket)
        reader.read()
        #expect(reader.events.last == .end(.stateChanged))
        #expect(!reader.events.contains(.change("b", 2)))
    }

    @Test func feedEndsWhenHistoryChangesUUID() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let reader = base.reader(bucket)
        reader.read()
        bucket.engine[0]?.withCore { $0.beginHistory(VBucketUUID(99)) }
        _ = write("b", bucket)
        reader.read()
        #expect(reader.events.last == .end(.stateChanged))
        let next = base.reader(bucket, from: 1, uuid: reader.uuid)
        next.read()
        #expect(next.uuid == VBucketUUID(99) && next.documents.count == 1)
    }

    @Test func closedFeedReleasesCursorAndScan() throws {
        let bucket = try base.open(.ephemeral)
        for number in 0..<10 { _ = write("key\(number)", bucket) }
        let reader = base.reader(bucket)
        reader.read(credit: 100, steps: 3)
        reader.close()
        reader.read()
        #expect(reader.isOver && !reader.events.contains(.end(.closed)))
        #expect(bucket.engine.account.checkpointBytes == 0)
    }

    // MARK: Replicas

    private func replica(_ type: BucketType) throws -> (OpenBucket, VBucket) {
        var settings = TestWorld.settings("guests", type, vBuckets: 1)
        settings.replicas = 1
        let row = VBucketAssignment(
            fence: 1,
            stage: 1,
            chain: [NodeNumber(2), NodeNumber(1)],
            isConfirmed: true,
            copies: 2
        )
        let map = BucketAssignment(
            name: "guests",
            uuid: settings.uuid,
            index: 1,
            vBuckets: [row]
        )
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
        let bucket = try #require(world.service.bucket(named: "guests"))
        return (bucket, try #require(bucket.engine[0]))
    }

    private func apply(_ seqno: UInt64, _ key: String, _ bucket: OpenBucket, _ vBucket: VBucket) {
        let bytes = Array(key.utf8)
        let value = Array("value \(seqno)".utf8)
        let turn = world.turn
        let isApplied = bytes.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                let (key, value) = (ByteView(key), ByteView(value))
                let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                let hash = bucket.engine.hash(key)
                return vBucket.withCore { core in
                    if case .applied = core.apply(meta, key: key, hash: hash, value: value, turn) {
                        return true
                    }
                    return false
                }
            }
        }
        #expect(isApplied)
        bucket.recordChange(VBucketID(0))
    }

    private func begin(_ start: UInt64, _ end: UInt64, _ vBucket: VBucket) {
        let range = SnapshotRange(start: Seqno(start), end: Seqno(end))
        #expect(vBucket.withCore { $0.beginSnapshot(range) })
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func replicaFeedEndsAtLastCompleteSnapshot(_ type: BucketType) throws {
        let (bucket, vBucket) = try replica(type)
        begin(0, 2, vBucket)
        apply(1, "a", bucket, vBucket)
        apply(2, "b", bucket, vBucket)
        let reader = base.reader(bucket)
        reader.read(steps: 1)
        begin(2, 4, vBucket)
        apply(3, "a", bucket, vBucket)
        base.follow(reader)
        #expect(reader.events == [.snapshot(0, 2), .change("a", 1), .change("b", 2)])
        #expect(bucket.highVisible(VBucketID(0)) == Seqno(2))
        apply(4, "c", bucket, vBucket)
        begin(4, 6, vBucket)
        base.follow(reader)
        #expect(
            reader.events.suffix(3) == [.snapshot(2, 4), .change("a", 3), .change("c", 4)]
        )
    }

    @Test func replicaFeedReadsDiskBesideOpenSnapshot() throws {
        let (bucket, vBucket) = try replica(.persistent)
        begin(0, 20, vBucket)
        for seqno in 1...20 as ClosedRange<UInt64> { apply(seqno, "key\(seqno)", bucket, vBucket) }
        base.eject(bucket)
        begin(20, 24, vBucket)
        apply(21, "key1", bucket, vBucket)
        let reader = base.reader(bucket)
        base.follow(reader)
        #expect(reader.events.first == .snapshot(0, 20) && reader.last == 20)
        #expect(reader.documents["key1"] == Array("value 1".utf8), "the version of the snapshot")
        // Commits occurred inside the snapshot: one at its end is made for the next reader.
        let other = base.reader(bucket)
        base.follow(other)
        #expect(other.events.isEmpty)
        for seqno in 22...24 as ClosedRange<UInt64> { apply(seqno, "x\(seqno)", bucket, vBucket) }
        begin(24, 30, vBucket)
        apply(25, "key2", bucket, vBucket)
        base.follow(reader, other)
        #expect(other.last == 24 && other.documents == reader.documents)
        #expect(other.documents["key2"] == Array("value 2".utf8))
    }
}
