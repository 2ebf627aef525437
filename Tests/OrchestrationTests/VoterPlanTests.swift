import Orchestration
import Testing
import Vocabulary

@Suite struct VoterPlanTests {
    private func plan(
        _ members: [(UInt16, String, Bool)],
        present: [UInt16] = []
    ) -> (voters: [UInt16], learners: [UInt16]) {
        let plan = VoterPlan(
            members.map { .init(NodeNumber($0.0), group: $0.1, isActive: $0.2) },
            present: present.map { NodeNumber($0) }
        )
        return (plan.voters.map(\.value), plan.learners.map(\.value))
    }

    @Test func allActiveNodesOfASmallClusterVote() {
        let (voters, learners) = plan([(1, "", true), (2, "", true), (3, "", false)])
        #expect(voters == [1, 2])
        #expect(learners == [3])
    }

    @Test func presentVotersStayInAClusterOfMoreThanSeven() {
        let members = (1...9).map { (UInt16($0), "", true) }
        #expect(plan(members, present: [2, 3, 4, 5, 6, 8, 9]).voters == [2, 3, 4, 5, 6, 8, 9])
        #expect(plan(members).voters == [1, 2, 3, 4, 5, 6, 7])
    }

    @Test func vacancyIsFilledFromTheGroupWithFewestVoters() {
        let groups: [(UInt16, String, Bool)] =
            (1...5).map { (UInt16($0), "east", true) } + (6...9).map { (UInt16($0), "west", true) }
        #expect(plan(groups, present: [1, 2, 3, 4, 5]).voters == [1, 2, 3, 4, 5, 6, 7])
        #expect(plan(groups).voters.count { $0 >= 6 } == 3)
    }

    @Test func failedOverNodeIsNoVoter() {
        let (voters, learners) = plan(
            [(1, "", true), (2, "", false), (3, "", true)],
            present: [1, 2, 3]
        )
        #expect(voters == [1, 3])
        #expect(learners == [2])
    }
}
