import Consensus
import Testing
import Vocabulary

/// Elections and leadership transfers, in scripted groups.
@Suite struct ElectionTests {
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)
    private let three = NodeNumber(3)

    @Test func electedLeaderCommitsAnEmptyEntry() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        #expect(group[1].isLeader && group[1].term == 1)
        #expect(group[2].leader == one && group[3].leader == one)
        group.tick(1)
        #expect([1, 2, 3].map { group[$0].commit } == [1, 1, 1])
    }

    @Test func singleMemberLeadsOnceItsVoteIsOnDisk() {
        var group = Group(voters: [1])
        group.step(1, .campaign)
        #expect(!group[1].isLeader)
        group.sync(one)
        #expect(group[1].isLeader && group[1].commit == 0)
        group.sync(one)
        #expect(group[1].commit == 1)
    }

    @Test func voteIsNotSentBeforeItIsOnDisk() {
        var group = Group(voters: [1, 2, 3])
        group.step(1, .campaign)
        // A pre-vote changes nothing on disk, so it is answered at once.
        while !group.network.isEmpty { group.deliver(group.network.removeFirst()) }
        #expect(group[1].role == .candidate && group.network.isEmpty)
        group.sync(one)
        let request = group.network.removeFirst()
        group.deliver(request)
        #expect(group[2].vote == one && !group.network.contains { $0.message.from == two })
        group.sync(two)
        #expect(group.network.contains { $0.message.from == two })
    }

    @Test func followerCampaignsAfterTheElectionTimeout() {
        var group = Group(voters: [1, 2, 3])
        group.tick(2, 9)
        #expect(group[2].role == .follower)
        group.tick(2)
        #expect(group[2].isLeader)
    }

    @Test func electionTimeoutDependsOnTheDice() {
        var group = Group(voters: [1, 2, 3])
        group.tick(2, 13, dice: 4)
        #expect(group[2].role == .follower)
        group.tick(2, 1, dice: 4)
        #expect(group[2].isLeader)
    }

    @Test func memberReturningFromIsolationDoesNotDeposeTheLeader() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(3)
        group.tick(3, 100)
        #expect(group[3].term == 1 && group[3].role == .preCandidate)
        group.propose(1, "meanwhile")
        group.heal()
        group.tick(3, 20)
        #expect(group[1].isLeader && group[1].term == 1)
        group.tick(1)
        #expect(group[3].leader == one && group[3].commit == group[1].commit)
    }

    /// Also without a leader, a member with a short log gets no pre-votes and raises no term.
    @Test(arguments: [Sabotage.none, .preVoteWithoutLogCheck])
    func candidateWithAShortLogDoesNotRaiseTheTerm(_ sabotage: Sabotage) {
        var group = Group(voters: [1, 2, 3], sabotage: sabotage)
        group.elect(1)
        group.isolate(3)
        group.propose(1, "unknown to 3")
        group.crash(1)
        group.heal()
        // 2 no longer follows a leader and does not campaign; 3 requests votes with a shorter log.
        group.passElectionTimeout(2)
        group.tick(3, 60)
        #expect((group[3].term == 1) == (sabotage == .none))
        #expect(!group[3].isLeader)
    }

    @Test func leaderWithoutAMajorityStepsDown() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(1)
        group.tick(1, 19)
        #expect(group[1].isLeader)
        group.tick(1)
        #expect(!group[1].isLeader && group[1].leader == nil)
        let answer = group.step(1, .propose([[1]]))?.proposal
        #expect(answer == .refused(.notLeader(nil)))
    }

    @Test func followerOfALiveLeaderIgnoresVoteRequests() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.tick(1)
        group.elect(2)
        #expect(group[1].isLeader && group[2].role == .preCandidate && group[2].term == 1)
    }

    @Test func deposedLeaderStepsDownOnAResponseOfALaterTerm() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(1)
        group.passElectionTimeout(2)
        group.passElectionTimeout(3)
        group.elect(2)
        #expect(group[1].isLeader && group[2].isLeader && group[2].term > group[1].term)
        group.heal()
        group.tick(1)
        #expect(!group[1].isLeader && group[1].term == group[2].term)
    }

    @Test func leadershipTransferNeedsNoElectionTimeout() {
        var group = Group(voters: [1, 2, 3], learners: [4])
        group.elect(1)
        group.isolate(3)
        group.propose(1, "missing on 3")
        #expect(group.step(1, .transfer(to: one))?.proposal == .refused(.noSuchVoter))
        #expect(
            group.step(1, .transfer(to: NodeNumber(4)))?.proposal == .refused(.noSuchVoter)
        )
        group.step(1, .transfer(to: three))
        group.runUntilIdle()
        let refused = group.step(1, .propose([[1]]))?.proposal
        #expect(refused == .refused(.transferring(to: three)))
        group.heal()
        group.tick(1)
        #expect(group[3].isLeader && group[3].term == 2 && group[1].leader == three)
    }

    @Test func failedTransferTimesOutAfterAnElectionTimeout() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(3)
        group.step(1, .transfer(to: three))
        group.tick(1, 10)
        #expect(group[1].isLeader)
        group.propose(1, "after the transfer")
        #expect(group[1].commit == 2)
    }

    /// A drain of the leader's node requests the transfer again and again.
    ///
    /// Between two attempts the leader must accept proposals.
    @Test func repeatedTransferRequestsDoNotExtendTheTimeout() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(3)
        var accepted = 0
        for _ in 0..<25 {
            if case .accepted = group.step(1, .propose([[1]]))?.proposal { accepted += 1 }
            group.step(1, .transfer(to: three))
            group.tick(1)
        }
        #expect(group[1].isLeader && accepted >= 2)
    }

    @Test func isolatedLeaderStepsDownDespiteRepeatedTransferRequests() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(1)
        for _ in 0..<25 {
            group.step(1, .transfer(to: two))
            group.tick(1)
        }
        #expect(!group[1].isLeader && group[1].leader == nil)
    }

    /// The target campaigns at once.
    ///
    /// The other voters still hear the old leader and vote nonetheless.
    @Test func transferDuringAJointChangeGoesOnlyToAVoterOfTheNewHalf() {
        var group = Group(voters: [1, 2, 3], others: [4])
        group.elect(1)
        let four = NodeNumber(4)
        let change = ConfigurationChange(
            [.remove(two), .addVoter(four)],
            transition: .jointUntilLeft
        )
        group.step(1, .change(change))
        group.runUntilIdle()
        group.tick(1, 2)
        #expect(group.step(1, .transfer(to: two))?.proposal == .refused(.noSuchVoter))
        group.step(1, .transfer(to: four))
        group.runUntilIdle()
        #expect(group[4].isLeader && group[4].term == 2 && group[4].configuration.isJoint)
        group.step(4, .change(.leave))
        group.runUntilIdle()
        #expect(group[4].configuration == VoterConfiguration(voters: [one, three, four]))
        #expect(group[4].commit == group[4].log.lastIndex)
    }

    @Test func newVoterThatKnowsItselfOnlyAsLearnerVotes() {
        var group = Group(voters: [1, 2], learners: [3])
        group.elect(1)
        // 3 does not receive the entry that makes it a voter.
        group.isolate(3)
        group.step(1, .change(ConfigurationChange([.addVoter(three)])))
        group.runUntilIdle()
        #expect(group[2].configuration.voters.count == 3)
        group.heal()
        group.isolate(1)
        group.passElectionTimeout(2)
        group.passElectionTimeout(3)
        group.elect(2)
        #expect(group[2].isLeader)
        #expect(group[3].configuration.voters.count == 3)
    }

    @Test func learnerDoesNotCampaign() {
        var group = Group(voters: [1, 2], learners: [3])
        group.tick(3, 100)
        #expect(group[3].role == .follower && group[3].term == 0)
    }
}
