import Bytes
import Engine
import Testing
import Vocabulary

/// A vBucket with full eviction, and the disk behind it.
private final class Stubbed {
    struct Version {
        let number: Int
        let meta: DocumentMeta
        let value: [UInt8]
    }

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var disk: [UInt64: Version] = [:]

    init() throws {
        bucket = stage.bucket(policy: .fullEviction)
        vBucket = try #require(bucket[1])
    }

    @discardableResult
    func set(_ number: Int, _ value: [UInt8] = [7]) -> UInt64? {
        stage.store(vBucket, key(number), value)?.seqno.value
    }

    @discardableResult
    func delete(_ number: Int) -> UInt64? {
        let hash = stage.hash(of: key(number))
        let outcome = viewing(key(number)) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
        }
        guard case .done(let stored) = outcome else { return nil }
        return stored.seqno.value
    }

    func persistAll() {
        vBucket.withCore { core in
            let drain = core.drain()
            for entry in drain.entries {
                let item = entry.item
                let text = String(decoding: item.key.bytes.dropFirst(4), as: UTF8.self)
                let version = Version(
                    number: Int(text) ?? -1,
                    meta: item.meta,
                    value: item.value.bytes
                )
                disk[item.seqno.value] = version
            }
            core.persisted(through: drain.boundary)
        }
    }

    func evictAll() {
        var next: UInt64? = 0
        while let place = next {
            next = vBucket.withCore {
                $0.ejectSlice(from: place, groupsMax: 50, threshold: .max, stage.turn).next
            }
        }
    }

    enum Answer: Equatable {
        case found([UInt8])
        case wouldFetch(UInt64)
        case notFound
        case other
    }

    func get(_ number: Int) -> Answer {
        let hash = stage.hash(of: key(number))
        return viewing(key(number)) { key in
            vBucket.withCore { core in
                switch core.get(key, hash: hash, stage.turn) {
                case .done(let (item, _)): .found(item.value.bytes)
                case .refused(.notFound): .notFound
                case .wait(.metadata(let seqno)): .wouldFetch(seqno.value)
                default: .other
                }
            }
        }
    }

    @discardableResult
    func restore(_ seqno: UInt64, withValue: Bool = true) -> Bool {
        guard let version = disk[seqno] else { return false }
        return viewing(key(version.number)) { key in
            viewing(version.value) { value in
                vBucket.withCore {
                    $0.restore(
                        version.meta,
                        key: key,
                        valueCount: version.value.count,
                        value: withValue ? value : nil,
                        stage.turn
                    )
                }
            }
        }
    }

    var counts: [Int] {
        vBucket.withCore {
            [$0.liveCount, $0.tombstoneCount, $0.ejectedCount, $0.table.count, $0.table.stubCount]
        }
    }

    func expectExactAccount() {
        let recount = vBucket.withCore { $0.recount() }
        #expect(bucket.account.bytes == UInt64(recount))
    }
}

@Suite struct StubTests {
    @Test func fullyEjectedDocumentUsesOnlyItsSlot() throws {
        let stubbed = try Stubbed()
        for number in 0..<20_000 { stubbed.set(number, [UInt8](repeating: 1, count: 100)) }
        stubbed.persistAll()
        stubbed.evictAll()
        #expect(stubbed.counts == [20_000, 0, 20_000, 20_000, 20_000])
        #expect(stubbed.bucket.account.bytes < 20_000 * 13)
        stubbed.expectExactAccount()
        let account = stubbed.bucket.account
        stubbed.vBucket.withCore { $0.removeAll() }
        #expect(account.bytes == 0)
    }

    /// There is no key to hash when the table grows: the bits in the stub have to do.
    @Test func stubsAreFoundAgainAfterGrowthAndSplits() throws {
        let stubbed = try Stubbed()
        var seqnos: [Int: UInt64] = [:]
        for round in 0..<5 {
            for number in round * 20_000..<(round + 1) * 20_000 {
                seqnos[number] = stubbed.set(number)
            }
            stubbed.persistAll()
            stubbed.evictAll()
        }
        #expect(stubbed.counts == [100_000, 0, 100_000, 100_000, 100_000])
        let lost = seqnos.count { stubbed.get($0.key) != .wouldFetch($0.value) }
        #expect(lost == 0)
        // Prefetching meets stubs and asks for nothing.
        for number in 0..<1_000 {
            let hash = stubbed.stage.hash(of: key(number))
            HashTable.prefetchGroup(root: stubbed.vBucket.root, hash: hash)
            let found = HashTable.prefetchItem(root: stubbed.vBucket.root, hash: hash)
            #expect(found == nil)
        }
        stubbed.expectExactAccount()
    }

