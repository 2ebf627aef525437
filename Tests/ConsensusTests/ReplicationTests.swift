import Consensus
import Testing
import Vocabulary

/// Log replication: commits, repair, flow control, snapshots and withheld acknowledgements.
@Suite struct ReplicationTests {
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)
    private let three = NodeNumber(3)

    @Test func entriesOnTheDisksOfAMajorityAreCommitted() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .propose([[1], [2]]))
        // The leader sends the entries before they are on its disk. They are committed when they
        // are on two disks.
        while !group.network.isEmpty { group.deliver(group.network.removeFirst()) }
        #expect(group[1].commit == 1)
        group.sync(two)
        group.deliver(group.network.removeFirst())
        #expect(group[1].commit == 1)
        group.sync(three)
        group.deliver(group.network.removeFirst())
        #expect(group[1].commit == 3)
        // The leader's own disk is the slowest: the leader applies nothing that it has not stored.
        #expect(group.member(one).state.index == 1)
        group.runUntilIdle()
        #expect(group.member(one).state.index == 3)
    }

    /// Also a follower that was still being probed when the entry was committed.
    @Test func everyFollowerLearnsOfTheFirstCommitBeforeTheNextHeartbeat() {
        var group = Group(voters: [1, 2, 3, 4, 5])
        group.elect(1)
        #expect(group.numbers.map { group.member($0).raft.commit } == [1, 1, 1, 1, 1])
    }

    @Test func leaderTracksItsOwnProgress() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.propose(1, "x")
        let own = group[1].progress.first { $0.node == one }?.progress
        #expect(own?.state == .replicate && own?.matched == 2 && own?.received == 2)
        #expect(own?.next == 3)
    }

    @Test func refusedProposalReportsItsReason() {
        var group = Group(voters: [1, 2, 3]) { $0.uncommittedBytesMax = 100 }
        group.elect(1)
        #expect(group.step(2, .propose([[1]]))?.proposal == .refused(.notLeader(one)))
        #expect(group.step(1, .propose([]))?.proposal == .refused(.nothingProposed))
        group.isolate(1)
        let long = [UInt8](repeating: 1, count: 100)
        let first = LogPosition(term: 1, index: 2)
        #expect(group.step(1, .propose([long]))?.proposal == .accepted(first: first, count: 1))
        #expect(group.step(1, .propose([[1]]))?.proposal == .refused(.tooMuchUncommitted))
        group.heal()
        group.tick(1, 2)
        #expect(group[1].commit == 2)
        group.propose(1, "room again")
        #expect(group[1].commit == 3)
    }

    /// Probing steps back by terms, not by entries.
    @Test func longDivergentLogIsRepairedByFewAppends() {
        var group = Group(voters: [1, 2, 3, 4, 5])
        group.elect(1)
        group.isolate(1)
        for number in 0..<100 { group.propose(1, "lost \(number)") }
        for number in UInt16(2)...5 { group.passElectionTimeout(number) }
        group.elect(2)
        for number in 0..<100 { group.propose(2, "kept \(number)") }
        group.heal()
        group.step(2, .tick(dice: 0))
        var appends = 0
        for _ in 0..<1_000 {
            for number in group.numbers { group.sync(number) }
            guard !group.network.isEmpty else { break }
            let packet = group.network.removeFirst()
            if case .append = packet.message.body, packet.message.to == one { appends += 1 }
            group.deliver(packet)
        }
        #expect(group[1].log.last == group[2].log.last && group[1].commit == group[2].commit)
        #expect(appends < 6)
        group.checker.checkMatching(group)
        #expect(group.checker.violation == nil)
    }

    /// Figure 8 of the paper.
    @Test func entryOfAnEarlierTermOnAMajorityIsCommittedOnlyWithALaterOne() {
        var group = Group(voters: [1, 2, 3, 4, 5])
        group.elect(1)
        group.cut = [[one, three], [one, NodeNumber(4)], [one, NodeNumber(5)]]
        group.propose(1, "on 1 and 2")
        #expect(group[1].commit == 1 && group[2].log.lastIndex == 2)
        // 5 becomes leader and appends its own entry at that index.
        group.crash(1)
        group.heal()
        for number in UInt16(3)...5 { group.passElectionTimeout(number) }
        group.isolate(2)
        group.electAndDropMessages(5)
        #expect(group[5].isLeader && group[5].term == 2)
        group.isolate(5)
        group.propose(5, "on 5 only")
        // 1 restarts, leads again and replicates its old entry, but no entry of its new term.
        group.restart(1)
        group.heal()
        group.isolate(5)
        for number in UInt16(1)...4 { group.passElectionTimeout(number) }
        // In the first campaign 1 only learns the term.
        group.elect(1)
        group.step(1, .campaign)
        var held: [Group.Packet] = []
        for _ in 0..<200 {
            for number in group.numbers { group.sync(number) }
            guard !group.network.isEmpty else { break }
            var packet = group.network.removeFirst()
            if case .append(var append) = packet.message.body {
                // Hold back the newest entry, as if a later message carried it.
                if append.entries.last?.term == group[1].term {
                    held.append(packet)
                    append.entries.removeLast()
                    packet.message.body = .append(append)
                }
            }
            group.deliver(packet)
        }
        #expect(group[1].isLeader && !held.isEmpty)
        let holders = group.numbers.filter { group.member($0).raft.log.term(at: 2) == 1 }
        #expect(holders.count >= 3 && group[1].commit == 1)
        for packet in held { group.deliver(packet) }
        group.runUntilIdle()
        #expect(group[1].commit == group[1].log.lastIndex)
        #expect(group.checker.violation == nil)
    }

    @Test func slowFollowerIsSentAtMostTheInFlightLimit() {
        var group = Group(voters: [1, 2, 3]) {
            $0.appendsInFlightMax = 4
            $0.appendBytesMax = 20
        }
        group.elect(1)
        group.network = []
        for number in 0..<50 { group.step(1, .propose([[UInt8(number)]])) }
        let sent = group.network.filter { $0.message.to == two }
        #expect(sent.count == 4)
        group.runUntilIdle()
        group.tick(1)
        #expect(group[2].commit == 51)
    }

    @Test func lostAppendsAreResent() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .propose([[1]]))
        group.network = []
        group.runUntilIdle()
        #expect(group[1].commit == 1)
        group.tick(1, 2)
        #expect(group[1].commit == 2 && group[2].commit == 2)
    }

    @Test func memberBehindTheLogsStartReceivesASnapshot() {
        var group = Group(voters: [1, 2, 3]) { $0.entriesKept = 2 }
        group.elect(1)
        group.isolate(3)
        for number in 0..<20 { group.propose(1, "\(number)") }
        group.tick(1)
        if let event = group.members[one]?.takeSnapshot() { group.step(one, event) }
        group.members[one]?.prune()
        #expect(group[1].log.firstIndex == 20)
        group.heal()
        group.tick(1, 3)
        #expect(group.member(three).disk.snapshot.index == 21)
        #expect(group.member(three).state == group.member(one).state)
        group.propose(1, "after the snapshot")
        #expect(group[3].log.lastIndex == 22)
        // After a restart from disk, 3 reaches the same state.
        group.restart(3)
        group.tick(1, 2)
        #expect(group.member(three).state == group.member(one).state)
    }

    @Test func lostSnapshotIsResent() {
        var group = Group(voters: [1, 2, 3]) { $0.entriesKept = 0 }
        group.elect(1)
        group.isolate(3)
        group.propose(1, "x")
        if let event = group.members[one]?.takeSnapshot() { group.step(one, event) }
        group.heal()
        group.step(1, .tick(dice: 0))
        for _ in 0..<100 {
            for number in group.numbers { group.sync(number) }
            guard !group.network.isEmpty else { break }
            let packet = group.network.removeFirst()
            packet.state == nil ? group.deliver(packet) : group.drop(packet)
        }
        #expect(group[3].commit == 1)
        group.tick(1, 2)
        #expect(group[3].commit == 2)
    }

    /// Leases need this of a voter, both as follower and as leader.
    @Test func withheldEntryIsNotCommitted() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(1, .withhold(from: 3))
        group.step(2, .withhold(from: 3))
        group.propose(1, "counts")
        #expect(group[1].commit == 2)
        group.propose(1, "is withheld")
        group.propose(1, "and the entry after it")
        #expect(group[1].commit == 2 && group[2].log.lastIndex == 4)
        // The withheld entries are not resent.
        let progress = group[1].progress.first { $0.node == two }?.progress
        #expect(progress?.received == 4 && progress?.matched == 2)
        group.step(2, .withhold(from: 4))
        group.runUntilIdle()
        #expect(group[1].commit == 3)
        group.step(1, .withhold(from: nil))
        #expect(group[1].commit == 4)
    }

    /// A member acknowledges a withheld entry once.
    ///
    /// If that message is lost and there are no new proposals, the leader has to ask.
    @Test func lostAcknowledgementOfAWithheldEntryIsRequestedAgain() {
        var group = Group(voters: [1, 2])
        group.elect(1)
        group.step(2, .withhold(from: 2))
        group.propose(1, "withheld by 2")
        #expect(group[1].commit == 1)
        group.isolate(2)
        group.step(2, .withhold(from: nil))
        group.runUntilIdle()
        group.heal()
        #expect(group[1].commit == 1)
        group.tick(1, 2)
        #expect(group[1].commit == 2)
    }

    @Test func withheldEntryIsAcknowledgedToTheNextLeader() {
        var group = Group(voters: [1, 2, 3])
        group.elect(1)
        group.step(3, .withhold(from: 2))
        group.isolate(2)
        group.propose(1, "withheld by 3")
        #expect(group[1].commit == 1)
        group.heal()
        group.step(1, .transfer(to: two))
        group.tick(1, 3)
        #expect(group[2].isLeader)
        group.isolate(1)
        group.tick(2)
        let before = group[2].commit
        group.propose(2, "y")
        #expect(group[2].commit == before)
        group.step(3, .withhold(from: nil))
        group.runUntilIdle()
        #expect(group[2].commit == group[2].log.lastIndex)
    }
}
