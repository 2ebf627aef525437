import Bytes
import Engine
import Testing
import Vocabulary

/// A vBucket with full eviction, and what the disk has of it, by seqno.
private final class Shelf {
    struct Version {
        let number: Int
        let meta: DocumentMeta
        let valueCount: Int
    }

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var disk: [Version] = []

    init() throws {
        bucket = stage.bucket(policy: .fullEviction)
        vBucket = try #require(bucket[1])
    }

    /// Stores a document that lives for some seconds, or for ever.
    func set(_ number: Int, seconds: UInt32 = 0, bytes: Int = 100) {
        let expiry = seconds == 0 ? 0 : stage.seconds + seconds
        let value = [UInt8](repeating: 1, count: bytes)
        #expect(stage.store(vBucket, key(number), value, expiry: expiry) != nil)
    }

    func delete(_ number: Int) {
        let hash = stage.hash(of: key(number))
        _ = viewing(key(number)) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
        }
    }

    /// Everything goes to disk, and then out of memory.
    func putAway() {
        vBucket.withCore { core in
            let drain = core.drain()
            for entry in drain.entries where entry.item.level == nil {
                let text = String(decoding: entry.item.key.bytes.dropFirst(4), as: UTF8.self)
                let version = Version(
                    number: Int(text) ?? -1,
                    meta: entry.item.meta,
                    valueCount: entry.item.valueCount
                )
                disk.append(version)
            }
            core.persisted(through: drain.boundary)
            _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, stage.turn)
        }
    }

    func begin() -> StubScan? {
        let turn = stage.turn
        return vBucket.withCore { $0.beginStubScan(turn) }
    }

    /// Shows `scan` what is on disk; how many documents expired.
    func show(to scan: StubScan) -> Int {
        let turn = stage.turn
        return disk.count { version in
            viewing(key(version.number)) { key in
                vBucket.withCore { core in
                    guard core.isUnderWay(scan) else { return false }
                    let (meta, count) = (version.meta, version.valueCount)
                    return core.expireStub(meta, key: key, valueCount: count, turn) == .expired
                }
            }
        }
    }

    /// A whole scan; nil where nothing is due.
    func expireStubs() -> Int? {
        guard let scan = begin() else { return nil }
        return show(to: scan)
    }

    /// Live ones, tombstones, those not in memory, stubs.
    var counts: [Int] {
        vBucket.withCore {
            [$0.liveCount, $0.tombstoneCount, $0.ejectedCount, $0.table.stubCount]
        }
    }

    func expectExactAccount() {
        let recount = vBucket.withCore { $0.recount() }
        #expect(bucket.account.bytes == UInt64(recount))
    }
}

@Suite struct StubExpiryTests {
    @Test func stubsExpireAtTheirExpiryTime() throws {
        let shelf = try Shelf()
        for number in 0..<100 { shelf.set(number, seconds: 100, bytes: number % 2) }
        for number in 100..<200 { shelf.set(number, seconds: 300) }
        for number in 200..<300 { shelf.set(number) }
        for number in 300..<310 { shelf.set(number, seconds: 50) }
        for number in 300..<310 { shelf.delete(number) }
        shelf.putAway()
        #expect(shelf.counts == [300, 10, 300, 310])
        #expect(shelf.expireStubs() == nil)
        shelf.stage.seconds += 99
        #expect(shelf.expireStubs() == nil, "a tombstone's time is another")
        shelf.stage.seconds += 1
        #expect(shelf.expireStubs() == 100)
        #expect(shelf.counts == [200, 110, 200, 210])
        shelf.expectExactAccount()
        let tombstone: DocumentMeta? = viewing(key(7)) { key in
            let hash = shelf.stage.hash(of: key.bytes)
            return shelf.vBucket.withCore { $0.table.find(key, hash: hash)?.item.meta }
        }
        let found = try #require(tombstone)
        #expect(found.isDeleted && found.isExpired && found.revision == 2)
        #expect(found.seqno.value > 320)
        let isOwed = shelf.vBucket.withCore { $0.takePendingWakeup() }
        #expect(isOwed, "the flusher has to be told")
        shelf.stage.seconds += 199
        #expect(shelf.expireStubs() == nil)
        shelf.putAway()
        #expect(shelf.counts == [200, 110, 200, 310])
        shelf.stage.seconds += 1
        #expect(shelf.expireStubs() == 100)
        #expect(shelf.expireStubs() == nil)
        #expect(shelf.counts == [100, 210, 100, 210])
        shelf.expectExactAccount()
    }