    /// Purging stubs pulls back stubs and documents that had to pass a full group.
    @Test(arguments: 1...20)
    func purgedStubsLeaveNoGap(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let stubbed = try Stubbed()
        let total = Int.random(in: 30...3_000, using: &random)
        var dead: [Int: UInt64] = [:]
        for number in 0..<total { stubbed.set(number) }
        for number in 0..<total where Int.random(in: 0..<3, using: &random) > 0 {
            dead[number] = stubbed.delete(number)
        }
        stubbed.persistAll()
        stubbed.evictAll()
        // Half of what lives is fetched, so that there is some of everything.
        for number in 0..<total where number % 2 == 0 {
            if case .wouldFetch(let seqno) = stubbed.get(number) { stubbed.restore(seqno) }
        }
        let order = dead.keys.sorted().shuffled(using: &random)
        for number in order {
            let hash = stubbed.stage.hash(of: key(number))
            viewing(key(number)) { key in
                stubbed.vBucket.withCore {
                    $0.forgetPurged(key, hash: hash, seqno: Seqno(dead[number] ?? 0))
                }
            }
        }
        #expect(stubbed.counts[0...1] == [total - dead.count, 0])
        for number in 0..<total {
            switch stubbed.get(number) {
            case .found: #expect(dead[number] == nil && number % 2 == 0)
            case .wouldFetch: #expect(dead[number] == nil && number % 2 == 1)
            case .notFound: #expect(dead[number] != nil)
            case .other: Issue.record("a document is lost")
            }
        }
        stubbed.expectExactAccount()
    }

    /// Seqnos outgrow 24 bits: all stubs are written anew, with fewer hash bits.
    @Test(arguments: [24, 28, 32] as [UInt64])
    func stubsMakeRoomForLargerSeqnos(bits: UInt64) throws {
        let stubbed = try Stubbed()
        var record = stubbed.vBucket.withCore { $0.record(through: .zero, casHorizon: 0) }
        record.highSeqno = Seqno(1 << bits - 2_000)
        stubbed.vBucket.withCore {
            $0.beginWarmup(record)
            $0.endWarmup()
        }
        var seqnos: [Int: UInt64] = [:]
        for round in 0..<4 {
            for number in round * 1_000..<(round + 1) * 1_000 {
                seqnos[number] = stubbed.set(number)
            }
            stubbed.persistAll()
            stubbed.evictAll()
        }
        #expect(seqnos.values.contains { $0 >= 1 << bits })
        #expect(stubbed.counts == [4_000, 0, 4_000, 4_000, 4_000])
        let lost = seqnos.count { stubbed.get($0.key) != .wouldFetch($0.value) }
        #expect(lost == 0)
        for number in 4_000..<40_000 { stubbed.set(number) }
        let lostInGrowth = seqnos.count { stubbed.get($0.key) != .wouldFetch($0.value) }
        #expect(lostInGrowth == 0)
        stubbed.expectExactAccount()
    }

    /// Beyond 2^36 changes of one vBucket too few hash bits are left: then only values leave.
    @Test func documentsAreNotFullyEjectedWithTooFewHashBits() throws {
        let stubbed = try Stubbed()
        var record = stubbed.vBucket.withCore { $0.record(through: .zero, casHorizon: 0) }
        record.highSeqno = Seqno(1 << 36 - 11)
        stubbed.vBucket.withCore {
            $0.beginWarmup(record)
            $0.endWarmup()
        }
        for number in 0..<100 { stubbed.set(number, [UInt8](repeating: 1, count: 100)) }
        stubbed.persistAll()
        stubbed.evictAll()
        #expect(stubbed.counts == [100, 0, 100, 100, 10])
        stubbed.expectExactAccount()
    }

    /// Two numbers whose keys' hashes share the 37 bits that a stub keeps.
    private func twins(_ stage: Stage) throws -> (Int, Int) {
        var hashes = (0..<1_800_000).map { (stage.hash(of: key($0)) >> 27, $0) }
        hashes.sort { $0 < $1 }
        let pair = zip(hashes, hashes.dropFirst()).first { $0.0 == $1.0 }
        let (one, other) = try #require(pair)
        return (one.1, other.1)
    }

