import Indexing
import Testing

/// When the log of an index is copied, and when commits wait.
@Suite struct CheckpointPlanTests {
    private func makePlan() -> CheckpointPlan {
        var limits = CheckpointPlan.Limits()
        limits.pagesMax = 10
        limits.heldPagesMin = 100
        return CheckpointPlan(limits)
    }

    /// The size of the log, whether a checkpoint begins, and whether commits wait.
    @Test(arguments: [
        (0, false, false), (10, false, false), (11, true, false), (99, true, false),
        (100, true, true), (500, true, true),
    ])
    func sizeOfWALDecidesCheckpointAndHoldOfCommits(_ pages: Int, _ begins: Bool, _ holds: Bool) {
        var plan = makePlan()
        #expect(plan.committed(walPages: pages) == begins)
        #expect(plan.holdsCommits == holds)
    }

    @Test func commitsContinueBesideACheckpointOfASmallLog() {
        var plan = makePlan()
        #expect(plan.committed(walPages: 11) == true)
        #expect(!plan.committed(walPages: 20) && !plan.holdsCommits)
        #expect(plan.ended() == false)
        #expect(plan.committed(walPages: 21) == true)
    }

    @Test func commitsWaitForACheckpointThatBeginsBehindThem() {
        var plan = makePlan()
        #expect(plan.committed(walPages: 11) == true)
        #expect(!plan.committed(walPages: 100) && plan.holdsCommits)
        #expect(plan.ended() && plan.holdsCommits)
        #expect(!plan.ended() && !plan.holdsCommits)
    }

    @Test func commitsAreHeldAtSameSizeOfRestartedWAL() {
        var plan = makePlan()
        #expect(plan.committed(walPages: 120) == true)
        #expect(plan.ended() == false)
        #expect(plan.committed(walPages: 5) == false)
        #expect(plan.committed(walPages: 99) && !plan.holdsCommits)
        #expect(plan.ended() == false)
        #expect(plan.committed(walPages: 100) && plan.holdsCommits)
    }

    /// A reader of an old snapshot keeps the log from beginning again.
    @Test func commitsAreHeldOnceUnrestartedWALHasGrownAsMuchAgain() {
        var plan = makePlan()
        #expect(plan.committed(walPages: 120) == true)
        #expect(plan.ended() == false)
        #expect(plan.committed(walPages: 0) == false)
        for pages in [121, 180, 219] {
            #expect(plan.committed(walPages: pages) && !plan.holdsCommits)
            #expect(plan.ended() == false)
        }
        #expect(plan.committed(walPages: 220) && plan.holdsCommits)
    }

    @Test func failedCheckpointReleasesCommitsAndIsRepeated() {
        var plan = makePlan()
        #expect(plan.committed(walPages: 100) && plan.holdsCommits)
        plan.failed()
        #expect(!plan.holdsCommits)
        #expect(plan.committed(walPages: 101) && !plan.holdsCommits)
    }

    @Test func requestWhileACheckpointRunsIsCarriedOutBehindIt() {
        var plan = makePlan()
        #expect(plan.request() == true)
        #expect(plan.request() == false)
        #expect(plan.ended() == true)
        #expect(!plan.ended() && !plan.holdsCommits)
    }
}
