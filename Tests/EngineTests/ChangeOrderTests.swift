import Bytes
import Engine
import Testing
import Vocabulary

/// A vBucket, the disk a flusher would keep for it, and what both should hold.
private final class Flushed {
    struct Version: Equatable {
        let seqno: UInt64
        let cas: UInt64
        let value: [UInt8]
        let isDeleted: Bool
    }

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    /// The newest version of each key.
    var model: [[UInt8]: Version] = [:]
    /// What the commits so far brought to disk.
    var disk: [[UInt8]: Version] = [:]
    var superseded: [UInt64] = []
    /// The commit under way, and the model at its boundary.
    var drain: VBucketCore.Drain?
    var modelAtBoundary: [[UInt8]: Version] = [:]
    var boundaries = 0

    init() throws {
        bucket = stage.bucket()
        vBucket = try #require(bucket[3])
    }

    func set(_ number: Int, value: [UInt8]) {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        stage.nanoseconds += 1_000
        let outcome = viewing(bytes) { key in
            viewing(value) { value in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { $0.store(request, stage.turn) }
            }
        }
        guard case .done(let stored) = outcome else {
            Issue.record("a set came to \(outcome)")
            return
        }
        model[bytes] = Version(
            seqno: stored.seqno.value,
            cas: stored.cas.value,
            value: value,
            isDeleted: false
        )
    }

    func delete(_ number: Int) {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        let outcome = viewing(bytes) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
        }
        let exists = model[bytes].map { !$0.isDeleted } ?? false
        guard case .done(let stored) = outcome else {
            #expect(!exists)
            return
        }
        #expect(exists)
        model[bytes] = Version(
            seqno: stored.seqno.value,
            cas: stored.cas.value,
            value: [],
            isDeleted: true
        )
    }

    func beginCommit() {
        let drain = vBucket.withCore { $0.drain() }
        #expect(drain.boundary.value == (model.values.map(\.seqno).max() ?? 0))
        self.drain = drain
        modelAtBoundary = model
        boundaries += 1
        superseded = drain.superseded.map(\.value)
    }

    /// The commit reads its items only now, after whatever was written since it began.
    func endCommit(fails: Bool) {
        guard let drain else { return }
        self.drain = nil
        if fails {
            vBucket.withCore { $0.undrain(drain) }
            return
        }
        var replaced: [UInt64] = []
        var last: UInt64 = 0
        for entry in drain.entries {
            let item = vBucket.withCore { _ in entry.item }
            let version = Version(
                seqno: item.seqno.value,
                cas: item.cas.value,
                value: item.value.bytes,
                isDeleted: item.isDeleted
            )
            #expect(version.seqno > last)
            last = version.seqno
            if let old = disk.updateValue(version, forKey: item.key.bytes) {
                replaced.append(old.seqno)
            }
        }
        #expect(disk == modelAtBoundary, "the disk is what the vBucket was at the boundary")
        #expect(superseded.sorted() == replaced.sorted(), "each dead version is told once")
        vBucket.withCore { $0.persisted(through: drain.boundary) }
    }

    func expectExactAccount() {
        let (recount, owned) = vBucket.withCore { ($0.recount(), $0.checkpoint.ownedBytes) }
        #expect(bucket.account.bytes == UInt64(recount))
        #expect(owned >= 0)
    }
}

@Suite struct ChangeOrderTests {
    /// Invariant P1 of the storage design, in any interleaving.
    @Test(arguments: 1...80)
    func diskEqualsVBucketAtCommittedBoundary(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let flushed = try Flushed()
        let keys = Int.random(in: 1...400, using: &random)
        let writes = Int.random(in: 60...97, using: &random)
        for step in 0..<3_000 {
            let dice = Int.random(in: 0..<100, using: &random)
            if dice < writes {
                let number = Int.random(in: 0..<keys, using: &random)
                let size = Int.random(in: 0..<200, using: &random)
                flushed.set(number, value: [UInt8](repeating: UInt8(step & 0xff), count: size))
            } else if dice < writes + 2 {
                flushed.delete(Int.random(in: 0..<keys, using: &random))
            } else if flushed.drain == nil {
                flushed.beginCommit()
            } else {
                flushed.endCommit(fails: Int.random(in: 0..<4, using: &random) == 0)
            }
            if step % 50 == 0 { flushed.expectExactAccount() }
        }
        flushed.endCommit(fails: false)
        flushed.beginCommit()
        flushed.endCommit(fails: false)
        #expect(flushed.disk == flushed.model)
        #expect(flushed.boundaries > 3)
        let (isDrained, bytes) = flushed.vBucket.withCore {
            ($0.checkpoint.isDrained, $0.checkpoint.bytes)
        }
        #expect(isDrained)
        #expect(bytes == 0, "a drained vBucket keeps no change order")
        flushed.expectExactAccount()
        let account = flushed.bucket.account
        flushed.vBucket.withCore { $0.removeAll() }
        #expect(account.bytes == 0)
    }