    @Test func collidingStubCausesFetchAndNoWrongResult() throws {
        let stubbed = try Stubbed()
        let (mine, other) = try twins(stubbed.stage)
        let seqno = try #require(stubbed.set(other, [5]))
        stubbed.persistAll()
        stubbed.evictAll()
        #expect(stubbed.get(mine) == .wouldFetch(seqno), "it may be mine")
        #expect(stubbed.set(mine) == nil, "so nothing is written before it was looked at")
        #expect(stubbed.restore(seqno, withValue: false))
        #expect(stubbed.get(mine) == .notFound)
        let second = try #require(stubbed.set(mine, [6]))
        stubbed.persistAll()
        stubbed.evictAll()
        // Both are stubs with the same bits: a command fetches until its own key is in memory.
        for (number, value) in [(mine, [UInt8(6)]), (other, [5])] {
            for _ in 0..<2 {
                guard case .wouldFetch(let seqno) = stubbed.get(number) else { break }
                #expect(stubbed.restore(seqno))
            }
            #expect(stubbed.get(number) == .found(value))
            stubbed.evictAll()
        }
        // A deleted one and a live one.
        for _ in 0..<2 {
            guard case .wouldFetch(let seqno) = stubbed.get(other) else { break }
            stubbed.restore(seqno)
        }
        let dead = try #require(stubbed.delete(other))
        stubbed.persistAll()
        stubbed.evictAll()
        #expect(stubbed.counts == [1, 1, 1, 2, 2])
        let hash = stubbed.stage.hash(of: key(other))
        viewing(key(other)) { key in
            stubbed.vBucket.withCore { core in
                #expect(core.currentSeqno(of: key, hash: hash, asked: Seqno(dead)) == Seqno(dead))
                let old = core.currentSeqno(of: key, hash: hash, asked: Seqno(seqno))
                #expect(old != Seqno(seqno), "the first version is dead")
                core.forgetPurged(key, hash: hash, seqno: Seqno(dead))
            }
        }
        #expect(stubbed.counts == [1, 0, 1, 1, 1])
        #expect(stubbed.get(mine) == .wouldFetch(second))
        stubbed.expectExactAccount()
    }

    /// A scan of the disk through `end` meets a key whose newest version lies behind that, while
    /// another key with the same bits is older: both are stubs.
    ///
    /// Which of the two is met first in the table depends on which was written first.
    @Test(arguments: [false, true])
    func backfillSendsVersionsThatLaterStubsMayHaveReplaced(otherIsFirst: Bool) throws {
        let stubbed = try Stubbed()
        let (mine, other) = try twins(stubbed.stage)
        if otherIsFirst { stubbed.set(other, [2]) }
        let old = try #require(stubbed.set(mine, [1]))
        if !otherIsFirst { stubbed.set(other, [2]) }
        let end = stubbed.vBucket.withCore { $0.highSeqno.value }
        let new = try #require(stubbed.set(mine, [3]))
        stubbed.persistAll()
        stubbed.evictAll()
        let hash = stubbed.stage.hash(of: key(mine))
        let needed = { (seqno: UInt64, end: UInt64) in
            viewing(key(mine)) { key in
                stubbed.vBucket.withCore {
                    $0.isNeeded(key, hash: hash, seqno: Seqno(seqno), through: Seqno(end))
                }
            }
        }
        #expect(stubbed.counts == [2, 0, 2, 2, 2])
        #expect(needed(old, end), "what replaced it is not in the snapshot")
        #expect(needed(new, new))
        #expect(!needed(old, new), "what replaced it is")
    }

    @Test func lookupMissRarelyMatchesAStub() throws {
        let stubbed = try Stubbed()
        for number in 0..<16_000 { stubbed.set(number) }
        stubbed.persistAll()
        stubbed.evictAll()
        let misses = 1_000_000
        let wrong = (20_000..<20_000 + misses).count { stubbed.get($0) != .notFound }
        // 37 bits that 16 000 stubs share: one miss in 8.6 millions.
        #expect(wrong <= 2)
    }

    @Test func outdatedFetchDoesNotChangeDocument() throws {
        let stubbed = try Stubbed()
        let seqno = try #require(stubbed.set(1, [1, 2, 3]))
        stubbed.persistAll()
        #expect(!stubbed.restore(seqno), "it never left")
        stubbed.evictAll()
        #expect(stubbed.restore(seqno))
        #expect(!stubbed.restore(seqno))
        stubbed.set(1, [4])
        #expect(!stubbed.restore(seqno))
        #expect(stubbed.get(1) == .found([4]))
        #expect(stubbed.counts == [1, 0, 0, 1, 0])
        stubbed.expectExactAccount()
    }

    @Test func valueEvictionFullyEjectsTombstonesOnly() throws {
        let stage = Stage()
        let bucket = stage.bucket(policy: .valueOnly)
        let vBucket = try #require(bucket[0])
        for number in 0..<100 {
            _ = stage.store(vBucket, key(number), [UInt8](repeating: 1, count: 50))
        }
        for number in 0..<50 {
            let hash = stage.hash(of: key(number))
            _ = viewing(key(number)) { key in
                vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
            }
        }
        vBucket.withCore { core in
            let drain = core.drain()
            core.persisted(through: drain.boundary)
            _ = core.ejectSlice(from: 0, groupsMax: 1_000, threshold: .max, stage.turn)
            #expect(core.table.stubCount == 50)
            #expect(core.ejectedCount == 50)
            #expect(core.tombstoneCount == 50)
        }
    }
}
