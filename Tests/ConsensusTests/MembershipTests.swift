import Consensus
import Testing
import Vocabulary

/// Changes of the voter configuration in a running group.
@Suite struct MembershipTests {
    private func node(_ number: UInt16) -> NodeNumber { NodeNumber(number) }

    @Test func learnerCatchesUpAndIsPromotedToVoter() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        for number in 0..<5 { group.propose(1, "\(number)") }
        group.step(1, .change(ConfigurationChange([.addLearner(node(4))])))
        group.runUntilIdle()
        group.tick(1, 2)
        #expect(group[4].commit == group[1].commit)
        #expect(group[4].configuration.learners == [node(4)])
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.runUntilIdle()
        // A majority of four voters is three.
        group.isolate(2)
        group.isolate(3)
        let before = group[1].commit
        group.propose(1, "needs three")
        #expect(group[1].commit == before)
        group.heal()
        group.tick(1, 2)
        #expect(group[1].commit == before + 1)
    }

    /// The removed node is down and the remaining one has lost its commit index in a crash.
    @Test(arguments: [ConfigurationChange.Transition.automatic, .jointLeftByItself])
    func lastVoterLeadsAfterLosingItsCommitIndex(_ transition: ConfigurationChange.Transition) {
        var group = Group(voters: [1, 2])
        group.elect(1)
        group.tick(1, 2)
        let before = group[1].log.lastIndex
        group.step(1, .change(ConfigurationChange([.remove(node(2))], transition: transition)))
        group.runUntilIdle()
        group.tick(1, 2)
        let end = before + (transition == .automatic ? 1 : 2)
        #expect(group[1].commit == end && group[2].commit == end)
        #expect(group[1].configuration == VoterConfiguration(voters: [node(1)]))
        group.crash(2)
        group.crash(1)
        group.members[node(1)]?.disk.hardState.commit = before
        group.restart(1)
        #expect(group[1].commit == before)
        group.tick(1, 20)
        #expect(group[1].isLeader)
        group.propose(1, "alone")
        #expect(group[1].commit == group[1].log.lastIndex)
    }

    @Test func learnerDoesNotCountTowardAMajority() {
        var group = Group(voters: [1, 2], learners: [3])
        group.elect(1)
        group.isolate(2)
        let before = group[1].commit
        group.propose(1, "x")
        #expect(group[1].commit == before && group[3].log.lastIndex == before + 1)
    }

    @Test func jointChangeNeedsBothHalvesAndIsLeftAutomatically() {
        var group = Group(voters: [1, 2, 3], others: [4, 5])
        group.elect(1)
        let change = ConfigurationChange([
            .remove(node(2)), .remove(node(3)), .addVoter(node(4)), .addVoter(node(5)),
        ])
        // The new half alone is not enough.
        group.isolate(2)
        group.isolate(3)
        let before = group[1].commit
        group.step(1, .change(change))
        group.runUntilIdle()
        #expect(group[1].configuration.isJoint && group[1].commit == before)
        let refused = group.step(1, .change(.leave))?.proposal
        #expect(refused == .refused(.changeInProgress))
        group.heal()
        group.tick(1, 3)
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 4, 5].map(node)))
        #expect(group[1].commit == group[1].log.lastIndex)
        #expect(group[4].configuration == group[1].configuration)
    }

    @Test func explicitJointConfigurationStaysUntilLeaveIsProposed() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        let change = ConfigurationChange(
            [.remove(node(3)), .addVoter(node(4))],
            transition: .jointUntilLeft
        )
        group.step(1, .change(change))
        group.runUntilIdle()
        group.tick(1, 3)
        #expect(group[1].configuration.isJoint)
        let other = ConfigurationChange([.addVoter(node(3))])
        let refused = group.step(1, .change(other))?.proposal
        #expect(refused == .refused(.configuration(.alreadyJoint)))
        group.step(1, .change(.leave))
        group.runUntilIdle()
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 2, 4].map(node)))
    }

    @Test func removedLeaderLeadsUntilItsRemovalIsCommitted() {
        var group = Group(voters: [1, 2, 3], others: [4, 5])
        group.elect(1)
        let change = ConfigurationChange([
            .remove(node(1)), .addVoter(node(4)), .addVoter(node(5)),
        ])
        group.step(1, .change(change))
        group.runUntilIdle()
        group.tick(1, 2)
        #expect(!group[1].isLeader)
        for number in UInt16(2)...5 { group.passElectionTimeout(number) }
        group.elect(2)
        #expect(group[2].isLeader)
        #expect(group[2].configuration == VoterConfiguration(voters: [2, 3, 4, 5].map(node)))
        group.propose(2, "without 1")
        #expect(group[2].commit == group[2].log.lastIndex)
        // The removed node's requests are ignored: the other members hear their leader.
        group.tick(1, 50)
        #expect(group[2].isLeader)
    }

    @Test func changeWhoseEntryIsTruncatedIsReverted() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        group.isolate(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.runUntilIdle()
        #expect(group[1].configuration.voters.count == 4)
        group.passElectionTimeout(2)
        group.passElectionTimeout(3)
        group.elect(2)
        group.heal()
        group.tick(2, 3)
        #expect(group[1].configuration.voters.count == 3)
        #expect(group.checker.violation == nil)
    }

    @Test func newLeaderRefusesChangesBeforeItsFirstCommit() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.electAndDropMessages(1)
        #expect(group[1].isLeader && group[1].commit == 0)
        let change = ConfigurationChange([.addVoter(node(4))])
        #expect(group.step(1, .change(change))?.proposal == .refused(.changeInProgress))
        group.tick(1, 2)
        let answer = group.step(1, .change(change))?.proposal
        #expect(answer == .accepted(first: LogPosition(term: 1, index: 2), count: 1))
    }

    @Test func restartedMemberFindsTheConfigurationInItsLog() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.runUntilIdle()
        group.restart(2)
        #expect(group[2].configuration.voters.count == 4)
    }

    @Test func groupOfOneGrowsToTwoAndShrinksBack() {
        var group = Group(voters: [1], others: [2])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(2))])))
        group.runUntilIdle()
        group.tick(1, 3)
        #expect(group[2].commit == group[1].commit && group[2].configuration.voters.count == 2)
        group.step(1, .change(ConfigurationChange([.remove(node(2))])))
        group.runUntilIdle()
        group.crash(2)
        group.propose(1, "alone again")
        #expect(group[1].commit == group[1].log.lastIndex)
    }

    /// A member that does not learn of its removal campaigns for ever.
    @Test func removedMemberLearnsOfItsRemovalAndDoesNotCampaign() {
        var group = Group(voters: [1, 2, 3, 4])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.remove(node(4))])))
        group.runUntilIdle()
        let removal = group[1].log.configurationIndex
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 2, 3].map(node)))
        #expect(group[4].commit == removal && group[4].configuration == group[1].configuration)
        // From then on the leader sends it nothing.
        #expect(group[1].progress.map(\.node) == [1, 2, 3].map(node))
        group.propose(1, "without 4")
        #expect(group[4].log.lastIndex == removal && group[1].commit == removal + 1)
        group.tick(4, 50)
        #expect(group[4].role == .follower && group[4].term == 1)
    }

    /// Of two voters, 2 is removed and has that entry; 1 has lost it in a crash.
    ///
    /// If only the newest configuration counted, neither could be elected: 2 has no vote by its own
    /// log, and the log of 1 is shorter.
    @Test func memberCampaignsUntilItKnowsItsRemovalToBeCommitted() {
        var group = Group(voters: [1, 2])
        group.elect(1)
        group.propose(1, "before")
        group.step(1, .change(ConfigurationChange([.remove(node(2))])))
        while !group.network.isEmpty {
            group.deliver(group.network.removeFirst())
            group.sync(node(2))
        }
        group.restart(1)
        #expect(group[2].log.lastIndex == group[1].log.lastIndex + 1)
        #expect(group[1].configuration.voters.count == 2)
        #expect(group[2].configuration.voters == [node(1)])
        let removal = group[2].log.lastIndex
        for _ in 0..<60 {
            group.tick(1)
            group.tick(2)
        }
        #expect(group[1].isLeader)
        #expect(group[1].configuration.voters == [node(1)] && group[1].commit > removal)
        // The removal of 2 is committed: it does not campaign any more.
        #expect(group[2].commit >= removal && group[2].role == .follower)
        let term = group[2].term
        group.tick(2, 50)
        #expect(group[2].term == term)
        #expect(group.checker.violation == nil)
    }

    @Test func membersRemovedByAJointChangeLearnOfIt() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.remove(node(2)), .remove(node(3))])))
        group.runUntilIdle()
        let alone = VoterConfiguration(voters: [node(1)])
        for number in UInt16(1)...3 {
            #expect(group[number].configuration == alone)
            #expect(group[number].commit == group[1].log.lastIndex)
        }
        #expect(group[1].isLeader && group[1].progress.map(\.node) == [node(1)])
    }

    @Test func acknowledgementOfAMemberBeingRemovedDoesNotCount() {
        var group = Group(voters: [1, 2, 3, 4])
        group.elect(1)
        group.cut = [[node(1), node(2)], [node(1), node(3)]]
        let before = group[1].commit
        group.step(1, .change(ConfigurationChange([.remove(node(4))])))
        group.runUntilIdle()
        #expect(group[4].log.lastIndex == before + 1 && group[1].commit == before)
    }

    @Test func promotedLearnerCanLead() {
        var group = Group(voters: [1, 2], learners: [3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(3))])))
        group.runUntilIdle()
        #expect(group[3].configuration.voters.count == 3)
        group.crash(1)
        group.passElectionTimeout(2)
        group.tick(3, 11)
        #expect(group[3].isLeader && group[3].commit == group[3].log.lastIndex)
    }

    @Test func demotedVoterNeitherCampaignsNorCounts() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addLearner(node(3))])))
        group.runUntilIdle()
        #expect(group[3].configuration.learners == [node(3)])
        group.isolate(2)
        let before = group[1].commit
        group.propose(1, "on 1 and 3")
        #expect(group[3].log.lastIndex == before + 1 && group[1].commit == before)
        group.isolate(3)
        group.tick(3, 50)
        #expect(group[3].role == .follower && group[3].term == 1)
    }
}
