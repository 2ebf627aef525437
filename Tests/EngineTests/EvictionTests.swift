import Bytes
import Engine
import Testing
import Vocabulary

/// A bucket over its high watermark, and what is needed to get it below the low one.
private final class Crowded {
    let stage = Stage()
    let bucket: Bucket
    var random = SeededRandom(seed: 99)
    var woken = 0

    init(_ type: BucketType, _ policy: EvictionPolicy, quota: UInt64) {
        bucket = stage.bucket(type, quota: quota, policy: policy)
    }

    func vBucket(_ number: Int) -> VBucket {
        guard let vBucket = bucket[UInt16(number % 64)] else {
            preconditionFailure("the bucket has 64 vBuckets")
        }
        return vBucket
    }

    @discardableResult
    func set(_ number: Int, bytes: Int) -> Bool {
        let value = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: bytes)
        return stage.store(vBucket(number), key(number), value) != nil
    }

    func get(_ number: Int) -> ReadOutcome {
        let hash = stage.hash(of: key(number))
        return viewing(key(number)) { key in
            vBucket(number).withCore { $0.get(key, hash: hash, stage.turn) }
        }
    }

    func isResident(_ number: Int) -> Bool {
        guard case .found = get(number) else { return false }
        return true
    }

    func persistAll() {
        for vBucket in bucket.all {
            let drain = vBucket.withCore { $0.drain() }
            vBucket.withCore { $0.persisted(through: drain.boundary) }
        }
    }

    enum Outcome {
        case satisfied
        /// Nothing that is left may go.
        case stuck
    }

    private var isAboveLow: Bool { bucket.account.bytes > bucket.account.lowWatermark }

    /// Does what a pager does: samples, then ejects or deletes what is cold, as often as it takes.
    func run() -> Outcome {
        guard bucket.account.isAboveHighWatermark, bucket.evictionPolicy != .noEviction else {
            return .satisfied
        }
        for _ in 0..<100 {
            var sweep = EvictionSweep()
            let start = random.next()
            for vBucket in bucket.all {
                vBucket.withCore { $0.sample(&sweep, from: start, groupsMax: 4) }
            }
            let account = bucket.account
            let wanted = account.bytes - min(account.bytes, account.lowWatermark)
            let total = UInt64(sum { $0.table.count })
            let freed = pass(sweep.threshold(freeing: wanted, of: total))
            if !isAboveLow { return .satisfied }
            if freed == 0 { return .stuck }
        }
        Issue.record("a pager comes to an end")
        return .stuck
    }

    private func pass(_ threshold: UInt8) -> Int {
        var freed = 0
        for vBucket in bucket.all {
            freed +=
                walk(vBucket) { core, place in
                    guard isAboveLow else { return PagerSlice() }
                    let turn = stage.turn
                    return bucket.isPersistent
                        ? core.ejectSlice(from: place, groupsMax: 16, threshold: threshold, turn)
                        : core.deleteSlice(from: place, groupsMax: 16, threshold: threshold, turn)
                }.freed
        }
        guard !bucket.isPersistent else { return freed }
        let before = isAboveLow ? .max : stage.seconds - 60
        for vBucket in bucket.all {
            freed +=
                walk(vBucket) { core, place in
                    core.forgetTombstones(from: place, groupsMax: 16, deletedBefore: before)
                }.freed
        }
        return freed
    }

    /// Goes through a vBucket slice by slice and sums up what came of it.
    @discardableResult
    func walk(
        _ vBucket: VBucket,
        _ slice: (inout VBucketCore, UInt64) -> PagerSlice
    ) -> PagerSlice {
        var sum = PagerSlice()
        var next: UInt64? = 0
        while let place = next {
            let one = vBucket.withCore { slice(&$0, place) }
            sum.freed += one.freed
            sum.count += one.count
            if one.wakesFlusher { woken += 1 }
            next = one.next
        }
        return sum
    }

    func expireAll() -> Int {
        bucket.all.map { vBucket in
            walk(vBucket) { $0.expireSlice(from: $1, groupsMax: 5, stage.turn) }.count
        }.reduce(0, +)
    }

    func expectExactAccount() {
        let recount = bucket.all.map { vBucket in vBucket.withCore { $0.recount() } }.reduce(0, +)
        #expect(bucket.account.bytes == UInt64(recount))
    }

    func sum(_ count: (borrowing VBucketCore) -> Int) -> Int {
        bucket.all.map { vBucket in vBucket.withCore { count($0) } }.reduce(0, +)
    }
}

@Suite struct EvictionTests {
    private static let keys = 40_000

