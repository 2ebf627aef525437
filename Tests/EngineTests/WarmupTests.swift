import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct WarmupTests {
    /// One version as a disk would have it.
    private struct Stored {
        let key: [UInt8]
        let meta: DocumentMeta
        let value: [UInt8]
    }

    /// Everything that commits would have written, dead versions too.
    private func history(of vBucket: VBucket, _ stage: Stage, seed: UInt64) -> [Stored] {
        var random = SeededRandom(seed: seed)
        var stored: [Stored] = []
        for _ in 0..<30 {
            for _ in 0..<40 {
                stage.nanoseconds += 100
                let bytes = key(Int.random(in: 0..<100, using: &random))
                if Int.random(in: 0..<5, using: &random) == 0 {
                    let hash = stage.hash(of: bytes)
                    _ = viewing(bytes) { key in
                        vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
                    }
                } else {
                    let count = Int.random(in: 0..<90, using: &random)
                    _ = stage.store(vBucket, bytes, [UInt8](repeating: 1, count: count))
                }
            }
            let drain = vBucket.withCore { $0.drain() }
            stored += drain.entries.map {
                let item = $0.item
                return Stored(key: item.key.bytes, meta: item.meta, value: item.value.bytes)
            }
            vBucket.withCore { $0.persisted(through: drain.boundary) }
        }
        return stored
    }

    @Test(arguments: 1...10)
    func warmupRestoresVBucketFromVersionsInAnyOrder(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let stage = Stage()
        let before = stage.bucket()
        let old = try #require(before[5])
        let stored = history(of: old, stage, seed: seed)
        let record = old.withCore { $0.record(through: $0.highSeqno, casHorizon: 0) }
        var newest: [[UInt8]: Stored] = [:]
        for version in stored { newest[version.key] = version }

        let after = stage.bucket()
        let vBucket = try #require(after[5])
        vBucket.withCore { $0.beginWarmup(record) }
        #expect(stage.store(vBucket, key(1), [1]) == nil, "requests wait until all is known")
        var dead: [UInt64] = []
        for version in stored.shuffled(using: &random) {
            let hash = stage.hash(of: version.key)
            let loser = viewing(version.key) { key in
                vBucket.withCore {
                    $0.load(
                        version.meta,
                        key: key,
                        valueCount: version.value.count,
                        hash: hash,
                        stage.turn
                    )
                }
            }
            if let loser { dead.append(loser.value) }
        }
        vBucket.withCore { $0.endWarmup() }
        let alive = Set(newest.values.map(\.meta.seqno.value))
        let expectedDead = stored.map(\.meta.seqno.value).filter { !alive.contains($0) }
        #expect(dead.sorted() == expectedDead.sorted())
        compareCounts(old, vBucket)
        let onDisk = newest.values.count { !$0.meta.isDeleted && !$0.value.isEmpty }
        #expect(vBucket.withCore { $0.ejectedCount } == onDisk)
        let recount = vBucket.withCore { $0.recount() }
        #expect(after.account.bytes == UInt64(recount))
        for version in newest.values { expect(version, in: vBucket, stage) }
        // New changes go on where the old ones ended.
        stage.nanoseconds = 0
        stage.seconds -= 100
        let next = try #require(stage.store(vBucket, key(1), [1]))
        #expect(next.seqno.value == record.highSeqno.value + 1)
        #expect(next.cas > record.maxCAS)
        #expect(next.wakesFlusher)
    }

    private func compareCounts(_ old: VBucket, _ new: VBucket) {
        let before = old.withCore { ($0.liveCount, $0.tombstoneCount, $0.highSeqno) }
        let after = new.withCore { ($0.liveCount, $0.tombstoneCount, $0.highSeqno) }
        #expect(before == after)
        #expect(new.withCore { $0.persistedSeqno } == after.2)
    }

    /// The metadata is there at once, the value after a fetch.
    private func expect(_ version: Stored, in vBucket: VBucket, _ stage: Stage) {
        let hash = stage.hash(of: version.key)
        viewing(version.key) { key in
            vBucket.withCore { core in
                guard case .done(let (item, _)) = core.getMeta(key, hash: hash, stage.turn) else {
                    Issue.record("a document is missing after warmup")
                    return
                }
                #expect(item.meta == version.meta)
                #expect(item.valueCount == version.value.count)
                guard !version.meta.isDeleted, !version.value.isEmpty else { return }
                guard case .wait(.value(let seqno)) = core.get(key, hash: hash, stage.turn)
                else {
                    Issue.record("a value was there before it was fetched")
                    return
                }
                #expect(seqno == version.meta.seqno)
                let isInstalled = viewing(version.value) {
                    core.install($0, of: seqno, key: key, hash: hash, stage.turn)
                }
                #expect(isInstalled)
                guard case .done(let (whole, _)) = core.get(key, hash: hash, stage.turn) else {
                    Issue.record("a fetched value is not there")
                    return
                }
                #expect(whole.value.bytes == version.value)
            }
        }
    }

    /// A tombstone with system attributes is loaded as an ejected item: its value stays on disk.
    @Test func writeOverLoadedTombstoneWithValueKeepsAccountExact() throws {
        let stage = Stage()
        let bucket = stage.bucket()
        let vBucket = try #require(bucket[0])
        var record = vBucket.withCore { $0.record(through: .zero, casHorizon: 0) }
        record.highSeqno = Seqno(9)
        vBucket.withCore { $0.beginWarmup(record) }
        let hash = stage.hash(of: key(1))
        let meta = DocumentMeta(seqno: Seqno(4), cas: CAS(8), isDeleted: true)
        viewing(key(1)) { key in
            vBucket.withCore {
                _ = $0.load(meta, key: key, valueCount: 500, hash: hash, stage.turn)
                $0.endWarmup()
            }
        }
        #expect(vBucket.withCore { $0.ejectedTombstoneCount } == 1)
        #expect(stage.store(vBucket, key(1), [1])?.seqno.value == 10)
        #expect(vBucket.withCore { $0.ejectedTombstoneCount } == 0)
        let recount = vBucket.withCore { $0.recount() }
        #expect(bucket.account.bytes == UInt64(recount))
    }
}

