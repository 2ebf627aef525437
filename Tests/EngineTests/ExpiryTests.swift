import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct ExpiryTests {
    @Test func expiryPagerDeletesOnlyDueDocuments() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let stage = crowded.stage
        for number in 0..<10_000 {
            let expiry = number % 3 == 0 ? 0 : stage.seconds + UInt32(number % 3) * 100
            _ = stage.store(crowded.vBucket(number), key(number), [1], expiry: expiry)
        }
        crowded.persistAll()
        stage.seconds += 150
        #expect(crowded.expireAll() == 3_333)
        #expect(crowded.woken == 64, "each flusher is told once")
        #expect(crowded.sum { $0.tombstoneCount } == 3_333)
        for number in 0..<10_000 where crowded.isResident(number) != (number % 3 != 1) {
            Issue.record("document \(number) is where it should not be")
            return
        }
        crowded.expectExactAccount()
        crowded.persistAll()
        #expect(crowded.expireAll() == 0)
        #expect(crowded.woken == 64)
    }

    @Test func expiryPagerRemovesExpiredLocks() throws {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let stage = crowded.stage
        for number in 0..<2 {
            crowded.set(number * 64, bytes: 100)
            let hash = stage.hash(of: key(number * 64))
            let seconds: UInt32 = number == 0 ? 10 : 30
            let isLocked = viewing(key(number * 64)) { key in
                crowded.vBucket(0).withCore { core in
                    let outcome = core.getAndLock(key, hash: hash, seconds: seconds, stage.turn)
                    guard case .done = outcome else { return false }
                    return true
                }
            }
            #expect(isLocked)
        }
        crowded.persistAll()
        func eject(_ number: Int) -> Int {
            let hash = stage.hash(of: key(number))
            return viewing(key(number)) { key in
                crowded.vBucket(0).withCore { $0.eject(key, hash: hash, stage.turn) }
            }
        }
        stage.seconds += 20
        #expect(eject(0) == 0)
        #expect(crowded.expireAll() == 0)
        #expect(eject(0) > 0, "the lock has expired")
        #expect(eject(64) == 0, "that one is still held")
    }

    @Test func purgedEphemeralTombstonesLeaveHigherRevisionForNewDocument() throws {
        let crowded = Crowded(.ephemeral, .noEviction, quota: 1 << 40)
        let stage = crowded.stage
        func delete(_ number: Int) {
            let hash = stage.hash(of: key(number))
            _ = viewing(key(number)) { key in
                crowded.vBucket(number).withCore {
                    $0.delete(key, hash: hash, cas: .none, stage.turn)
                }
            }
        }
        for number in 0..<5_000 { crowded.set(number, bytes: 10) }
        for number in 0..<1_000 { delete(number) }
        stage.seconds += 500
        for number in 1_000..<2_000 { delete(number) }
        stage.seconds += 600
        let purged = crowded.bucket.all.map { vBucket in
            crowded.walk(vBucket) { core, place in
                let before = stage.seconds - 1_000
                return core.forgetTombstones(from: place, groupsMax: 5, deletedBefore: before)
            }.count
        }
        #expect(purged.reduce(0, +) == 1_000)
        #expect(crowded.sum { $0.tombstoneCount } == 1_000)
        #expect(crowded.sum { $0.liveCount } == 3_000)
        for number in 2_000..<5_000 where !crowded.isResident(number) {
            Issue.record("a purge must take tombstones only")
            return
        }
        crowded.expectExactAccount()
        // A document that comes back is above every revision it may have had.
        crowded.set(3, bytes: 1)
        let hash = stage.hash(of: key(3))
        let revision: UInt64? = viewing(key(3)) { key in
            crowded.vBucket(3).withCore { core in
                guard case .done(let (item, _)) = core.getMeta(key, hash: hash, stage.turn) else {
                    return nil
                }
                return item.revision
            }
        }
        #expect(revision == 3)
    }

    @Test func purgedTombstoneLeavesMemoryUnlessKeyWasRecreated() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let stage = crowded.stage
        var deleted: [Int: Seqno] = [:]
        for number in 0..<200 {
            crowded.set(number, bytes: 10)
            let hash = stage.hash(of: key(number))
            let outcome = viewing(key(number)) { key in
                crowded.vBucket(number).withCore {
                    $0.delete(key, hash: hash, cas: .none, stage.turn)
                }
            }
            guard case .done(let stored) = outcome else { continue }
            deleted[number] = stored.seqno
            if number % 2 == 0 { crowded.set(number, bytes: 10) }
        }
        #expect(deleted.count == 200)
        crowded.persistAll()
        for (number, seqno) in deleted {
            let hash = stage.hash(of: key(number))
            viewing(key(number)) { key in
                crowded.vBucket(number).withCore {
                    $0.forgetPurged(key, hash: hash, seqno: seqno)
                    #expect($0.purgeSeqno >= seqno)
                }
            }
        }
        #expect(crowded.sum { $0.tombstoneCount } == 0)
        #expect(crowded.sum { $0.liveCount } == 100)
        for number in 0..<200 { #expect(crowded.isResident(number) == (number % 2 == 0)) }
        crowded.expectExactAccount()
    }

    /// The lane file would take another document for dead, which is counted in its place.
    @Test func purgedVersionIsNotReportedAsSuperseded() throws {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let hash = crowded.stage.hash(of: key(1))
        crowded.set(1, bytes: 10)
        let tombstone: Seqno? = viewing(key(1)) { key in
            crowded.vBucket(1).withCore {
                let outcome = $0.delete(key, hash: hash, cas: .none, crowded.stage.turn)
                guard case .done(let stored) = outcome else { return nil }
                return stored.seqno
            }
        }
        let purged = try #require(tombstone)
        crowded.persistAll()
        crowded.set(1, bytes: 10)
        viewing(key(1)) { key in
            crowded.vBucket(1).withCore { $0.forgetPurged(key, hash: hash, seqno: purged) }
        }
        let told = crowded.vBucket(1).withCore { $0.drain().superseded }
        #expect(told == [])
    }
}
