import Bytes
import Engine
import Testing
import Vocabulary

/// What a bucket could free, compared with what it does free.
@Suite struct RemovableTests {
    private func removable(_ crowded: Crowded) -> UInt64 {
        var bytes: UInt64 = 0
        for vBucket in crowded.bucket.all {
            var place: UInt64? = 0
            while let from = place {
                place = vBucket.withCore {
                    $0.addRemovable(to: &bytes, from: from, groupsMax: 7)
                }
            }
        }
        return bytes
    }

    /// Ejects everything that may go; returns what stays.
    private func ejectAll(_ crowded: Crowded) -> UInt64 {
        for vBucket in crowded.bucket.all {
            for _ in 0..<2 {
                _ = crowded.walk(vBucket) { core, place in
                    core.ejectSlice(
                        from: place,
                        groupsMax: 16,
                        threshold: .max,
                        crowded.stage.turn
                    )
                }
            }
        }
        return crowded.bucket.account.bytes
    }

    @Test(arguments: [EvictionPolicy.valueOnly, .fullEviction])
    func removableEstimateMatchesBytesEjectedAfterPersistence(_ policy: EvictionPolicy) {
        let crowded = Crowded(.persistent, policy, quota: 1 << 40)
        for number in 0..<3_000 { crowded.set(number, bytes: number % 40 * 100) }
        crowded.persistAll()
        for number in 0..<1_000 { crowded.set(number, bytes: number % 7 * 3_000) }
        for number in 1_000..<1_500 {
            let hash = crowded.stage.hash(of: key(number))
            viewing(key(number)) { key in
                crowded.vBucket(number).withCore {
                    _ = $0.delete(key, hash: hash, cas: .none, crowded.stage.turn)
                }
            }
        }
        // Some of it is on disk only already, some not on disk yet.
        let (used, found) = (crowded.bucket.account.bytes, removable(crowded))
        #expect(found <= used, "no document is counted twice")
        let floor = used - min(used, found)
        crowded.persistAll()
        let left = ejectAll(crowded)
        #expect(crowded.bucket.account.bytes == left)
        // The last chunk of a change order stays where it was needed last.
        #expect(left <= floor && floor <= left + 64 * 1_024, "\(floor), \(left)")
        #expect(crowded.bucket.account.bytes - min(left, removable(crowded)) <= floor)
        crowded.expectExactAccount()
    }

    @Test func ephemeralDocumentsCountAsFullyRemovable() {
        let crowded = Crowded(.ephemeral, .noEviction, quota: 1 << 40)
        let empty = crowded.bucket.account.bytes
        for number in 0..<500 { crowded.set(number, bytes: 1_000) }
        let floor = crowded.bucket.account.bytes - removable(crowded)
        #expect(floor >= empty && floor < empty + 500 * 200)
    }

    // MARK: Reserved room

    @Test func reservedRoomIsForWritesThatNeedAsMuchAndForCopies() throws {
        let stage = Stage()
        let bucket = stage.bucket(quota: 10 << 20)
        let account = bucket.account
        let vBucket = try #require(bucket[0])
        let (free, large) = (account.ceiling - account.bytes, 2 << 20)
        account.reserved = free - 1_000
        #expect(stage.store(vBucket, key(1), [UInt8](repeating: 1, count: 2_000)) == nil)
        #expect(stage.store(vBucket, key(1), [UInt8](repeating: 1, count: large)) == nil)
        account.reserved = UInt64(large)
        #expect(stage.store(vBucket, key(1), [UInt8](repeating: 1, count: large)) != nil)
        #expect(account.admitsCopy(Int(free) - large))
        account.reserved = free
        #expect(account.admitsCopy(2_000))
        // A quota that changes meanwhile keeps what is reserved.
        account.quota = 20 << 20
        #expect(account.reserved == free)
        #expect(account.admits(Int(account.ceiling - account.bytes - free)))
        #expect(!account.admits(Int(account.ceiling - account.bytes - free) + 1))
        account.reserved = 0
        #expect(account.admits(Int(account.ceiling - account.bytes)))
    }

    @Test func estimateOfASampleIsScaledToTheBucket() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<4_000 { crowded.set(number, bytes: 1_000) }
        crowded.persistAll()
        var sweep = EvictionSweep()
        #expect(sweep.estimate(of: 4_000) == 0)
        for vBucket in crowded.bucket.all {
            vBucket.withCore { $0.sample(&sweep, from: 0, groupsMax: 4) }
        }
        let estimate = sweep.estimate(of: 4_000)
        #expect(estimate > 3_900_000 && estimate < 4_100_000)
    }
}