@Suite struct QuotaTests {
    @Test func writesAboveQuotaCeilingAreRefusedAndDeletesAreAccepted() throws {
        let stage = Stage()
        let bucket = stage.bucket(quota: 1 << 20)
        let vBucket = try #require(bucket[0])
        let value = [UInt8](repeating: 1, count: 1_000)
        var stored = 0
        while stored < 5_000, stage.store(vBucket, key(stored), value) != nil { stored += 1 }
        #expect(stored > 700 && stored < 1_000)
        #expect(bucket.account.bytes <= bucket.account.quota / 100 * 93 + 2_048)
        let hash = stage.hash(of: key(3))
        let outcome = viewing(key(3)) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
        }
        guard case .done = outcome else {
            Issue.record("a delete came to \(outcome)")
            return
        }
        bucket.account.quota = 2 << 20
        #expect(stage.store(vBucket, key(stored), value) != nil, "a raised quota counts at once")
    }

    @Test func deletedBucketFreesAllItsMemory() {
        let stage = Stage()
        let account: MemoryAccount
        do {
            let bucket = stage.bucket(isKept: false)
            account = bucket.account
            for number in 0..<20_000 {
                guard let vBucket = bucket[UInt16(number % 64)] else { continue }
                _ = stage.store(vBucket, key(number), [UInt8](repeating: 1, count: number % 300))
            }
            // Some versions belong to a checkpoint alone.
            for vBucket in bucket.all { _ = vBucket.withCore { $0.drain() } }
            for number in 0..<20_000 {
                guard let vBucket = bucket[UInt16(number % 64)] else { continue }
                _ = stage.store(vBucket, key(number), [1])
            }
            #expect(account.bytes > 4_000_000)
        }
        #expect(account.bytes == 0)
    }
}
