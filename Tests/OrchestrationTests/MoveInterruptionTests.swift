import Orchestration
import Testing
import Vocabulary

/// What a move does when it is stopped, when nodes go, and when another node leads.
@Suite struct MoveInterruptionTests {
    private let place = "vBucket 17 of the bucket “travel” does not move on:"
    private let final = CopyPosition(branchFence: 5, covered: Seqno(120))

    // MARK: Another plan

    @Test func aCopyThatNobodyWantsAnyMoreIsNotWaitedFor() {
        var course = MoveCourse([1], [1, 2])
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        #expect(course.handle(.planChanged) == [.end(.needsPlan)])
        // What counts already is brought to its end, and taken out by a move of its own.
        var joint = MoveCourse([1], [1, 2], beginning: .joint)
        _ = joint.says(1, 100, joint: 100, state: .active)
        #expect(joint.handle(.planChanged) == [])
        #expect(joint.says(2, 100) == [.propose(.final(fence: 10))])
    }

    // MARK: Stopping

    @Test func aStopEndsABuildAtOnceAndKeepsWhatWasBuilt() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        let kept: UInt64 = 601_000_000_000
        #expect(
            course.handle(.stop) == [.end(.stopped(keepBuildsUntilNanoseconds: kept))]
        )
    }

    @Test func aStopWaitsASecondForTwoChains() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        _ = course.says(3, 100)
        _ = course.handle(.applied(fence: 10))
        var patient = course
        #expect(patient.handle(.stop) == [])
        #expect(
            patient.says(1, 100, joint: 100, state: .active) == [.propose(.final(fence: 10))]
        )

        #expect(course.handle(.stop) == [])
        #expect(course.passes(999) == [])
        #expect(course.passes(1) == [.propose(.resume(fence: 10))])
        guard case .end(.stopped)? = course.handle(.applied(fence: 40)).last else {
            Issue.record("the old chain stands")
            return
        }
    }

    @Test func aHandOverThatBeganIsFinishedInSpiteOfAStop() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        #expect(course.handle(.stop) == [])
        #expect(
            course.handle(.drained(final, fence: 10))
                == [.propose(.takeOver(fence: 10, final: final))]
        )
    }

    // MARK: Nodes that go

    @Test func aLostNodeHoldsTheMoveUntilItReturns() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        #expect(course.handle(.lost(NodeNumber(3))) == [])
        #expect(course.why == "\(place) db3 cannot be reached.")
        #expect(course.handle(.returned(NodeNumber(3))) == [])
        // What it said before may be true no more.
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.says(3, 100) == [.propose(.joint(fence: 10))])
    }

    @Test func aFailedOverNodeEndsABuildAndRevertsTwoChains() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        var building = course
        #expect(building.handle(.failedOver(NodeNumber(3))) == [.end(.needsPlan)])
        _ = course.says(1, 100, state: .active)
        _ = course.says(3, 100)
        // One proposal at a time.
        var joining = course
        #expect(joining.handle(.failedOver(NodeNumber(3))) == [])
        #expect(joining.handle(.applied(fence: 10)) == [.propose(.resume(fence: 10))])
        _ = course.handle(.applied(fence: 10))
        var other = course
        #expect(other.handle(.failedOver(NodeNumber(1))) == [.end(.superseded)])
        #expect(course.handle(.failedOver(NodeNumber(9))) == [])
        #expect(
            course.handle(.failedOver(NodeNumber(3))) == [.propose(.resume(fence: 10))]
        )
        #expect(course.handle(.applied(fence: 40)) == [.end(.needsPlan)])
    }

    @Test func aCopyThatStartsAnewIsNotCountedByTheSecondChain() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        _ = course.says(3, 100)
        _ = course.handle(.applied(fence: 10))
        _ = course.says(3, 100, isIntact: false)
        #expect(course.says(1, 100, joint: 100, state: .active) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
    }

    @Test func aSuccessorThatIsNotWhatItWasCallsForAPromotion() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        _ = course.handle(.drained(final, fence: 10))
        _ = course.handle(.applied(fence: 30))
        #expect(course.handle(.cannotServe(fence: 10)) == [])
        #expect(course.handle(.cannotServe(fence: 30)) == [.end(.needsPromotion)])
    }

    @Test func whatWasRefusedWasDecidedBySomebodyElse() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        _ = course.handle(.drained(final, fence: 10))
        #expect(course.handle(.refused) == [.end(.superseded)])
    }

    @Test func tenMinutesWithoutProgressAreAFailure() throws {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.says(1, 100, state: .active)
        _ = course.says(3, 100, isIntact: false)
        #expect(course.passes(599_999) == [])
        let actions = course.passes(1)
        guard case .end(.failed(let obstacle))? = actions.first else {
            Issue.record("\(actions)")
            return
        }
        #expect(
            obstacle.sentence(bucket: "travel") { "db\($0.value)" }
                == "\(place) db3 is still copying the existing data."
        )
        #expect(obstacle.step == .building)
    }

    // MARK: A new leader

    @Test func aNewLeaderGoesOnFromTheRow() {
        var joint = MoveCourse([1, 2], [1, 3], beginning: .joint)
        #expect(joint.procedure.begin() == [])
        _ = joint.says(1, 100, joint: 90, state: .active)
        #expect(joint.says(3, 90) == [.propose(.final(fence: 10))])

        var former = MoveCourse([1, 2], [3, 2], beginning: .former)
        #expect(former.procedure.begin() == [])
        #expect(former.says(3, 130, disk: 120, state: .active) == [])
        // It does not know the last word, so it waits for all that the successor has.
        #expect(
            former.says(3, 140, disk: 130, state: .active).last == .end(.done)
        )
    }
}
