import Orchestration
import Testing
import Vocabulary

/// The course of one move, step by step, as it should go and with writes in its way.
@Suite struct MoveProcedureTests {
    private let place = "vBucket 17 of the bucket “travel” does not move on:"
    private let final = CopyPosition(branchFence: 5, covered: Seqno(120))

    // MARK: As it should go

    @Test func anActiveCopyThatStoppedForNobodyIsToldToServeAgain() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.says(1, 100, state: .active)
        #expect(course.procedure.step == .waiting)
        // Whoever asked it to hand over crashed before it could say who takes over.
        let actions = course.says(1, 100, state: .pending)
        #expect(actions == [.propose(.resume(fence: 10))])
        #expect(course.handle(.applied(fence: 11)) == [.end(.superseded)])

        var joint = MoveCourse([1, 2], [3, 2], beginning: .joint)
        #expect(joint.says(1, 100, joint: 100, state: .pending) == [.propose(.resume(fence: 10))])
    }

    @Test func whatTookOverIsNotHeldUpByOthersThatAreAway() {
        var course = MoveCourse([1, 2], [3, 2], beginning: .former)
        _ = course.handle(.lost(NodeNumber(1)))
        _ = course.handle(.lost(NodeNumber(2)))
        let actions = course.says(3, 100, state: .active)
        #expect(actions.contains(.propose(.forgetFormer(fence: 10))))
        #expect(course.procedure.outcome == .done)
    }

    @Test func aStopDoesNotWaitForTheDiskOfWhoTookOver() {
        var course = MoveCourse([1, 2], [3, 2], beginning: .former)
        _ = course.handle(.lost(NodeNumber(3)))
        _ = course.handle(.stop)
        #expect(course.procedure.outcome == nil)
        _ = course.passes(Limits.stopWaitMilliseconds)
        guard case .stopped = course.procedure.outcome else {
            Issue.record("\(String(describing: course.procedure.outcome))")
            return
        }
    }

    @Test func aReplicaMovesThroughTwoChains() {
        var course = MoveCourse([1, 2], [1, 3])
        #expect(course.procedure.begin() == [.build([NodeNumber(3)])])
        #expect(course.says(1, 100, state: .active) == [])
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.says(3, 100, isIntact: false) == [])
        // What a copy proved to one active copy says nothing of what the next one has.
        #expect(course.says(3, 100, isIntact: true, hasCaughtUp: false) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.says(1, 1_000, state: .active) == [])
        #expect(course.says(3, 500) == [])
        #expect(course.why == "\(place) db3 is 500 changes behind.")
        // Near enough; but its disk has to have what there was at that moment.
        #expect(course.says(3, 950, disk: 700) == [])
        #expect(course.procedure.phase == .finishing)
        #expect(course.why == "\(place) db3 has yet to write 300 changes to disk.")
        #expect(course.says(1, 1_040, state: .active) == [])
        #expect(course.says(3, 1_000, isReady: false) == [])
        #expect(course.why == "\(place) db3 is not ready to serve it yet.")
        #expect(course.says(3, 1_000) == [.propose(.joint(fence: 10))])
        #expect(course.procedure.step == .joining)
        #expect(course.handle(.applied(fence: 10)) == [])
        // Before the active copy knows of the second chain, nothing is covered.
        #expect(course.says(3, 2_000) == [])
        #expect(course.why == "\(place) db1 has not answered yet.")
        #expect(course.says(1, 2_100, joint: 2_050, state: .active) == [])
        #expect(course.why == "\(place) db3 is 50 changes behind.")
        #expect(course.says(3, 2_050, disk: 0) == [.propose(.final(fence: 10))])
        #expect(
            course.handle(.applied(fence: 10))
                == [.dropCopies([NodeNumber(2)]), .end(.done)]
        )
        #expect(course.procedure.outcome == .done)
    }

    @Test func steadyWritesDoNotMoveTheMarkThatCopiesHaveToReach() {
        var course = MoveCourse([1, 2], [1, 3], demand: .majority)
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        #expect(course.says(3, 100) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        #expect(course.says(1, 200, joint: 200, state: .active) == [])
        // Each time that somebody looks, the active copy is further than the disks are.
        #expect(course.says(3, 200, disk: 120) == [])
        #expect(course.says(1, 300, disk: 210, joint: 300, state: .active) == [])
        #expect(course.why == "\(place) db3 has yet to write 80 changes to disk.")
        #expect(course.says(3, 300, disk: 210) == [.propose(.final(fence: 10))])
    }

    @Test func whatTheActiveCopyLostInACrashIsNotWaitedFor() {
        var course = MoveCourse([1, 2], [1, 3], demand: .majority)
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        #expect(course.says(3, 100, disk: 50) == [])
        #expect(course.why == "\(place) db3 has yet to write 50 changes to disk.")
        _ = course.says(1, 80, state: .active)
        #expect(course.says(3, 80) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        #expect(course.says(1, 90, joint: 90, state: .active) == [])
        #expect(course.why == "\(place) db3 is 10 changes behind.")
        #expect(course.says(1, 85, joint: 85, state: .active) == [])
        #expect(course.says(3, 85) == [.propose(.final(fence: 10))])
    }

    /// The active copy was alone, crashed, and lost what the others took of it; the fence is the same.
    @Test func whatWasCopiedOfAHistoryThatIsGoneCountsForNothing() {
        var course = MoveCourse([1], [1, 3])
        _ = course.procedure.begin()
        _ = course.says(3, 90)
        #expect(course.says(1, 60, state: .active, history: 2) == [])
        #expect(course.says(1, 100, state: .active, history: 2) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.says(3, 100, history: 2) == [.propose(.joint(fence: 10))])
        // It began another one before it heard of the second chain.
        _ = course.handle(.applied(fence: 10))
        #expect(course.says(1, 100, joint: 100, state: .active, history: 3) == [])
        #expect(course.says(3, 105, history: 2) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
        #expect(course.says(3, 100, history: 3) == [.propose(.final(fence: 10))])
    }

    @Test func anActiveIsHandedOver() {
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
        // Words of the old fence are none.
        #expect(course.says(3, 120, state: .active, fence: 10) == [])
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.says(3, 125, disk: 119, state: .active) == [])
        #expect(course.why == "\(place) db3 has yet to write 1 change to disk.")
        #expect(
            course.says(3, 125, disk: 120, state: .active) == [
                .propose(.forgetFormer(fence: 30)), .dropCopies([NodeNumber(1)]), .end(.done),
            ]
        )
    }

    @Test func aRoleSwapCopiesNothing() {
        var course = MoveCourse([1, 2], [2, 1])
        #expect(course.procedure.begin() == [])
        #expect(course.says(1, 100, state: .active) == [])
        #expect(course.says(2, 100, disk: 0) == [.propose(.joint(fence: 10))])
    }

    @Test func withoutADiskNoneIsWaitedFor() {
        var course = MoveCourse([1], [2], demand: .ephemeral)
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        #expect(course.says(2, 100, disk: 0) == [.propose(.joint(fence: 10))])
    }

    /// Where a persist level is used, disks have to have what the second chain starts with.
    @Test(
        arguments: [
            (PersistDemand.memory, 0 as UInt64, 0 as UInt64, nil),
            (.active, 109, 110, "db3 has yet to write 1 change to disk."),
            (.active, 110, 0, nil),
            (.majority, 110, 109, "db2 has yet to write 1 change to disk."),
            (.majority, 110, 110, nil),
        ] as [(PersistDemand, UInt64, UInt64, String?)]
    )
    func persistLevelsAskForDisks(
        _ demand: PersistDemand,
        _ diskOf3: UInt64,
        _ diskOf2: UInt64,
        _ obstacle: String?
    ) {
        var course = MoveCourse([1, 2], [3, 2], demand: demand)
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        _ = course.says(2, 100)
        #expect(course.says(3, 100) == [.propose(.joint(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        _ = course.says(1, 110, joint: 110, state: .active)
        _ = course.says(2, 110, disk: diskOf2)
        _ = course.says(3, 110, disk: diskOf3)
        if let obstacle {
            #expect(course.why == "\(place) \(obstacle)")
        } else {
            #expect(course.procedure.step == .waiting)
        }
    }

    // MARK: Prepares in the way

    @Test func preparesThatDoNotCompleteAreTriedTenTimes() {
        var course = MoveCourse.waitingForItsTurn()
        for attempt in 1...10 {
            #expect(
                course.handle(.turn)
                    == [.askHandOver(of: NodeNumber(1), fence: 10, endsPrepares: false)]
            )
            #expect(course.handle(.servesAgain(fence: 10)) == [])
            #expect(!course.procedure.wantsTurn(now: course.now * 1_000_000))
            _ = course.passes(100)
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

    @Test func whoSaysNothingWhenAskedToStopLosesItsTurn() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        #expect(course.passes(1_999) == [])
        #expect(course.passes(1) == [.propose(.resume(fence: 10))])
        // Its last word comes too late.
        #expect(course.handle(.drained(final, fence: 10)) == [])
        #expect(course.handle(.applied(fence: 40)) == [])
        #expect(course.procedure.step == .paused)
        #expect(course.why == "\(place) db1 did not hand it over; the move will be retried.")
        #expect(course.passes(5_000) == [.build([NodeNumber(3)])])
        // Tried again under the new fence, then after twice as long.
        _ = course.says(1, 200, state: .active)
        _ = course.says(2, 200)
        #expect(course.says(3, 200) == [.propose(.joint(fence: 40))])
    }
}
