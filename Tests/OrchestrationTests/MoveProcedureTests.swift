import Orchestration
import Testing
import Vocabulary

/// One move step by step, without failures and under concurrent writes.
@Suite struct MoveProcedureTests {
    private let place = "vBucket 17 of the bucket “travel” does not move on:"
    private let final = CopyPosition(branchFence: 5, covered: Seqno(120))

    // MARK: Without failures

    @Test func activeCopyStoppedWithoutASuccessorIsResumed() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.reports(1, 100, state: .active)
        #expect(course.procedure.step == .waiting)
        // The leader that asked for the hand-over crashed before it proposed the takeover.
        let actions = course.reports(1, 100, state: .pending)
        #expect(actions == [.propose(.resume(fence: 10))])
        #expect(course.handle(.applied(fence: 11)) == [.end(.superseded)])

        var joint = MoveCourse([1, 2], [3, 2], beginning: .joint)
        #expect(
            joint.reports(1, 100, joint: 100, state: .pending) == [.propose(.resume(fence: 10))]
        )
    }

    @Test func absentNodesDoNotDelayTheCleanupAfterATakeover() {
        var course = MoveCourse([1, 2], [3, 2], beginning: .former)
        _ = course.handle(.lost(NodeNumber(1)))
        _ = course.handle(.lost(NodeNumber(2)))
        let actions = course.reports(3, 100, state: .active)
        #expect(actions.contains(.propose(.forgetFormer(fence: 10))))
        #expect(course.procedure.outcome == .done)
    }

    @Test func stopDoesNotWaitForTheSuccessorsDisk() {
        var course = MoveCourse([1, 2], [3, 2], beginning: .former)
        _ = course.handle(.lost(NodeNumber(3)))
        _ = course.handle(.stop)
        #expect(course.procedure.outcome == nil)
        _ = course.advanceTime(Limits.stopWaitMilliseconds)
        guard case .stopped = course.procedure.outcome else {
            Issue.record("\(String(describing: course.procedure.outcome))")
            return
        }
    }

    @Test func replicaMoveHasAJointPhase() {
        var course = MoveCourse([1, 2], [1, 3])
        #expect(course.procedure.begin() == [.build([NodeNumber(3)])])
        #expect(course.reports(1, 100, state: .active) == [])
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.reports(3, 100, isIntact: false) == [])
        // A copy that caught up with one active copy may lack changes of the next one.
        #expect(course.reports(3, 100, isIntact: true, hasCaughtUp: false) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.reports(1, 1_000, state: .active) == [])
        #expect(course.reports(3, 500) == [])
        #expect(course.why == "\(place) db3 is 500 changes behind.")
        // The copy is near enough, but its disk has to reach the seqno of this moment.
        #expect(course.reports(3, 950, disk: 700) == [])
        #expect(course.procedure.phase == .finishing)
        #expect(course.why == "\(place) db3 has yet to write 300 changes to disk.")
        #expect(course.reports(1, 1_040, state: .active) == [])
        #expect(course.reports(3, 1_000, isReady: false) == [])
        #expect(course.why == "\(place) db3 is not ready to serve it yet.")
        #expect(course.reports(3, 1_000) == [.propose(.joint(fence: 10))])
        #expect(course.procedure.step == .joining)
        #expect(course.handle(.applied(fence: 10)) == [])
        // Before the active copy knows of the target chain, no copy covers it.
        #expect(course.reports(3, 2_000) == [])
        #expect(course.why == "\(place) db1 has not answered yet.")
        #expect(course.reports(1, 2_100, joint: 2_050, state: .active) == [])
        #expect(course.why == "\(place) db3 is 50 changes behind.")
        #expect(course.reports(3, 2_050, disk: 0) == [.propose(.final(fence: 10))])
        #expect(
            course.handle(.applied(fence: 10))
                == [.dropCopies([NodeNumber(2)]), .end(.done)]
        )
        #expect(course.procedure.outcome == .done)
    }

    @Test func steadyWritesDoNotRaiseTheMarkOfACopy() {
        var course = MoveCourse([1, 2], [1, 3], demand: .majority)
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        #expect(course.reports(3, 100) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        #expect(course.reports(1, 200, joint: 200, state: .active) == [])
        // At each report the active copy is ahead of the disks.
        #expect(course.reports(3, 200, disk: 120) == [])
        #expect(course.reports(1, 300, disk: 210, joint: 300, state: .active) == [])
        #expect(course.why == "\(place) db3 has yet to write 80 changes to disk.")
        #expect(course.reports(3, 300, disk: 210) == [.propose(.final(fence: 10))])
    }

    @Test func changesLostInACrashAreNotWaitedFor() {
        var course = MoveCourse([1, 2], [1, 3], demand: .majority)
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        #expect(course.reports(3, 100, disk: 50) == [])
        #expect(course.why == "\(place) db3 has yet to write 50 changes to disk.")
        _ = course.reports(1, 80, state: .active)
        #expect(course.reports(3, 80) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        #expect(course.reports(1, 90, joint: 90, state: .active) == [])
        #expect(course.why == "\(place) db3 is 10 changes behind.")
        #expect(course.reports(1, 85, joint: 85, state: .active) == [])
        #expect(course.reports(3, 85) == [.propose(.final(fence: 10))])
    }

    /// The active copy had no replica, crashed, and lost changes that it had sent; the fence is the
    /// same.
    @Test func copyWithLostHistoryDoesNotCompleteTheBuild() {
        var course = MoveCourse([1], [1, 3])
        _ = course.procedure.begin()
        _ = course.reports(3, 90)
        #expect(course.reports(1, 60, state: .active, history: 2) == [])
        #expect(course.reports(1, 100, state: .active, history: 2) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.reports(3, 100, history: 2) == [.propose(.joint(fence: 10))])
        // The active copy began another history before it learned of the target chain.
        _ = course.handle(.applied(fence: 10))
        #expect(course.reports(1, 100, joint: 100, state: .active, history: 3) == [])
        #expect(course.reports(3, 105, history: 2) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.reports(3, 100, history: 3) == [.propose(.final(fence: 10))])
    }

    @Test func moveHandsTheActiveCopyOver() {
        var course = MoveCourse.waitingForItsTurn()
        #expect(course.procedure.step == .waiting)
        #expect(course.procedure.wantsTurn(now: 0))
        #expect(course.why == "\(place) db1 is busy with other takeovers.")
        #expect(
            course.handle(.turn)
                == [.askHandOver(of: NodeNumber(1), fence: 10, endsPrepares: false)]
        )
        #expect(course.procedure.phase == .takingOver)
        #expect(
            course.handle(.drained(final, fence: 10))
                == [.propose(.takeOver(fence: 10, final: final))]
        )
        #expect(course.handle(.applied(fence: 30)) == [])
        #expect(course.procedure.fence == 30)
        // Reports of the old fence are ignored.
        #expect(course.reports(3, 120, state: .active, fence: 10) == [])
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.reports(3, 125, disk: 119, state: .active) == [])
        #expect(course.why == "\(place) db3 has yet to write 1 change to disk.")
        #expect(
            course.reports(3, 125, disk: 120, state: .active) == [
                .propose(.forgetFormer(fence: 30)), .dropCopies([NodeNumber(1)]), .end(.done),
            ]
        )
    }

    @Test func roleSwapBuildsNoCopy() {
        var course = MoveCourse([1, 2], [2, 1])
        #expect(course.procedure.begin() == [])
        #expect(course.reports(1, 100, state: .active) == [])
        #expect(course.reports(2, 100, disk: 0) == [.propose(.joint(fence: 10))])
    }

    @Test func ephemeralMoveWaitsForNoDisk() {
        var course = MoveCourse([1], [2], demand: .ephemeral)
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        #expect(course.reports(2, 100, disk: 0) == [.propose(.joint(fence: 10))])
    }

    /// If clients use a persist level, disks have to reach the seqno at which the joint phase
    /// began.
    @Test(
        arguments: [
            (PersistDemand.memory, 0 as UInt64, 0 as UInt64, nil),
            (.active, 109, 110, "db3 has yet to write 1 change to disk."),
            (.active, 110, 0, nil),
            (.majority, 110, 109, "db2 has yet to write 1 change to disk."),
            (.majority, 110, 110, nil),
        ] as [(PersistDemand, UInt64, UInt64, String?)]
    )
    func moveWaitsForTheDisksOfThePersistLevel(
        _ demand: PersistDemand,
        _ diskOf3: UInt64,
        _ diskOf2: UInt64,
        _ obstacle: String?
    ) {
        var course = MoveCourse([1, 2], [3, 2], demand: demand)
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(2, 100)
        #expect(course.reports(3, 100) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        _ = course.reports(1, 110, joint: 110, state: .active)
        _ = course.reports(2, 110, disk: diskOf2)
        _ = course.reports(3, 110, disk: diskOf3)
        if let obstacle {
            #expect(course.why == "\(place) \(obstacle)")
        } else {
            #expect(course.procedure.step == .waiting)
        }
    }

    // MARK: Incomplete prepares

    @Test func handOverIsTriedTenTimesBeforePreparesAreEnded() {
        var course = MoveCourse.waitingForItsTurn()
        for attempt in 1...10 {
            #expect(
                course.handle(.turn)
                    == [.askHandOver(of: NodeNumber(1), fence: 10, endsPrepares: false)]
            )
            #expect(course.handle(.servesAgain(fence: 10)) == [])
            #expect(!course.procedure.wantsTurn(now: course.now * 1_000_000))
            _ = course.advanceTime(100)
            #expect(course.procedure.wantsTurn(now: course.now * 1_000_000))
            let times = attempt == 1 ? "1 time" : "\(attempt) times"
            #expect(
                course.why
                    == "\(place) db1 has durable writes that do not complete (tried \(times))."
            )
        }
        #expect(
            course.handle(.turn)
                == [.askHandOver(of: NodeNumber(1), fence: 10, endsPrepares: true)]
        )
    }

    @Test func unansweredHandOverIsReverted() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        #expect(course.advanceTime(1_999) == [])
        #expect(course.advanceTime(1) == [.propose(.resume(fence: 10))])
        // The final position arrives too late.
        #expect(course.handle(.drained(final, fence: 10)) == [])
        #expect(course.handle(.applied(fence: 40)) == [])
        #expect(course.procedure.step == .paused)
        #expect(course.why == "\(place) db1 did not hand it over; the move will be retried.")
        #expect(course.advanceTime(5_000) == [.build([NodeNumber(3)])])
        // The move is retried under the new fence, the next time after twice the delay.
        _ = course.reports(1, 200, state: .active)
        _ = course.reports(2, 200)
        #expect(course.reports(3, 200) == [.propose(.joint(fence: 40))])
    }
}
