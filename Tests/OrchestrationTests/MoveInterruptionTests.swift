import Orchestration
import Testing
import Vocabulary

/// Moves with stops, lost nodes and leader changes.
@Suite struct MoveInterruptionTests {
    private let place = "vBucket 17 of the bucket “travel” does not move on:"
    private let final = CopyPosition(branchFence: 5, covered: Seqno(120))

    // MARK: A changed plan

    @Test func changedPlanEndsAMoveBeforeTheJointPhaseOnly() {
        var course = MoveCourse([1], [1, 2])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        #expect(course.handle(.planChanged) == [.end(.needsPlan)])
        // A move in the joint phase is completed; another move removes the extra copy.
        var joint = MoveCourse([1], [1, 2], beginning: .joint)
        _ = joint.reports(1, 100, joint: 100, state: .active)
        #expect(joint.handle(.planChanged) == [])
        #expect(joint.reports(2, 100) == [.propose(.final(fence: 10))])
    }

    // MARK: Stopping

    @Test func stopEndsABuildAtOnceAndKeepsItsCopies() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        let kept: UInt64 = 601_000_000_000
        #expect(
            course.handle(.stop) == [.end(.stopped(keepBuildsUntilNanoseconds: kept))]
        )
    }

    @Test func stopRevertsTheJointPhaseAfterASecond() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(3, 100)
        _ = course.handle(.applied(fence: 10))
        var patient = course
        #expect(patient.handle(.stop) == [])
        #expect(
            patient.reports(1, 100, joint: 100, state: .active) == [.propose(.final(fence: 10))]
        )

        #expect(course.handle(.stop) == [])
        #expect(course.advanceTime(999) == [])
        #expect(course.advanceTime(1) == [.propose(.resume(fence: 10))])
        guard case .end(.stopped)? = course.handle(.applied(fence: 40)).last else {
            Issue.record("the old chain stands")
            return
        }
    }

    @Test func stopDoesNotInterruptAHandOver() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        #expect(course.handle(.stop) == [])
        #expect(
            course.handle(.drained(final, fence: 10))
                == [.propose(.takeOver(fence: 10, final: final))]
        )
    }

    // MARK: Lost nodes

    @Test func moveWaitsForAnUnreachableNode() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        #expect(course.handle(.lost(NodeNumber(3))) == [])
        #expect(course.why == "\(place) db3 cannot be reached.")
        #expect(course.handle(.returned(NodeNumber(3))) == [])
        // Its earlier report may be outdated.
        #expect(course.why == "\(place) db3 has not answered yet.")
        #expect(course.reports(3, 100) == [.propose(.joint(fence: 10))])
    }

    @Test func failoverEndsABuildAndRevertsTheJointPhase() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        var building = course
        #expect(building.handle(.failedOver(NodeNumber(3))) == [.end(.needsPlan)])
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(3, 100)
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

    @Test func restartedCopyDoesNotCountForTheTargetChain() {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(3, 100)
        _ = course.handle(.applied(fence: 10))
        _ = course.reports(3, 100, isIntact: false)
        #expect(course.reports(1, 100, joint: 100, state: .active) == [])
        #expect(course.why == "\(place) db3 is still copying the existing data.")
    }

    @Test func successorThatCannotServeNeedsAPromotion() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        _ = course.handle(.drained(final, fence: 10))
        _ = course.handle(.applied(fence: 30))
        #expect(course.handle(.cannotServe(fence: 10)) == [])
        #expect(course.handle(.cannotServe(fence: 30)) == [.end(.needsPromotion)])
    }

    @Test func refusedProposalEndsMoveAsSuperseded() {
        var course = MoveCourse.waitingForItsTurn()
        _ = course.handle(.turn)
        _ = course.handle(.drained(final, fence: 10))
        #expect(course.handle(.refused) == [.end(.superseded)])
    }

    @Test func moveFailsAfterTenMinutesWithoutProgress() throws {
        var course = MoveCourse([1, 2], [1, 3])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(3, 100, isIntact: false)
        #expect(course.advanceTime(599_999) == [])
        let actions = course.advanceTime(1)
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

    @Test func newLeaderContinuesFromThePlacement() {
        var joint = MoveCourse([1, 2], [1, 3], beginning: .joint)
        #expect(joint.procedure.begin() == [])
        _ = joint.reports(1, 100, joint: 90, state: .active)
        #expect(joint.reports(3, 90) == [.propose(.final(fence: 10))])

        var former = MoveCourse([1, 2], [3, 2], beginning: .former)
        #expect(former.procedure.begin() == [])
        #expect(former.reports(3, 130, disk: 120, state: .active) == [])
        // The new leader does not know the final position, so it waits for everything that the
        // successor has.
        #expect(
            former.reports(3, 140, disk: 130, state: .active).last == .end(.done)
        )
    }
}
