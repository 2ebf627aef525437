import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct EvictionTests {
    private static let keys = 40_000

    @Test func leastUsedValuesAreEjectedDownToLowWatermark() {
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

    @Test func unpersistedValuesAreNotEjected() {
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

    /// A background fetch has to distinguish a lost value from a superseded one, also on a copy
    /// that serves no clients: else it would retry for ever.
    @Test(arguments: [false, true])
    func isEjectedIsTrueOnlyForPresentVersionWithoutValue(isReplica: Bool) {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        // Of one vBucket.
        for number in [0, 64] { crowded.set(number, bytes: 200) }
        crowded.persistAll()
        let vBucket = crowded.vBucket(0)
        func with<Result>(
            _ number: Int,
            _ body: (inout VBucketCore, ByteView, UInt64) -> Result
        ) -> Result {
            let hash = crowded.stage.hash(of: key(number))
            return viewing(key(number)) { key in vBucket.withCore { body(&$0, key, hash) } }
        }
        func isEjected(_ number: Int, _ seqno: UInt64) -> Bool {
            with(number) { core, key, hash in core.isEjected(key, hash: hash, at: Seqno(seqno)) }
        }
        let turn = crowded.stage.turn
        #expect(with(0) { core, key, hash in core.eject(key, hash: hash, turn) } > 0)
        if isReplica { vBucket.withCore { $0.become(.replica) } }
        #expect(isEjected(0, 1))
        #expect(!isEjected(0, 2), "another version is not missing")
        #expect(!isEjected(64, 2), "its value is here")
        #expect(!isEjected(128, 1), "this key is unknown")
        let isBack = viewing([UInt8](repeating: 0, count: 200)) { value in
            with(0) { core, key, hash in
                core.install(value, of: Seqno(1), key: key, hash: hash, turn)
            }
        }
        #expect(isBack)
        #expect(!isEjected(0, 1))
    }

    @Test func fewLargeValuesAreEjected() {
        let crowded = Crowded(.persistent, .valueOnly, quota: 1 << 40)
        for number in 0..<12 { crowded.set(number, bytes: 1 << 20) }
        crowded.persistAll()
        let account = crowded.bucket.account
        account.quota = account.bytes / 90 * 100
        #expect(crowded.run() == .satisfied)
        #expect(crowded.sum { $0.ejectedCount } >= 2)
        crowded.expectExactAccount()
    }

    @Test func pagerThatEjectedEveryValueAboveWatermarkReportsStuck() {
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

    @Test func ephemeralBucketWithoutEvictionDeletesNoDocument() {
        let crowded = Crowded(.ephemeral, .noEviction, quota: 1 << 20)
        var stored = 0
        while crowded.set(stored, bytes: 100) { stored += 1 }
        #expect(crowded.run() == .satisfied, "there is nothing to be done about it")
        #expect(crowded.sum { $0.liveCount } == stored)
    }

    /// Ten times what fits comes in; what is used all the time survives, and writes are taken.
    @Test(arguments: [50, 1_000])
    func ephemeralBucketWithNRUEvictionDeletesLeastUsedDocuments(bytes: Int) {
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
