import Bytes
import Engine
import Testing
import Vocabulary

/// Reactors and a flusher on the same bucket: what a race detector should look at.
@Suite struct SharingTests {
    private static let keys = 4_000

    private struct Tally: Sendable {
        var sets = 0
        var torn = 0
    }

    @Test func bucketSharedByTwoReactorsAndFlusherHasNoTornReads() async {
        let quiescence = Quiescence(reactorCount: 2)
        let reclaimer = Reclaimer(quiescence: quiescence)
        let pool = ChunkPool()
        var settings = BucketSettings(name: "shared", uuid: "0", quota: 1 << 40)
        settings.vBuckets = 64
        let hash = KeyHash(seed: 9)
        let bucket = Bucket(settings, hash: hash, reclaimer: reclaimer) { VBucketUUID(1) }
        let tallies = await withTaskGroup(of: Tally.self) { group in
            for reactor in 0..<2 {
                group.addTask {
                    Self.react(bucket, hash, pool, quiescence, reactor: reactor)
                }
            }
            group.addTask {
                for _ in 0..<300 { Self.flush(bucket, reclaimer) }
                return Tally()
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(tallies.map(\.torn).reduce(0, +) == 0)
        Self.flush(bucket, reclaimer)
        var high = 0
        var recount = 0
        for vBucket in bucket.all {
            vBucket.withCore {
                high += Int($0.highSeqno.value)
                recount += $0.recount()
                #expect($0.checkpoint.ownedBytes == 0)
            }
        }
        #expect(high == tallies.map(\.sets).reduce(0, +))
        #expect(bucket.account.bytes == UInt64(recount))
    }

    /// Batches as a reactor does them: look ahead without locks, then take one lock at a time.
    private static func react(
        _ bucket: Bucket,
        _ hash: KeyHash,
        _ pool: ChunkPool,
        _ quiescence: Quiescence,
        reactor: Int
    ) -> Tally {
        var random = SeededRandom(seed: UInt64(reactor))
        let arena = Arena(pool: pool)
        let scratch = ByteWriter()
        var tally = Tally()
        for round in 0..<3_000 {
            quiescence.begin(reactor)
            let batch = (0..<16).map { _ in Int.random(in: 0..<keys, using: &random) }
            let hashes = batch.map { number in viewing(key(number)) { hash($0) } }
            for (number, hash) in zip(batch, hashes) {
                guard let vBucket = bucket[UInt16(number % 64)] else { continue }
                HashTable.prefetchGroup(root: vBucket.root, hash: hash)
                _ = HashTable.prefetchItem(root: vBucket.root, hash: hash)
            }
            let turn = ExecutionContext(
                wallNanoseconds: UInt64(round + 1),
                arena: arena,
                scratch: scratch
            )
            for (number, hash) in zip(batch, hashes) {
                guard let vBucket = bucket[UInt16(number % 64)] else { continue }
                let mark = UInt8(truncatingIfNeeded: round)
                let value = [UInt8](repeating: mark, count: 1 + (number + round) % 200)
                viewing(key(number)) { key in
                    if (number + round) % 3 == 0 {
                        tally.sets += set(vBucket, key, hash, value, turn)
                    } else if isTorn(vBucket, key, hash, turn) {
                        tally.torn += 1
                    }
                }
            }
            quiescence.end(reactor)
        }
        return tally
    }

    private static func set(
        _ vBucket: VBucket,
        _ key: ByteView,
        _ hash: UInt64,
        _ value: [UInt8],
        _ turn: borrowing ExecutionContext
    ) -> Int {
        let outcome = viewing(value) { value in
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
            return vBucket.withCore { $0.store(request, turn) }
        }
        guard case .done = outcome else { return 0 }
        return 1
    }

    private static func isTorn(
        _ vBucket: VBucket,
        _ key: ByteView,
        _ hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        vBucket.withCore { core in
            guard case .done(let (item, _)) = core.get(key, hash: hash, turn) else { return false }
            let value = item.value
            return (0..<value.count).contains { value[$0] != value[0] }
        }
    }

    private static func flush(_ bucket: Bucket, _ reclaimer: Reclaimer) {
        for vBucket in bucket.all {
            let drain = vBucket.withCore { $0.drain() }
            for entry in drain.entries {
                vBucket.withCore { _ in
                    let value = entry.item.value
                    precondition((0..<value.count).allSatisfy { value[$0] == value[0] })
                }
            }
            vBucket.withCore { $0.persisted(through: drain.boundary) }
        }
        reclaimer.collect()
    }
}
