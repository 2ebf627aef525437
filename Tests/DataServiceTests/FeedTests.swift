import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary
import Wire

/// One vBucket's feed over a real engine and real files.
@Suite struct FeedTests {
    let world = TestWorld()

    func open(_ type: BucketType = .persistent) throws -> OpenBucket {
        try world.service.open(TestWorld.settings("guests", type, vBuckets: 1))
        return try #require(world.service.bucket(named: "guests"))
    }

    func reader(
        _ bucket: OpenBucket,
        from start: UInt64 = 0,
        uuid: VBucketUUID = VBucketUUID(0),
        end: Seqno = FeedReader.forever,
        flags: DCPStreamRequest.Flags = [],
        isReplication: Bool = false
    ) -> FeedReader {
        FeedReader(
            bucket,
            0,
            from: start,
            uuid: uuid,
            end: end,
            flags: flags,
            isReplication: isReplication,
            world.service
        )
    }

    /// Runs lanes and reads, until neither has work.
    func follow(_ readers: FeedReader..., credit: Int = .max) {
        for _ in 0..<60 {
            world.pass(milliseconds: 100)
            for reader in readers { reader.read(credit: credit) }
        }
    }

    // MARK: Documents

    /// Writes, deletes, or prepares a write; nil if the write was not made.
    func write(
        _ key: String,
        _ value: String,
        in bucket: OpenBucket,
        level: DurabilityLevel? = nil,
        deletes: Bool = false
    ) -> Seqno? {
        if let level { return prepare(key, value, in: bucket, level) }
        let content = Array(value.utf8)
        let action: DocumentAction =
            deletes
            ? .delete()
            : .write(value: content, flags: 0, expiry: 0, preservesExpiry: false)
        // An ejected document is fetched first.
        let isDone = Guarded(false)
        world.service.perform(action, on: Array(key.utf8), inBucket: bucket.name) { answer in
            switch answer {
            case .written, .refused(.notFound): isDone.withLock { $0 = true }
            default: Issue.record("a write of \(key) ended with \(answer)")
            }
        }
        world.settle()
        #expect(isDone.withLock { $0 })
        return bucket.engine[0]?.withCore { $0.highSeqno }
    }

    private func prepare(
        _ key: String,
        _ value: String,
        in bucket: OpenBucket,
        _ level: DurabilityLevel
    ) -> Seqno? {
        var turn = world.turn
        turn.durability = level
        let (bytes, content) = (Array(key.utf8), Array(value.utf8))
        let outcome: WriteResult? = bytes.withUnsafeBytes { key in
            content.withUnsafeBytes { value in
                let (key, value) = (ByteView(key), ByteView(value))
                let request = StoreRequest(
                    key: key,
                    hash: bucket.engine.hash(key),
                    value: value,
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return bucket.engine[0]?.withCore { $0.store(request, turn) }
            }
        }
        bucket.recordChange(VBucketID(0))
        switch outcome {
        case .prepared(let stored): return stored.seqno
        // The key was fully ejected, so nothing is written.
        case .wait: return nil
        default:
            Issue.record("a prepare of \(key) ended with \(String(describing: outcome))")
            return nil
        }
    }

    func complete(_ prepare: Seqno?, in bucket: OpenBucket, commits: Bool) throws {
        let prepare = try #require(prepare)
        let turn = world.turn
        let outcome = bucket.engine[0]?.withCore { core in
            let fence = core.ownership.fence
            return commits
                ? core.commit(prepare, fence: fence, turn) : core.abort(prepare, fence: fence, turn)
        }
        switch outcome {
        case .done: break
        default: Issue.record("prepare \(prepare) ended with \(String(describing: outcome))")
        }
        bucket.recordChange(VBucketID(0))
    }

    func highs(_ bucket: OpenBucket) -> [UInt64?] {
        [
            bucket.engine[0]?.withCore { $0.highSeqno.value },
            bucket.highVisible(VBucketID(0))?.value,
        ]
    }

    /// Persists everything and ejects all values.
    func eject(_ bucket: OpenBucket) {
        world.pass(milliseconds: 3_000)
        #expect(bucket.engine[0]?.withCore { $0.persistedSeqno == $0.highSeqno } == true)
        for _ in 0..<3 { world.ejectAll(from: "guests") }
        #expect(bucket.engine[0]?.withCore { $0.ejectedCount > 0 } == true)
    }

    // MARK: From memory and disk

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func feedReadsMemorySnapshotBySnapshot(_ type: BucketType) throws {
        let bucket = try open(type)
        for key in ["a", "b", "a"] { _ = write(key, "1", in: bucket) }
        let reader = reader(bucket)
        reader.read()
        #expect(reader.events == [.snapshot(0, 3), .change("b", 2), .change("a", 3)])
        let wakes = reader.wakes
        _ = write("c", "2", in: bucket)
        _ = write("b", "", in: bucket, deletes: true)
        #expect(reader.wakes > wakes, "the feed wakes its consumer")
        reader.read()
        #expect(
            reader.events.suffix(3) == [.snapshot(3, 5), .change("c", 4), .deletion("b", 5)]
        )
        #expect(highs(bucket) == [5, 5])
    }

