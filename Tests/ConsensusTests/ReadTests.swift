import Consensus
import Testing
import Vocabulary

/// Linearizable reads without a log entry (thesis 6.4), above all during changes of the leader.
@Suite struct ReadTests {
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)
    private let three = NodeNumber(3)

    @Test func readWaitsForProofOfLeadership() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.propose(1, "x")
        let early = group.step(1, .read(context: 7))?.reads
        #expect(early == [])
        group.runUntilIdle()
        // A follower forwards the read to its leader.
        group.checker.recordRead(8)
        group.step(2, .read(context: 8))
        group.runUntilIdle()
        #expect(group.checker.readsAnswered == 1)
        // An isolated leader cannot prove its leadership, and refuses the read when it steps down.
        group.isolate(1)
        group.step(1, .read(context: 9))
        group.passElectionTimeout(2)
        group.elect(2)
        group.propose(2, "y")
        var answers: [ReadAnswer] = []
        for _ in 0..<20 { answers += group.step(1, .tick(dice: 0))?.reads ?? [] }
        #expect(answers == [ReadAnswer(context: 9, result: .leaderChanged)])
        let lost = group.step(1, .read(context: 10))?.reads
        #expect(lost == [ReadAnswer(context: 10, result: .noLeader)])
    }

    /// A new leader has all committed entries but may not know the latest commit index.
    @Test func newLeaderAnswersNoReadBeforeItsFirstCommit() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        // The entry is committed on 1, and 2 does not know it.
        group.step(1, .propose([[1]]))
        group.sync(one)
        group.deliver(group.network.removeFirst())
        group.sync(two)
        group.network = group.network.filter { $0.message.to == one }
        group.deliver(group.network.removeFirst())
        #expect(group[1].commit == 2 && group[2].commit == 1)
        group.isolate(1)
        group.network = []
        for number in UInt16(2)...3 { group.passElectionTimeout(number) }
        group.electAndDropMessages(2)
        #expect(group[2].isLeader && group[2].commit == 1)
        group.checker.recordRead(5)
        #expect(group.step(2, .read(context: 5))?.reads == [])
        // Proof of leadership alone is not enough.
        group.step(2, .tick(dice: 0))
        let beats = group.network.filter { $0.message.isHeartbeat }
        group.network = []
        for beat in beats { group.deliver(beat) }
        for answer in group.network { group.deliver(answer) }
        #expect(group.checker.readsAnswered == 0)
        group.tick(2, 2)
        #expect(group.checker.readsAnswered == 1 && group.checker.violation == nil)
        #expect(group[2].commit == 3)
    }

    /// The machine does not retry: only the driver knows whether a client still waits.
    @Test func readForwardedToADeposedLeaderGetsNoAnswerAndIsRetried() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(1)
        #expect(group.step(3, .read(context: 1))?.reads == [])
        for number in UInt16(2)...3 { group.passElectionTimeout(number) }
        group.elect(2)
        group.propose(2, "new")
        group.heal()
        group.tick(2, 3)
        #expect(group.checker.readsAnswered == 0)
        group.checker.recordRead(2)
        group.step(3, .read(context: 2))
        group.runUntilIdle()
        #expect(group.checker.readsAnswered == 1 && group.checker.violation == nil)
    }

    @Test func readPendingAtALeadershipTransferIsRefused() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        // The heartbeats of the read are lost.
        group.step(1, .read(context: 4))
        group.network = []
        group.step(1, .transfer(to: two))
        var answers: [ReadAnswer] = []
        for _ in 0..<100 where !group.network.isEmpty || !group[2].isLeader {
            for number in group.numbers { group.sync(number) }
            guard !group.network.isEmpty else { continue }
            let packet = group.network.removeFirst()
            if packet.message.to == one {
                answers += group.step(one, .received(packet.message))?.reads ?? []
            } else {
                group.deliver(packet)
            }
        }
        #expect(group[2].isLeader)
        #expect(answers == [ReadAnswer(context: 4, result: .leaderChanged)])
    }

    @Test func readInAJointConfigurationNeedsProofFromBothHalves() {
        var group = Group(voters: [1, 2, 3], others: [4, 5])
        group.elect(1)
        let change = ConfigurationChange(
            [
                .remove(two), .remove(three), .addVoter(NodeNumber(4)), .addVoter(NodeNumber(5)),
            ],
            transition: .jointUntilLeft
        )
        group.step(1, .change(change))
        group.runUntilIdle()
        group.tick(1, 2)
        #expect(group[1].configuration.isJoint && group[1].commit == group[1].log.lastIndex)
        // The new half answers; of the old half only the leader counts.
        group.isolate(2)
        group.isolate(3)
        group.checker.recordRead(1)
        group.step(1, .read(context: 1))
        group.runUntilIdle()
        #expect(group.checker.readsAnswered == 0)
        group.heal()
        group.tick(1)
        #expect(group.checker.readsAnswered == 1)
    }

    @Test func leaderBeingRemovedDoesNotCountInItsOwnProof() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.isolate(3)
        group.step(1, .change(ConfigurationChange([.remove(one)])))
        group.checker.recordRead(1)
        group.step(1, .read(context: 1))
        group.runUntilIdle()
        #expect(group[1].isLeader && group.checker.readsAnswered == 0)
        // The voters are now 2 and 3, of which only 2 answers.
        group.tick(1)
        #expect(group.checker.readsAnswered == 0)
        group.heal()
        group.tick(1)
        #expect(group.checker.readsAnswered == 1 && group.checker.violation == nil)
    }
}

extension Message {
    fileprivate var isHeartbeat: Bool {
        if case .heartbeat = body { return true }
        return false
    }
}
