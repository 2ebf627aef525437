import Bytes
import Foundation
import Persistence
import Synchronization
import Testing
import Vocabulary

@Suite struct ThreadTests {
    /// Values that live are found at every moment, whatever compaction moves meanwhile.
    @Test func readersFindEveryLiveVersionWhileBlocksMove() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        bucket.settings.blocks.rawBytes = 1_000
        let lane = try bucket.open().lanes[0]
        let keep = 200
        let batch = CommitBatch()
        // Two keys per round: one stays, one is overwritten by the next round.
        func commit(_ round: Int) throws {
            batch.reset()
            for vBucket in 0..<8 as Range<UInt16> {
                let seqno = UInt64(round * 2)
                batch.begin(record(vBucket, high: seqno + 2))
                let stays = Array("stays-\(round)".utf8)
                let goes = DocumentMeta(seqno: Seqno(seqno + 2), cas: CAS(2))
                batch.append(
                    TestDocument(
                        meta: DocumentMeta(seqno: Seqno(seqno + 1), cas: CAS(1)),
                        key: stays,
                        value: stays + stays
                    )
                )
                batch.append(TestDocument(meta: goes, key: [1], value: stays))
                if round > 0 { batch.superseded(Seqno(seqno)) }
            }
            try lane.commit(batch)
        }
        try commit(0)
        let committed = Atomic(0)
        let isOver = Atomic(false)
        let failures = Atomic(0)
        let reads = Atomic(0)
        let threads = (0..<3).map { number in
            let done = DispatchSemaphore(value: 0)
            let thread = Thread {
                var random = SeededRandom(seed: UInt64(number))
                while !isOver.load(ordering: .relaxed) {
                    let round = random.below(committed.load(ordering: .acquiring) + 1)
                    let vBucket = UInt16(random.below(8))
                    let expected = Array("stays-\(round)stays-\(round)".utf8)
                    let found = try? lane.value(vBucket, UInt64(round * 2 + 1))
                    if found != expected { failures.add(1, ordering: .relaxed) }
                    reads.add(1, ordering: .relaxed)
                }
                done.signal()
            }
            thread.start()
            return done
        }
        var moved = 0
        for round in 1..<keep {
            try commit(round)
            committed.store(round, ordering: .releasing)
            if round % 3 == 0 {
                moved += try lane.compactStep(bytesMax: 20_000) { _, key, _ in
                    key.count == 1 ? Seqno(UInt64(round * 2 + 2)) : nil
                }.rewritten
            }
            if round % 50 == 0 { lane.closeIdle() }
        }
        isOver.store(true, ordering: .relaxed)
        for done in threads { done.wait() }
        #expect(failures.load(ordering: .relaxed) == 0)
        #expect(reads.load(ordering: .relaxed) > 100)
        #expect(moved > 100)
        #expect(try lane.verify() == [])
    }
}