    /// A consumer that keeps a set of feeds takes a wake between two steps for a part of its work: the
    /// step behind it has to find the change.
    @Test(arguments: 1...8, [true, false])
    func changeBetweenTwoStepsIsFoundByTheNextOne(_ steps: Int, _ isReplication: Bool) throws {
        let bucket = try open()
        _ = write("a", "1", in: bucket)
        let reader = reader(bucket, isReplication: isReplication)
        for _ in 0..<steps { reader.read(steps: 1) }
        _ = write("b", "2", in: bucket)
        reader.read()
        #expect(reader.last == 2)
    }

    @Test func ejectedValuesAreReadFromDiskThenMemoryWithoutGap() throws {
        let bucket = try open()
        for number in 0..<300 { _ = write("key\(number % 200)", "value \(number)", in: bucket) }
        eject(bucket)
        let reader = reader(bucket)
        reader.read()
        _ = write("key7", "while the disk is read", in: bucket)
        follow(reader)
        #expect(reader.events.first == .snapshot(0, 300))
        #expect(reader.documents.count == 200 && reader.last == 301)
        #expect(reader.documents["key7"] == Array("while the disk is read".utf8))
        #expect(reader.documents["key50"] == Array("value 250".utf8))
    }

    /// Memory, disk, memory: at the end of each snapshot a reader has the documents of that seqno.
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func switchBetweenMemoryAndDiskHasNoGapAndNoDuplicate(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let bucket = try open()
        var history: [[String: [UInt8]]] = [[:]]
        var prepares: [(Seqno, String, String)] = []
        let readers = (0..<3).map { _ in reader(bucket) }
        var drops = 0
        for round in 0..<400 {
            let key = "key\(Int.random(in: 0..<40, using: &random))"
            let value = String(repeating: "\(round)", count: Int.random(in: 1...60, using: &random))
            var state = history[history.count - 1]
            let isPrepared = prepares.contains { $0.1 == key }
            switch Int.random(in: 0..<12, using: &random) {
            case 0 where !isPrepared:
                if let seqno = write(key, value, in: bucket, level: .majority) {
                    prepares.append((seqno, key, value))
                }
            case 1 where !prepares.isEmpty:
                let (prepare, key, value) = prepares.removeFirst()
                let commits = Bool.random(using: &random)
                try complete(prepare, in: bucket, commits: commits)
                if commits { state[key] = Array(value.utf8) }
            case 2 where !isPrepared && state[key] != nil:
                if write(key, "", in: bucket, deletes: true) != nil { state[key] = nil }
            case 3:
                world.pass(milliseconds: 400)
                world.ejectAll(from: "guests")
                continue
            case 4:
                drops += bucket.dropCursors()
                continue
            case _ where !isPrepared:
                if write(key, value, in: bucket) != nil { state[key] = Array(value.utf8) }
            default: continue
            }
            while history.count <= Int(highs(bucket)[0] ?? 0) {
                history.append(history[history.count - 1])
            }
            history[history.count - 1] = state
            for reader in readers where Int.random(in: 0..<3, using: &random) == 0 {
                world.settle()
                reader.read(credit: 300, steps: Int.random(in: 1...8, using: &random))
            }
        }
        for _ in 0..<100 {
            world.pass(milliseconds: 100)
            for reader in readers {
                reader.read(credit: 4_000)
                if reader.last == reader.snapshot.end, reader.last < history.count {
                    #expect(reader.documents == history[Int(reader.last)])
                }
            }
        }
        #expect(drops > 3)
        for reader in readers {
            #expect(reader.last == UInt64(history.count - 1))
            #expect(reader.documents == history[history.count - 1])
            #expect(!reader.events.contains { if case .prepare = $0 { true } else { false } })
        }
    }

