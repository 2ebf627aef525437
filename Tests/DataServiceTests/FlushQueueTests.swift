import DataService
import Testing
import Vocabulary

@Suite struct FlushQueueTests {
    private static let ms: UInt64 = 1_000_000
    private var queue = FlushQueue(
        pace: FlushQueue.Pace(delay: 250 * ms, ageMax: 1_500 * ms, restFactor: 15)
    )

    private func at(_ milliseconds: UInt64) -> UInt64 { milliseconds * FlushQueueTests.ms }

    private func numbers(_ entries: [FlushQueue.Entry]) -> [UInt16] {
        entries.map(\.vBucket.number)
    }

    @Test func commitBeginsQuarterSecondAfterOldestChange() {
        var queue = queue
        #expect(queue.nextStart() == nil)
        queue.add(VBucketID(7), since: at(1_000))
        queue.add(VBucketID(8), since: at(1_100))
        queue.add(VBucketID(7), since: at(1_200))
        #expect(queue.nextStart() == at(1_250))
        #expect(numbers(queue.removeNextBatch(now: at(1_250))) == [7, 8])
        #expect(queue.isEmpty)
        #expect(queue.nextStart() == nil)
    }

    @Test func callersThatWaitForManyVBucketsShareCommit() {
        var queue = queue
        for number in UInt16(1)...4 { queue.add(VBucketID(number), since: at(1_000)) }
        let end = 1_010 + Limits.commitGatherMilliseconds
        queue.hurry(VBucketID(2), gatheringFrom: at(1_010))
        #expect(queue.nextStart() == at(end))
        // Another request, or one for another vBucket, does not delay it; clean vBuckets do not
        // count.
        queue.hurry(VBucketID(2), gatheringFrom: at(1_025))
        queue.hurry(VBucketID(4), gatheringFrom: at(1_026))
        queue.hurry(VBucketID(9), gatheringFrom: at(1_027))
        #expect(queue.nextStart() == at(end))
        // It does not delay a vBucket that is hurried alone either.
        queue.hurry(VBucketID(3))
        #expect(queue.nextStart() == 0)
        queue.committed(100, began: at(1_000), ended: at(1_020))
        #expect(numbers(queue.removeNextBatch(now: at(1_030))) == [3])
        #expect(queue.nextStart() == at(end))
        // The lane rests for the other vBuckets.
        #expect(numbers(queue.removeNextBatch(now: at(end))) == [2, 4])
        #expect(queue.nextStart() == at(1_020 + 300))
    }

    @Test func vBucketOfEarlierCommitIsNoLongerHurried() {
        var queue = queue
        queue.add(VBucketID(1), since: at(1_000))
        queue.hurry(VBucketID(1), gatheringFrom: at(1_240))
        #expect(queue.nextStart() == at(1_250))
        #expect(numbers(queue.removeNextBatch(now: at(1_250))) == [1])
        queue.add(VBucketID(1), since: at(1_260))
        #expect(queue.nextStart() == at(1_510))
    }

    @Test func timeToPersistIsTheCostOfEarlierCommitsForEachWaitingVBucket() {
        var queue = queue
        queue.add(VBucketID(1), since: at(1_000))
        #expect(queue.nanosecondsToPersist == 0, "no commit was measured")
        #expect(queue.removeNextBatch(now: at(1_250)).count == 1)
        queue.committed(4, began: at(1_250), ended: at(1_270))
        #expect(queue.nanosecondsToPersist == 0, "nothing waits")
        for number in UInt16(1)...3 { queue.add(VBucketID(number), since: at(1_300)) }
        #expect(queue.nanosecondsToPersist == at(15))
    }

    @Test func lightLoadCausesNoRest() {
        var queue = queue
        queue.committed(4, began: at(1_000), ended: at(1_005))
        queue.add(VBucketID(1), since: at(1_001))
        #expect(queue.nextStart() == at(1_251))
    }

    @Test func heavyLoadMakesLaneRestBetweenCommits() {
        var queue = queue
        queue.committed(100, began: at(1_000), ended: at(1_050))
        queue.add(VBucketID(1), since: at(1_000))
        // Fifteen times 50 ms after its end.
        #expect(queue.nextStart() == at(1_800))
    }

    @Test func restEndsBeforeAnyChangeExceedsMaximumAge() {
        var queue = queue
        queue.committed(100, began: at(1_000), ended: at(1_400))
        for number in UInt16(0)..<100 { queue.add(VBucketID(number), since: at(1_000)) }
        // A vBucket cost 4 ms; the last of a hundred has to begin in time.
        #expect(queue.nextStart() == at(1_000 + 1_500 - 400))
        // A recent change does not make it wait.
        queue.add(VBucketID(100), since: at(1_500))
        #expect(queue.nextStart() == at(2_100))
    }

