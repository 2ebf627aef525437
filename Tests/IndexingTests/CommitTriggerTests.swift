import Indexing
import Testing

/// When an index commits.
@Suite struct CommitTriggerTests {
    private let millisecond: UInt64 = 1_000_000

    @Test func nothingPendingIsNeverDue() {
        var trigger = CommitTrigger()
        #expect(trigger.dueAt == nil && trigger.isEmpty)
        trigger.add(documents: 1, bytes: 1, now: 5)
        trigger.committed(costNanoseconds: 1)
        #expect(trigger.dueAt == nil && trigger.isEmpty)
    }

    @Test func pauseCountsFromTheFirstChange() {
        var trigger = CommitTrigger()
        trigger.add(documents: 1, bytes: 10, now: 100)
        trigger.add(documents: 1, bytes: 10, now: 15 * millisecond)
        #expect(trigger.dueAt == 100 + 20 * millisecond)
        #expect(!trigger.isDue(20 * millisecond) && trigger.isDue(100 + 20 * millisecond))
    }

    @Test func waitingQueryShortensThePause() {
        var trigger = CommitTrigger()
        trigger.add(documents: 1, bytes: 10, now: 0)
        trigger.isAwaited = true
        #expect(trigger.dueAt == 5 * millisecond)
    }

    @Test func expensiveCommitStretchesThePauseUpToABound() {
        var trigger = CommitTrigger()
        trigger.committed(costNanoseconds: 4 * millisecond)
        trigger.add(documents: 1, bytes: 10, now: 0)
        #expect(trigger.dueAt == 80 * millisecond)
        trigger.committed(costNanoseconds: .max)
        trigger.add(documents: 1, bytes: 10, now: 0)
        #expect(trigger.dueAt == 1_000 * millisecond)
    }

    @Test(arguments: [(5_000, 1), (1, 4 << 20)])
    func largeCommitIsDueAtOnce(_ documents: Int, _ bytes: Int) {
        var trigger = CommitTrigger()
        trigger.add(documents: documents, bytes: bytes, now: 7)
        #expect(trigger.isDue(7))
    }

    @Test func advancedPositionIsCommittedToo() {
        var trigger = CommitTrigger()
        trigger.add(documents: 0, bytes: 0, now: 0)
        #expect(trigger.isDue(20 * millisecond))
        trigger.discard()
        #expect(trigger.isEmpty)
    }
}