    @Test func feedWithDroppedCursorContinuesFromDisk() throws {
        let bucket = try open()
        let long = String(repeating: "x", count: 200)
        for number in 0..<100 { _ = write("key\(number)", long, in: bucket) }
        let reader = reader(bucket)
        reader.read(credit: 2_000, steps: 4)
        #expect(reader.last > 0 && reader.last < 100)
        let position = reader.last
        world.pass(milliseconds: 1_000)
        #expect(bucket.dropCursors() == 1)
        #expect(
            bucket.engine.account.checkpointBytes == 0,
            "memory keeps nothing for a slow reader"
        )
        for number in 0..<50 { _ = write("key\(number)", long, in: bucket) }
        eject(bucket)
        follow(reader)
        #expect(reader.events.contains(.snapshot(position, 150)))
        #expect(reader.last == 150 && reader.documents.count == 100)
    }

    // MARK: From disk only

    /// Memory has a newer version, which is not on disk yet.
    @Test func diskOnlyFeedSendsPersistedChangesAndEnds() throws {
        let bucket = try open()
        for key in ["a", "b", "c"] { _ = write(key, "1", in: bucket) }
        _ = write("c", "", in: bucket, deletes: true)
        world.pass(milliseconds: 3_000)
        _ = write("a", "2", in: bucket)
        let reader = reader(bucket, flags: .diskOnly)
        for _ in 0..<20 where !reader.isOver {
            reader.read()
            world.settle()
        }
        #expect(
            reader.events == [
                .snapshot(0, 4), .change("a", 1), .change("b", 2), .deletion("c", 4),
                .end(.finished),
            ]
        )
        #expect(reader.documents["a"] == Array("1".utf8))
        let again = self.reader(bucket, from: 4, uuid: reader.uuid, flags: .diskOnly)
        again.read()
        #expect(again.events == [.end(.finished)])
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func diskOnlyFeedOfEmptyVBucketEnds(_ type: BucketType) throws {
        let reader = reader(try open(type), flags: .diskOnly)
        reader.read()
        #expect(reader.events == [.end(.finished)])
    }

    @Test func diskOnlyFeedOfEphemeralBucketEndsAtLatestChange() throws {
        let bucket = try open(.ephemeral)
        _ = write("a", "1", in: bucket)
        let reader = reader(bucket, flags: .diskOnly)
        reader.read()
        #expect(reader.events == [.snapshot(0, 1), .change("a", 1), .end(.finished)])
    }

    /// The consumer has changes that are in memory only: the feed waits until they are on disk.
    @Test func diskOnlyFeedFromChangesInMemoryEnds() throws {
        let bucket = try open()
        for key in ["a", "b"] { _ = write(key, "1", in: bucket) }
        let uuid = bucket.engine[0]?.withCore { $0.uuid }
        let reader = reader(bucket, from: 2, uuid: try #require(uuid), flags: .diskOnly)
        reader.read()
        #expect(reader.events.isEmpty)
        follow(reader)
        #expect(reader.events == [.end(.finished)])
    }

    @Test func creditBoundsEachFeedStep() throws {
        let bucket = try open()
        for number in 0..<200 {
            _ = write("key\(number)", String(repeating: "x", count: 500), in: bucket)
        }
        let reader = reader(bucket)
        reader.read(credit: 0)
        #expect(reader.events.isEmpty, "nothing is encoded without credit")
        reader.read(credit: 2_000, steps: 10)
        // One change exceeds the credit, since changes are not split.
        #expect(reader.last > 0 && reader.last < 200 && reader.stepMax < 2_000 + 700)
        eject(bucket)
        let other = self.reader(bucket)
        for _ in 0..<400 {
            other.read(credit: 2_000)
            world.settle()
        }
        #expect(other.last == 200 && other.documents.count == 200)
        // From disk, a block of 32 KiB exceeds it.
        #expect(other.stepMax < 40_000)
    }
}
