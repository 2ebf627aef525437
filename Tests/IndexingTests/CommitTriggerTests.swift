import Indexing
import Testing

/// When an index commits.
@Suite struct CommitTriggerTests {
    private let millisecond: UInt64 = 1_000_000

    @Test func triggerWithoutPendingChangesIsNotDue() {
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

    /// The cost of the last commit, and the pause behind it, in milliseconds.
    @Test(arguments: [
        (0, 20), (1, 20), (5, 20), (6, 24), (20, 80), (25, 100), (26, 100), (900, 100),
    ])
    func expensiveCommitStretchesThePauseUpToABound(_ cost: UInt64, _ pause: UInt64) {
        var trigger = CommitTrigger()
        trigger.committed(costNanoseconds: cost * millisecond)
        trigger.add(documents: 1, bytes: 10, now: 0)
        #expect(trigger.dueAt == pause * millisecond)
    }

    @Test func costBeyondAllBoundsDoesNotOverflow() {
        var trigger = CommitTrigger()
        trigger.committed(costNanoseconds: .max)
        trigger.add(documents: 1, bytes: 10, now: 0)
        #expect(trigger.dueAt == 100 * millisecond)
    }

    /// 1 000 updates per second, a commit that costs 2 ms and 50 us per document.
    @Test func pauseStaysBoundedUnderSteadyUpdates() {
        var trigger = CommitTrigger()
        var now: UInt64 = 0
        for _ in 0..<100 {
            trigger.add(documents: 1, bytes: 10, now: now)
            let pause = (trigger.dueAt ?? 0) - now
            #expect(pause <= 25 * millisecond)
            now += pause
            let cost = 2 * millisecond + pause / millisecond * 50_000
            trigger.committed(costNanoseconds: cost)
            now += cost
        }
    }

    @Test(arguments: [(5_000, 1), (1, 4 << 20)])
    func largeCommitIsDueAtOnce(_ documents: Int, _ bytes: Int) {
        var trigger = CommitTrigger()
        trigger.add(documents: documents, bytes: bytes, now: 7)
        #expect(trigger.isDue(7))
    }

    /// Documents, bytes, whether a query waits, and the pause in milliseconds while building.
    @Test(arguments: [
        (5_000, 1, false, 1_000), (19_999, 1, false, 1_000), (20_000, 1, false, 0),
        (1, 4 << 20, false, 1_000), (1, 16 << 20, false, 0),
        (4_999, 1, true, 5), (5_000, 1, true, 0), (1, 4 << 20, true, 0),
    ])
    func commitsOfABuildAreLargerUnlessAQueryWaits(
        _ documents: Int,
        _ bytes: Int,
        _ isAwaited: Bool,
        _ pause: UInt64
    ) {
        var trigger = CommitTrigger()
        trigger.isBuilding = true
        trigger.isAwaited = isAwaited
        trigger.add(documents: documents, bytes: bytes, now: 7)
        #expect(trigger.dueAt == 7 + pause * millisecond)
    }

    @Test func endOfABuildRestoresThePause() {
        var trigger = CommitTrigger()
        trigger.isBuilding = true
        trigger.add(documents: 5_000, bytes: 1, now: 0)
        #expect(!trigger.isDue(20 * millisecond))
        trigger.isBuilding = false
        #expect(trigger.isDue(0))
    }

    @Test func advancedPositionIsCommittedToo() {
        var trigger = CommitTrigger()
        trigger.add(documents: 0, bytes: 0, now: 0)
        #expect(trigger.isDue(20 * millisecond))
        trigger.discard()
        #expect(trigger.isEmpty)
    }
}
