import Consensus
import Testing
import Vocabulary

/// Members come, go and change places while the group works.
@Suite struct MembershipTests {
    private func node(_ number: UInt16) -> NodeNumber { NodeNumber(number) }

    @Test func aLearnerCatchesUpAndIsMadeAVoter() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        for number in 0..<5 { group.propose(1, "\(number)") }
        group.step(1, .change(ConfigurationChange([.addLearner(node(4))])))
        group.settle()
        group.tick(1, 2)
        #expect(group[4].commit == group[1].commit)
        #expect(group[4].configuration.learners == [node(4)])
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.settle()
        // Four voters need three.
        group.isolate(2)
        group.isolate(3)
        let before = group[1].commit
        group.propose(1, "needs three")
        #expect(group[1].commit == before)
        group.heal()
        group.tick(1, 2)
        #expect(group[1].commit == before + 1)
    }

    /// Whoever is left alone may have forgotten what was agreed on, and who goes may be gone: whatever
    /// way it goes, who is left can lead.
    @Test(arguments: [ConfigurationChange.Transition.automatic, .jointLeftByItself])
    func whoIsLeftAloneLeadsWhateverItForgot(_ transition: ConfigurationChange.Transition) {
        var group = Group(voters: [1, 2])
        group.elect(1)
        group.tick(1, 2)
        let before = group[1].log.lastIndex
        group.step(1, .change(ConfigurationChange([.remove(node(2))], transition: transition)))
        group.settle()
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

    @Test func aLearnerDoesNotCount() {
        var group = Group(voters: [1, 2], learners: [3])
        group.elect(1)
        group.isolate(2)
        let before = group[1].commit
        group.propose(1, "x")
        #expect(group[1].commit == before && group[3].log.lastIndex == before + 1)
    }

    @Test func aJointChangeNeedsBothHalvesAndLeavesByItself() {
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
        group.settle()
        #expect(group[1].configuration.isJoint && group[1].commit == before)
        let refused = group.step(1, .change(.leave))?.proposal
        #expect(refused == .refused(.changeInProgress))
        group.heal()
        group.tick(1, 3)
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 4, 5].map(node)))
        #expect(group[1].commit == group[1].log.lastIndex)
        #expect(group[4].configuration == group[1].configuration)
    }

    @Test func anExplicitJointPhaseStaysUntilItIsLeft() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        let change = ConfigurationChange(
            [.remove(node(3)), .addVoter(node(4))],
            transition: .jointUntilLeft
        )
        group.step(1, .change(change))
        group.settle()
        group.tick(1, 3)
        #expect(group[1].configuration.isJoint)
        let other = ConfigurationChange([.addVoter(node(3))])
        let refused = group.step(1, .change(other))?.proposal
        #expect(refused == .refused(.configuration(.alreadyJoint)))
        group.step(1, .change(.leave))
        group.settle()
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 2, 4].map(node)))
    }

    @Test func aLeaderThatIsNotInTheNewConfigurationLeadsUntilItIsCommitted() {
        var group = Group(voters: [1, 2, 3], others: [4, 5])
        group.elect(1)
        let change = ConfigurationChange([
            .remove(node(1)), .addVoter(node(4)), .addVoter(node(5)),
        ])
        group.step(1, .change(change))
        group.settle()
        group.tick(1, 2)
        #expect(!group[1].isLeader)
        for number in UInt16(2)...5 { group.loseTrust(number) }
        group.elect(2)
        #expect(group[2].isLeader)
        #expect(group[2].configuration == VoterConfiguration(voters: [2, 3, 4, 5].map(node)))
        group.propose(2, "without 1")
        #expect(group[2].commit == group[2].log.lastIndex)
        // Whoever was removed asks in vain: the others hear their leader.
        group.tick(1, 50)
        #expect(group[2].isLeader)
    }

    @Test func aChangeThatIsCutOffIsForgottenWithItsEntry() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        group.isolate(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.settle()
        #expect(group[1].configuration.voters.count == 4)
        group.loseTrust(2)
        group.loseTrust(3)
        group.elect(2)
        group.heal()
        group.tick(2, 3)
        #expect(group[1].configuration.voters.count == 3)
        #expect(group.checker.violation == nil)
    }

    @Test func aNewLeaderChangesNothingBeforeItsFirstCommit() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.electUnheard(1)
        #expect(group[1].isLeader && group[1].commit == 0)
        let change = ConfigurationChange([.addVoter(node(4))])
        #expect(group.step(1, .change(change))?.proposal == .refused(.changeInProgress))
        group.tick(1, 2)
        let answer = group.step(1, .change(change))?.proposal
        #expect(answer == .accepted(first: LogPosition(term: 1, index: 2), count: 1))
    }

    @Test func aRestartFindsTheConfigurationInTheLog() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(4))])))
        group.settle()
        group.restart(2)
        #expect(group[2].configuration.voters.count == 4)
    }

    @Test func aGroupOfOneGrowsAndShrinks() {
        var group = Group(voters: [1], others: [2])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(2))])))
        group.settle()
        group.tick(1, 3)
        #expect(group[2].commit == group[1].commit && group[2].configuration.voters.count == 2)
        group.step(1, .change(ConfigurationChange([.remove(node(2))])))
        group.settle()
        group.crash(2)
        group.propose(1, "alone again")
        #expect(group[1].commit == group[1].log.lastIndex)
    }

    /// A member that never hears of its removal would ask for votes for ever.
    @Test func whoIsRemovedLearnsItAndStandsNoMore() {
        var group = Group(voters: [1, 2, 3, 4])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.remove(node(4))])))
        group.settle()
        let removal = group[1].log.configurationIndex
        #expect(group[1].configuration == VoterConfiguration(voters: [1, 2, 3].map(node)))
        #expect(group[4].commit == removal && group[4].configuration == group[1].configuration)
        // From then on it is sent nothing.
        #expect(group[1].progress.map(\.node) == [1, 2, 3].map(node))
        group.propose(1, "without 4")
        #expect(group[4].log.lastIndex == removal && group[1].commit == removal + 1)
        group.tick(4, 50)
        #expect(group[4].role == .follower && group[4].term == 1)
    }

    /// Of two voters one is removed, and knows of it; the other forgets it in a crash.
    ///
    /// By the newest configurations neither is elected: that one has no vote, this one's log is short.
    @Test func whoIsToGoStandsAsLongAsThatMayBeUndecided() {
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
        // Its removal is committed: it stands no more.
        #expect(group[2].commit >= removal && group[2].role == .follower)
        let term = group[2].term
        group.tick(2, 50)
        #expect(group[2].term == term)
        #expect(group.checker.violation == nil)
    }

    @Test func membersThatAJointChangeRemovesLearnIt() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.remove(node(2)), .remove(node(3))])))
        group.settle()
        let alone = VoterConfiguration(voters: [node(1)])
        for number in UInt16(1)...3 {
            #expect(group[number].configuration == alone)
            #expect(group[number].commit == group[1].log.lastIndex)
        }
        #expect(group[1].isLeader && group[1].progress.map(\.node) == [node(1)])
    }

    /// Who leaves does not count, however much it has.
    @Test func anAcknowledgementOfALeavingMemberIsNone() {
        var group = Group(voters: [1, 2, 3, 4])
        group.elect(1)
        group.cut = [[node(1), node(2)], [node(1), node(3)]]
        let before = group[1].commit
        group.step(1, .change(ConfigurationChange([.remove(node(4))])))
        group.settle()
        #expect(group[4].log.lastIndex == before + 1 && group[1].commit == before)
    }

    @Test func aPromotedLearnerCanLead() {
        var group = Group(voters: [1, 2], learners: [3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addVoter(node(3))])))
        group.settle()
        #expect(group[3].configuration.voters.count == 3)
        group.crash(1)
        group.loseTrust(2)
        group.tick(3, 11)
        #expect(group[3].isLeader && group[3].commit == group[3].log.lastIndex)
    }

    @Test func aDemotedVoterNeitherStandsNorCounts() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .change(ConfigurationChange([.addLearner(node(3))])))
        group.settle()
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