    @Test func onlyFirstChangeAfterCompletedDrainWakesFlusher() throws {
        let stage = Stage()
        let bucket = stage.bucket()
        let vBucket = try #require(bucket[0])
        func set() -> Bool {
            stage.store(vBucket, key(1), [1]).map(\.wakesFlusher) ?? false
        }
        #expect(set())
        #expect(!set())
        let drain = vBucket.withCore { $0.drain() }
        #expect(!set(), "the commit under way will look again when it is done")
        vBucket.withCore { $0.persisted(through: drain.boundary) }
        #expect(!set())
        let last = vBucket.withCore { $0.drain() }
        vBucket.withCore { $0.persisted(through: last.boundary) }
        #expect(set())
    }

    @Test func expiryByReadDefersWakeOfFlusherToNextChange() throws {
        let stage = Stage()
        let bucket = stage.bucket()
        let vBucket = try #require(bucket[0])
        _ = stage.store(vBucket, key(1), [1], expiry: stage.seconds + 1)
        let drain = vBucket.withCore { $0.drain() }
        vBucket.withCore { $0.persisted(through: drain.boundary) }
        stage.seconds += 2
        let hash = stage.hash(of: key(1))
        viewing(key(1)) { key in
            vBucket.withCore { core in
                guard case .refused(.notFound) = core.get(key, hash: hash, stage.turn) else {
                    Issue.record("an expired document was found")
                    return
                }
            }
        }
        let isDrained = vBucket.withCore { $0.checkpoint.isDrained }
        #expect(!isDrained)
        #expect(stage.store(vBucket, key(2), [1])?.wakesFlusher == true)
        #expect(stage.store(vBucket, key(3), [1])?.wakesFlusher == false)
    }

    /// With the flusher stuck, a hot key must not eat the quota: 8 MB would be 8 bytes a write.
    @Test func hotKeyWithStalledFlusherUsesBoundedMemory() throws {
        let stage = Stage()
        let bucket = stage.bucket()
        let vBucket = try #require(bucket[0])
        for number in 0..<100 { _ = stage.store(vBucket, key(number), [1]) }
        let drain = vBucket.withCore { $0.drain() }
        let before = bucket.account.bytes
        let value = [UInt8](repeating: 7, count: 100)
        for _ in 0..<1_000_000 { _ = stage.store(vBucket, key(1), value) }
        #expect(bucket.account.bytes < before + 8_000)
        // The commit fails, again and again: each boundary may pin one version, no more.
        vBucket.withCore { $0.undrain(drain) }
        for _ in 0..<50 {
            let drain = vBucket.withCore { $0.drain() }
            #expect(drain.entries.count == 100)
            for _ in 0..<1_000 { _ = stage.store(vBucket, key(1), value) }
            vBucket.withCore { $0.undrain(drain) }
        }
        #expect(bucket.account.bytes < before + 70_000)
        let recount = vBucket.withCore { $0.recount() }
        #expect(bucket.account.bytes == UInt64(recount))
        let last = vBucket.withCore { $0.drain() }
        vBucket.withCore { $0.persisted(through: last.boundary) }
        let owned = vBucket.withCore { $0.checkpoint.ownedBytes }
        #expect(owned == 0)
    }

    @Test func ephemeralBucketStoresNoChangeOrder() throws {
        let stage = Stage()
        let bucket = stage.bucket(.ephemeral)
        let vBucket = try #require(bucket[0])
        for number in 0..<1_000 { _ = stage.store(vBucket, key(number % 10), [1, 2, 3]) }
        let (bytes, high, durable) = vBucket.withCore {
            ($0.checkpoint.bytes, $0.highSeqno, $0.durableSeqno)
        }
        #expect(bytes == 0)
        #expect(high.value == 1_000)
        #expect(durable == high)
    }
}