    @Test func theLeastUsedValuesGoUntilTheLowWatermark() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<Self.keys { crowded.set(number, bytes: 200) }
        crowded.persistAll()
        // Every fifth document is in use.
        for _ in 0..<40 {
            for number in stride(from: 0, to: Self.keys, by: 5) { _ = crowded.get(number) }
        }
        let account = crowded.bucket.account
        account.quota = account.bytes / 90 * 100
        #expect(crowded.run() == .satisfied)
        #expect(account.bytes <= account.lowWatermark)
        #expect(account.bytes > account.lowWatermark / 100 * 98, "not more than has to go")
        crowded.expectExactAccount()
        let isHot = (0..<Self.keys).map { $0 % 5 == 0 }
        let isIn = (0..<Self.keys).map { crowded.isResident($0) }
        let hotOut = zip(isHot, isIn).count { $0.0 && !$0.1 }
        let coldOut = zip(isHot, isIn).count { !$0.0 && !$0.1 }
        #expect(coldOut > 3_000)
        #expect(hotOut < coldOut / 50, "\(hotOut) hot ones and \(coldOut) cold ones went")
        #expect(crowded.sum { $0.ejectedCount } == hotOut + coldOut)
        #expect(crowded.sum { $0.liveCount } == Self.keys, "documents stay, only values go")
        #expect(crowded.run() == .satisfied, "below the high watermark nothing is done")
        #expect(crowded.woken == 0)
    }

    @Test func whatIsNotOnDiskNeverGoes() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<Self.keys { crowded.set(number, bytes: 100) }
        let account = crowded.bucket.account
        account.quota = account.bytes / 90 * 100
        #expect(crowded.run() == .stuck)
        #expect(crowded.sum { $0.ejectedCount } == 0)
        // A commit that is under way does not help, only one that is done.
        let drains = crowded.bucket.all.map { vBucket in vBucket.withCore { $0.drain() } }
        #expect(crowded.run() == .stuck)
        for (vBucket, drain) in zip(crowded.bucket.all, drains) {
            vBucket.withCore { $0.persisted(through: drain.boundary) }
        }
        // Half of it is changed again, and so dirty.
        for number in 0..<Self.keys / 2 { crowded.set(number, bytes: 100) }
        #expect(crowded.run() == .satisfied)
        for number in 0..<Self.keys / 2 where !crowded.isResident(number) {
            Issue.record("a change that is not on disk was ejected")
            return
        }
        crowded.expectExactAccount()
    }

    @Test func aFewLargeValuesGoAsWell() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<12 { crowded.set(number, bytes: 1 << 20) }
        crowded.persistAll()
        let account = crowded.bucket.account
        account.quota = account.bytes / 90 * 100
        #expect(crowded.run() == .satisfied)
        #expect(crowded.sum { $0.ejectedCount } >= 2)
        crowded.expectExactAccount()
    }

    @Test func underGreatPressureEverythingThatMayGoGoesAndThenItIsSaid() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<20_000 { crowded.set(number, bytes: 200) }
        for _ in 0..<300 {
            for number in 0..<400 { _ = crowded.get(number) }
        }
        crowded.persistAll()
        let account = crowded.bucket.account
        account.quota = account.bytes / 10
        #expect(crowded.run() == .stuck)
        #expect(crowded.sum { $0.ejectedCount } == 20_000)
        crowded.expectExactAccount()
    }

    @Test func anEphemeralBucketWithoutEvictionKeepsEverything() {
        let crowded = Crowded(.ephemeral, .noEviction, quota: 1 << 20)
        var stored = 0
        while crowded.set(stored, bytes: 100) { stored += 1 }
        #expect(crowded.run() == .satisfied, "there is nothing to be done about it")
        #expect(crowded.sum { $0.liveCount } == stored)
    }

    /// Ten times what fits comes in; what is used all the time survives, and writes are taken.
    @Test(arguments: [50, 1_000])
    func anEphemeralBucketForgetsTheLeastUsed(bytes: Int) {
        let quota: UInt64 = 4 << 20
        let crowded = Crowded(.ephemeral, .nruEviction, quota: quota)
        let total = Int(quota) * 10 / (bytes + 50)
        var refused = 0
        for number in 0..<total {
            if number * (bytes + 50) % 50_000 < bytes + 50 {
                crowded.stage.seconds += 1
                for hot in 0..<20 { for _ in 0..<10 { _ = crowded.get(hot) } }
                _ = crowded.run()
            }
            if !crowded.set(number, bytes: bytes) { refused += 1 }
        }
        #expect(refused == 0)
        #expect(crowded.bucket.account.bytes <= quota)
        let survivors = (0..<20).count { crowded.isResident($0) }
        #expect(survivors >= 18)
        let live = crowded.sum { $0.liveCount }
        #expect(live > total / 40 && live < total / 8)
        let purged = crowded.bucket.all.count { vBucket in
            vBucket.withCore { $0.purgeSeqno > .zero }
        }
        #expect(purged > 0 || bytes > 100)
        crowded.expectExactAccount()
    }
}

@Suite struct ExpiryTests {
    @Test func theSweepBuriesWhatIsDueAndNothingElse() {
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

    @Test func theSweepForgetsLocksThatAreOver() throws {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let stage = crowded.stage
        for number in 0..<2 {
            crowded.set(number * 64, bytes: 100)
            let hash = stage.hash(of: key(number * 64))
            let seconds: UInt32 = number == 0 ? 10 : 30
            let isLocked = viewing(key(number * 64)) { key in
                crowded.vBucket(0).withCore { core in
                    let outcome = core.getAndLock(key, hash: hash, seconds: seconds, stage.turn)
                    guard case .found = outcome else { return false }
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
        #expect(eject(0) > 0, "nobody holds that lock any more")
        #expect(eject(64) == 0, "that one is still held")
    }

    @Test func oldTombstonesOfEphemeralDocumentsGoAndRevisionsGoOn() throws {
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
                guard case .found(let item, _) = core.getMeta(key, hash: hash, stage.turn) else {
                    return nil
                }
                return item.revision
            }
        }
        #expect(revision == 3)
    }

    @Test func memoryForgetsWhatTheDiskPurgedUnlessItCameBack() {
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
            guard case .stored(let stored) = outcome else { continue }
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
    @Test func whatWasPurgedIsNotToldToHaveASuccessor() throws {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        let hash = crowded.stage.hash(of: key(1))
        crowded.set(1, bytes: 10)
        let tombstone: Seqno? = viewing(key(1)) { key in
            crowded.vBucket(1).withCore {
                let outcome = $0.delete(key, hash: hash, cas: .none, crowded.stage.turn)
                guard case .stored(let stored) = outcome else { return nil }
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
