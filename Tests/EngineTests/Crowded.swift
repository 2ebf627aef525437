import Bytes
import Engine
import Testing
import Vocabulary

/// A bucket over its high watermark, and what is needed to get it below the low one.
final class Crowded {
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

    func get(_ number: Int) -> ReadResult {
        let hash = stage.hash(of: key(number))
        return viewing(key(number)) { key in
            vBucket(number).withCore { $0.get(key, hash: hash, stage.turn) }
        }
    }

    func isResident(_ number: Int) -> Bool {
        guard case .done = get(number) else { return false }
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

    var isAboveLow: Bool { bucket.account.bytes > bucket.account.lowWatermark }

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

    func pass(_ threshold: UInt8) -> Int {
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
