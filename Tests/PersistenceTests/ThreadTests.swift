import Bytes
import Foundation
import Persistence
import Synchronization
import TestSupport
import Testing
import Vocabulary

@Suite struct ThreadTests {
    @Test func readersFindEveryLiveVersionDuringCompaction() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        bucket.settings.blocks.rawBytes = 1_000
        let lane = try bucket.open().lanes[0]
        let keep = 200
        let batch = CommitBatch()
        // Two keys per round: one stays, the next round overwrites the other.
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
                if round > 0 { batch.markSuperseded(Seqno(seqno)) }
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

    /// The files of one flush are removed during the next flush.
    ///
    /// A commit into those files must fail with `.gone`, never with a disk error.
    @Test func commitDuringFlushFailsWithGone() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        let store = try bucket.open()
        let isOver = Atomic(false)
        let complaints = Guarded<[String]>([])
        let hadCommits = Atomic(0)
        let bodies: [@Sendable () throws -> Void] = [
            { try store.removeLeftovers() },
            {
                let batch = CommitBatch()
                batch.begin(record(2, high: 1))
                do throws(StorageError) {
                    try store.lanes[0].commit(batch)
                    hadCommits.add(1, ordering: .relaxed)
                } catch  where error.code == .gone {
                    return
                }
            },
        ]
        let threads = bodies.map { body in
            let done = DispatchSemaphore(value: 0)
            let thread = Thread {
                while !isOver.load(ordering: .relaxed) {
                    do {
                        try body()
                    } catch {
                        complaints.withLock { $0.append("\(error)") }
                    }
                }
                done.signal()
            }
            thread.start()
            return done
        }
        for round in 0..<400 {
            try store.flush()
            let before = hadCommits.load(ordering: .relaxed)
            let deadline = Date(timeIntervalSinceNow: 10)
            // Every tenth round waits for a commit, so that there is a file to remove.
            while round % 10 == 0, hadCommits.load(ordering: .relaxed) == before, Date() < deadline
            {
                usleep(100)
            }
        }
        isOver.store(true, ordering: .relaxed)
        for done in threads { done.wait() }
        #expect(complaints.withLock { $0 } == [])
        #expect(hadCommits.load(ordering: .relaxed) > 0)
    }
}