    /// The newest version counts, whatever the disk has of older ones.
    @Test func replacedVersionOnDiskDoesNotExpireDocument() throws {
        let shelf = try Shelf()
        shelf.set(1, seconds: 10)
        shelf.set(2, seconds: 10)
        shelf.putAway()
        let (old, turn) = (shelf.disk[0].meta, shelf.stage.turn)
        let isHere = viewing(key(1)) { key in
            shelf.vBucket.withCore {
                $0.restore(old, key: key, valueCount: 100, value: nil, turn)
            }
        }
        #expect(isHere)
        shelf.set(1)
        shelf.putAway()
        shelf.stage.seconds += 10
        #expect(shelf.expireStubs() == 1)
        #expect(shelf.counts == [1, 1, 1, 1])
        #expect(shelf.expireStubs() == nil)
    }

    @Test func replicaDoesNotExpireStubsUntilItIsPromoted() throws {
        let shelf = try Shelf()
        shelf.set(1, seconds: 10)
        shelf.putAway()
        shelf.stage.seconds += 20
        shelf.vBucket.withCore { $0.become(.replica) }
        #expect(shelf.expireStubs() == nil)
        shelf.vBucket.withCore { $0.promote(VBucketUUID(9)) }
        let scan = try #require(shelf.begin())
        shelf.vBucket.withCore { $0.become(.replica) }
        #expect(shelf.show(to: scan) == 0)
        shelf.vBucket.withCore { core in
            core.abandon(scan)
            core.promote(VBucketUUID(10))
        }
        #expect(shelf.expireStubs() == 1, "what was abandoned is tried again")
    }

    /// Seqnos begin anew: what was read before is another document's.
    @Test func expiryScanFromBeforeResetChangesNothing() throws {
        let shelf = try Shelf()
        shelf.set(1, seconds: 10)
        shelf.putAway()
        shelf.stage.seconds += 20
        let scan = try #require(shelf.begin())
        shelf.vBucket.withCore { $0.reset(to: .active, uuid: VBucketUUID(9)) }
        let old = shelf.disk
        shelf.disk = []
        shelf.set(1, seconds: 1_000)
        shelf.putAway()
        #expect(shelf.disk.map(\.meta.seqno) == old.map(\.meta.seqno))
        shelf.disk = old
        #expect(shelf.show(to: scan) == 0)
        shelf.vBucket.withCore { $0.abandon(scan) }
        #expect(shelf.begin() == nil)
        #expect(shelf.counts == [1, 0, 1, 1])
    }

    /// A document's state is undecided until its prepare is completed.
    @Test func stubWithPrepareDoesNotExpire() throws {
        let shelf = try Shelf()
        shelf.set(1, seconds: 10)
        shelf.putAway()
        let (hash, turn) = (shelf.stage.hash(of: key(1)), shelf.stage.turn)
        viewing(key(1)) { key in
            viewing([2]) { value in
                shelf.vBucket.withCore { core in
                    core.become(.replica)
                    let end = Seqno(core.highSeqno.value + 1)
                    let range = SnapshotRange(start: core.highSeqno, end: end)
                    let hasBegun = core.beginSnapshot(range)
                    #expect(hasBegun)
                    var meta = DocumentMeta()
                    meta.seqno = end
                    meta.cas = CAS(turn.wallNanoseconds)
                    let outcome = core.applyPrepare(
                        meta,
                        level: .majority,
                        key: key,
                        hash: hash,
                        value: value,
                        turn
                    )
                    guard case .applied = outcome else {
                        Issue.record("a replica takes up what was prepared")
                        return
                    }
                    core.promote(VBucketUUID(9))
                }
            }
        }
        shelf.stage.seconds += 20
        #expect(shelf.expireStubs() == 0)
        #expect(shelf.counts == [1, 0, 1, 1])
        let outstanding = shelf.vBucket.withCore { $0.outstandingPrepares }
        let prepare = try #require(outstanding.first)
        let later = shelf.stage.turn
        shelf.vBucket.withCore { core in
            guard case .done = core.abort(prepare.seqno, fence: 0, later) else {
                Issue.record("an outstanding prepare can be aborted")
                return
            }
        }
        #expect(shelf.expireStubs() == 1)
    }
}