    @Test func commitNeverBeginsBeforeDelayDespiteAge() {
        var queue = queue
        queue.committed(1, began: at(0), ended: at(3_000))
        queue.add(VBucketID(1), since: at(3_000))
        queue.add(VBucketID(2), since: at(3_000))
        #expect(queue.nextStart() == at(3_250))
    }

    @Test func hurriedVBucketIsCommittedAloneDuringRest() {
        var queue = queue
        queue.committed(100, began: at(1_000), ended: at(1_050))
        for number in UInt16(0)..<5 { queue.add(VBucketID(number), since: at(1_050)) }
        queue.hurry(VBucketID(3))
        #expect(queue.nextStart() == 0)
        #expect(numbers(queue.removeNextBatch(now: at(1_060))) == [3])
        queue.committed(1, began: at(1_060), ended: at(1_061))
        #expect(queue.nextStart() ?? 0 > at(1_061))
    }

    @Test func completedHurryDoesNotHurryLaterChanges() {
        var queue = queue
        queue.committed(100, began: at(1_000), ended: at(1_050))
        queue.add(VBucketID(3), since: at(1_050))
        queue.hurry(VBucketID(3))
        #expect(numbers(queue.removeNextBatch(now: at(1_060))) == [3])
        // It changed during its commit, and no caller waits for that.
        queue.add(VBucketID(3), since: at(1_060))
        queue.committed(1, began: at(1_060), ended: at(1_061))
        #expect(queue.nextStart() ?? 0 >= at(1_310))
        // A caller that arrives during a commit waits for the next one.
        _ = queue.removeNextBatch(now: at(1_310))
        queue.hurry(VBucketID(3))
        queue.add(VBucketID(3), since: at(1_310))
        queue.committed(1, began: at(1_310), ended: at(1_311))
        #expect(queue.nextStart() == 0)
    }

    @Test func unservedHurriedVBucketStaysFirst() {
        var queue = queue
        for number in UInt16(0)..<4 { queue.add(VBucketID(number), since: at(1_000)) }
        queue.hurry(VBucketID(2))
        let taken = queue.removeNextBatch(now: at(1_010))
        queue.putBack(taken)
        queue.committed(4, began: at(1_010), ended: at(1_100))
        #expect(queue.nextStart() == 0)
        #expect(numbers(queue.removeNextBatch(now: at(1_110))).first == 2)
    }

    @Test func hurriedCommitIncludesAllVBucketsOutsideRest() {
        var queue = queue
        for number in UInt16(0)..<5 { queue.add(VBucketID(number), since: at(1_000)) }
        queue.hurry(VBucketID(3))
        #expect(numbers(queue.removeNextBatch(now: at(1_060))) == [3, 0, 1, 2, 4])
    }

    @Test func hurryOfCleanVBucketEndsWithNextCommit() {
        var queue = queue
        queue.hurry(VBucketID(9))
        queue.add(VBucketID(1), since: at(1_000))
        #expect(queue.nextStart() == at(1_250))
        #expect(numbers(queue.removeNextBatch(now: at(1_250))) == [1])
        queue.committed(1, began: at(1_250), ended: at(1_251))
        queue.add(VBucketID(9), since: at(1_300))
        #expect(queue.nextStart() == at(1_550))
    }

    @Test func hurryAllCoversChangesUntilNow() {
        var queue = queue
        queue.committed(100, began: at(1_000), ended: at(1_050))
        queue.add(VBucketID(1), since: at(1_000))
        queue.add(VBucketID(2), since: at(1_100))
        queue.hurryAll(now: at(1_050))
        #expect(queue.nextStart() == 0)
        #expect(numbers(queue.removeNextBatch(now: at(1_110))) == [1])
        #expect(queue.nextStart() ?? 0 > at(1_110))
    }

    @Test func entriesPutBackPrecedeLaterEntries() {
        var queue = queue
        for number in UInt16(0)..<4 {
            queue.add(VBucketID(number), since: at(UInt64(1_000 + number)))
        }
        let taken = queue.removeNextBatch(now: at(1_250))
        queue.add(VBucketID(9), since: at(1_260))
        queue.putBack(taken.dropFirst(1))
        #expect(numbers(queue.entries) == [1, 2, 3, 9])
    }
}
