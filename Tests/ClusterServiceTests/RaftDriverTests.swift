import Bytes
import ClusterService
import Consensus
import Orchestration
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct RaftDriverTests {
    let world = RaftWorld(seed: 11)

    @Test func loneNodeLeadsAndHasAppliedItsLogAfterStart() throws {
        let group = try RaftGroup(world, nodes: 1)
        #expect(group.driver(1).status.isReadyToLead)
        group.propose(1, "a")
        #expect(world.run { group.answer(to: "a") != nil })
        #expect(group.answer(to: "a")?.outcome == .taken("a", at: 2))
        try group.restart(NodeNumber(1))
        #expect(group.lines(1) == ["a"])
        #expect(group.driver(1).status.isReadyToLead)
        // A lone voter waits for no other node and needs no timer.
        world.run(milliseconds: 1)
        #expect(world.core.withLock { $0.works.isEmpty })
    }

    @Test func knownCommittedEntriesAreAppliedAfterStart() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        for number in 0..<10 {
            group.propose(1, "p\(number)")
            #expect(world.run { group.answer(to: "p\(number)") != nil })
        }
        #expect(group.converge())
        group.kill(NodeNumber(3))
        // No other node has answered yet: this is from its own disk.
        try group.restart(NodeNumber(3))
        #expect(group.lines(3).count >= 8)
        #expect(group.converge())
        #expect(group.violations() == [])
    }

    /// If one of two nodes is restarted alone, it serves because its whole log is applied.
    @Test func stopStoresCommitIndex() throws {
        let group = try RaftGroup(world, nodes: 2)
        #expect(group.grow(to: [1, 2]))
        #expect(group.converge())
        for number in 0..<20 {
            let leader = try #require(group.settled())
            group.propose(leader.value, "p\(number)")
            // Answered, and stopped before the next tick.
            #expect(world.run { group.answer(to: "p\(number)") != nil })
            let driver = group.driver(leader.value)
            let last = driver.log.lastIndex
            driver.stop()
            world.run(milliseconds: 20)
            try group.restart(leader)
            #expect(group.driver(leader.value).status.applied >= last)
        }
        #expect(group.converge())
        #expect(group.violations() == [])
    }

    @Test func proposalsDuringWriteShareOneBatch() throws {
        let group = try RaftGroup(world, nodes: 1)
        for number in 0..<50 { group.propose(1, "p\(number)") }
        #expect(world.run { group.answer(to: "p49") != nil })
        #expect(group.lines(1) == (0..<50).map { "p\($0)" })
        // The first alone, the others after it in one write.
        let store = try ControlStore(disk: FileDisk(), directory: group.directory(NodeNumber(1)))
        #expect(try store.load()?.entries.count == 51)
    }

    @Test func followersProposalIsAnsweredOnceFollowerAppliedIt() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        let answered = Guarded(false)
        let driver = group.driver(3)
        driver.propose(
            encode: { ListState.Command($0, "from three").bytes },
            done: { result in
                guard case .success = result else { return }
                answered.withLock { $0 = driver.state.lines == ["from three"] }
            }
        )
        #expect(world.run { answered.withLock { $0 } })
        #expect(group.converge())
        #expect(group.violations() == [])
    }

    @Test func leaderCrashLosesNoFollowersProposal() throws {
        for seed in UInt64(1)...20 {
            let world = RaftWorld(seed: seed)
            let group = try RaftGroup(world, nodes: 3)
            #expect(group.grow(to: [1, 2, 3]))
            for number in 0..<10 {
                group.propose(2, "two \(number)")
                group.propose(3, "three \(number)")
                for _ in 0..<world.below(12) { world.step() }
            }
            for _ in 0..<world.below(60) { world.step() }
            group.kill(NodeNumber(1))
            let isAnswered = world.run { group.core.withLock { $0.answers.count == 20 } }
            #expect(isAnswered, "seed \(seed)")
            let errors = group.core.withLock { $0.answers.compactMap(\.error) }
            #expect(errors == [], "seed \(seed)")
            try group.start(NodeNumber(1))
            #expect(group.converge(), "seed \(seed)")
            #expect(group.violations() == [], "seed \(seed)")
            #expect(group.lines(1).filter { $0.hasPrefix("two") } == (0..<10).map { "two \($0)" })
        }
    }

    @Test func proposalWithoutMajorityReportsMissingVoters() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        group.kill(NodeNumber(2))
        group.kill(NodeNumber(3))
        world.run(milliseconds: 3_000)
        group.propose(1, "x", timeout: 2_000_000_000)
        #expect(world.run { group.answer(to: "x") != nil })
        let error = group.answer(to: "x")?.error
        #expect(error?.code == .noQuorum)
        #expect(error?.description.hasPrefix("1 of 3 voters answers this node, and 2 are") == true)
        try group.start(NodeNumber(2))
        group.propose(1, "y")
        #expect(world.run { group.answer(to: "y") != nil })
        #expect(group.answer(to: "y")?.outcome != nil)
    }

    /// The next leader may know better by then.
    @Test func leadersOwnProposalIsNotForwardedToNextLeader() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        guard let leader = group.settled() else { throw SceneError("no leader") }
        #expect(world.run { group.driver(leader.value).status.isReadyToLead })
        group.isolate(leader.value)
        let others = (1...3).filter { $0 != leader.value }.map { UInt16($0) }
        group.propose(leader.value, "late", isLeaders: true)
        group.propose(leader.value, "forwarded")
        #expect(world.run { others.contains { group.driver($0).status.isReadyToLead } })
        group.heal()
        #expect(world.run { group.answer(to: "forwarded")?.outcome != nil })
        #expect(world.run { group.answer(to: "late") != nil })
        #expect(group.answer(to: "late")?.error?.code == .notLeader)
        #expect(group.converge())
        for number in UInt16(1)...3 { #expect(!group.lines(number).contains("late")) }
        // A follower's own attempt is refused at once.
        group.propose(leader.value, "follower's", isLeaders: true)
        #expect(world.run { group.answer(to: "follower's")?.error?.code == .notLeader })
    }

    @Test func readSeesEarlierAnsweredProposals() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        for round in 0..<20 {
            group.propose(1, "w\(round)")
            #expect(world.run { group.answer(to: "w\(round)") != nil })
            let seen = Guarded<Bool?>(nil)
            let driver = group.driver(2)
            driver.readIndex { result in
                guard case .success = result else { return seen.withLock { $0 = false } }
                seen.withLock { $0 = driver.state.lines.last == "w\(round)" }
            }
            #expect(world.run { seen.withLock { $0 != nil } })
            #expect(seen.withLock { $0 } == true, "round \(round)")
        }
    }

    @Test func lostReadIsRepeatedAndMinorityReadFails() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        world.core.withLock { $0.loss = 100 }
        var answered = 0
        for _ in 0..<10 {
            let result = Guarded<Result<LogIndex, ClusterError>?>(nil)
            group.driver(2).readIndex(timeout: 5_000_000_000) { outcome in
                result.withLock { $0 = outcome }
            }
            #expect(world.run { result.withLock { $0 != nil } })
            if case .success? = result.withLock({ $0 }) { answered += 1 }
        }
        #expect(answered > 7)
        world.core.withLock { $0.loss = 0 }
        group.isolate(2)
        let result = Guarded<Result<LogIndex, ClusterError>?>(nil)
        group.driver(2).readIndex { outcome in result.withLock { $0 = outcome } }
        #expect(world.run { result.withLock { $0 != nil } })
        guard case .failure(let error)? = result.withLock({ $0 }) else {
            Issue.record("a minority read")
            return
        }
        #expect(error.code == .noQuorum)
    }

    @Test func membersAreAddedAndRemoved() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        #expect(group.driver(1).status.configuration.voters.count == 3)
        group.propose(1, "three")
        #expect(group.change([.remove(NodeNumber(3))], on: 1))
        group.kill(NodeNumber(3))
        group.propose(1, "two")
        #expect(world.run { group.answer(to: "two") != nil })
        #expect(group.converge())
        #expect(group.lines(2) == ["three", "two"])
        #expect(!group.change([.remove(NodeNumber(1)), .remove(NodeNumber(2))], on: 1))
        // A follower cannot change the members.
        #expect(!group.change([.addLearner(NodeNumber(3))], on: 2))
        #expect(group.driver(1).transfer(to: NodeNumber(2)))
        #expect(world.run { group.leader == NodeNumber(2) })
        #expect(group.change([.remove(NodeNumber(1))], on: 2))
        #expect(group.driver(2).status.configuration.voters == [NodeNumber(2)])
    }

    /// Leases need a joint configuration, even where Raft alone would not.
    @Test func singleVoterChangeUsesJointConfiguration() throws {
        let group = try RaftGroup(world, nodes: 2)
        #expect(group.grow(to: [1, 2]))
        let seen = Guarded<[Bool]>([])
        let before = group.driver(1).onChange
        group.driver(1).onChange = { status in
            seen.withLock { $0.append(status.configuration.isJoint) }
            before?(status)
        }
        let index = group.driver(1).status.commit
        #expect(group.change([.remove(NodeNumber(2))], on: 1))
        #expect(group.driver(1).status.configuration.voters == [NodeNumber(1)])
        #expect(group.driver(1).status.commit == index + 2)
        #expect(seen.withLock { $0.contains(true) && $0.last == false })
        #expect(group.change([.addLearner(NodeNumber(2))], on: 1))
        // A learner is added in one step.
        #expect(group.driver(1).status.commit == index + 3)
    }

    @Test func jointChangeIsDoneOnceLeft() throws {
        let group = try RaftGroup(world, nodes: 5)
        #expect(group.grow(to: [1, 2, 3]))
        let steps: [ConfigurationChange.Step] = [
            .remove(NodeNumber(2)), .remove(NodeNumber(3)), .addVoter(NodeNumber(4)),
            .addVoter(NodeNumber(5)),
        ]
        #expect(group.change(steps, on: 1))
        let configuration = group.driver(1).status.configuration
        #expect(configuration.voters == [1, 4, 5].map { NodeNumber($0) })
        #expect(!configuration.isJoint)
    }

    @Test func laggingMemberGetsSnapshot() throws {
        let group = try RaftGroup(world, nodes: 3, ballast: 600_000) { settings in
            settings.snapshotEntries = 20
            settings.raft.entriesKept = 5
        }
        #expect(group.grow(to: [1, 2, 3]))
        group.kill(NodeNumber(3))
        for number in 0..<100 {
            group.propose(1, "s\(number)")
            #expect(world.run { group.answer(to: "s\(number)") != nil })
        }
        world.core.withLock { $0.loss = 20 }
        try group.start(NodeNumber(3))
        #expect(group.converge())
        #expect(group.lines(3).count == 100)
        // The snapshot is on its disk too.
        world.core.withLock { $0.loss = 0 }
        try group.restart(NodeNumber(3))
        #expect(group.driver(3).state.lines.count > 70)
        #expect(group.converge())
        #expect(group.violations() == [])
        let store = try ControlStore(disk: FileDisk(), directory: group.directory(NodeNumber(1)))
        #expect(try #require(try store.load()).entries.count < 40)
    }

    @Test func fullDiskSilencesOnlyItsNode() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        let big = String(repeating: "x", count: 60_000)
        try group.driver(1).store.limit(pages: 1)
        group.propose(2, big)
        #expect(world.run { group.answer(to: big) != nil })
        #expect(group.answer(to: big)?.outcome != nil)
        #expect(world.run { group.driver(1).status.failure != nil })
        #expect(group.driver(1).status.failure?.contains("takes no part") == true)
        #expect(world.run { group.leader.map { $0 != NodeNumber(1) } ?? false })
        try group.driver(1).store.limit(pages: 0)
        #expect(world.run { group.driver(1).status.failure == nil })
        #expect(group.converge())
        #expect(group.lines(1).map(\.count) == [big.count])
        #expect(group.violations() == [])
    }

    @Test func loneNodeWithFullDiskFailsProposal() throws {
        let group = try RaftGroup(world, nodes: 1)
        let big = String(repeating: "x", count: 60_000)
        try group.driver(1).store.limit(pages: 1)
        group.propose(1, big)
        #expect(world.run { group.answer(to: big) != nil })
        #expect(group.answer(to: big)?.error?.code == .disk)
        #expect(group.answer(to: big)?.error?.description.contains("full") == true)
        try group.driver(1).store.limit(pages: 0)
        // Without a delay: a new proposal checks the disk at once.
        let before = world.now
        group.propose(1, "small")
        #expect(world.run { group.answer(to: "small") != nil })
        #expect(world.now - before < 500_000_000)
        #expect(group.lines(1).map(\.count) == [5])
        try group.restart(NodeNumber(1))
        #expect(group.lines(1).map(\.count) == [5])
    }

    @Test func invalidFramesAreIgnored() throws {
        let group = try RaftGroup(world, nodes: 3, ballast: 100_000) { settings in
            settings.snapshotEntries = 10
            settings.raft.entriesKept = 2
        }
        #expect(group.grow(to: [1, 2]))
        for number in 0..<30 { group.propose(2, "p\(number)") }
        #expect(world.run { group.answer(to: "p29") != nil })
        // Entries below the due snapshot: a node that joins now needs the snapshot.
        group.propose(1, "behind the snapshot")
        #expect(world.run { group.answer(to: "behind the snapshot") != nil })
        #expect(group.grow(to: [3]))
        let frames = group.core.withLock { $0.frames }
        #expect(frames.contains { $0.count > 60_000 })
        for frame in frames {
            var spoiled = frame
            spoiled[world.below(min(frame.count, 2))] ^= UInt8(1 + world.below(255))
            group.driver(3).receive(spoiled, from: NodeNumber(1))
            for _ in 0..<4 {
                let prefix = Array(frame.prefix(world.below(min(frame.count, 300))))
                group.driver(2).receive(prefix, from: NodeNumber(1))
            }
        }
        group.propose(3, "after")
        #expect(world.run { group.answer(to: "after") != nil })
        #expect(group.converge())
        #expect(group.violations() == [])
    }

    @Test func keepCallbackRunsOnceChangesAreOnDisk() throws {
        let group = try RaftGroup(world, nodes: 1)
        let driver = group.driver(1)
        let seal = ControlSeal(vBucket: VBucketID(7), fence: 3, term: 1)
        let kept = Guarded<Bool?>(nil)
        driver.keep([.seals(bucketUUID: "b", [seal])]) { result in
            guard case .success = result else { return kept.withLock { $0 = false } }
            let found = try? driver.store.seals(ofBucket: "b")
            kept.withLock { $0 = found == [seal] }
        }
        #expect(kept.withLock { $0 } == nil)
        #expect(world.run { kept.withLock { $0 != nil } })
        #expect(kept.withLock { $0 } == true)
        try driver.store.limit(pages: 1)
        let refused = Guarded<ClusterError?>(nil)
        driver.keep([.fact(name: "big", [UInt8](repeating: 1, count: 100_000))]) { result in
            if case .failure(let error) = result { refused.withLock { $0 = error } }
        }
        #expect(world.run { refused.withLock { $0 != nil } })
        #expect(refused.withLock { $0?.code } == .disk)
    }

    @Test func promiseWithholdsDeposingAcknowledgement() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        world.run(milliseconds: 2_000)
        // Two of three voters promise node 3 its lease.
        for number in UInt16(1)...2 {
            let applied = group.driver(3).status.applied
            let beat = LeaseBeat(node: NodeNumber(3), boot: 9, number: 1, applied: applied)
            #expect(group.driver(number).answer(beat).decision == .granted)
        }
        let before = world.now
        group.propose(1, "depose 3")
        group.propose(1, "after it")
        #expect(world.run { group.answer(to: "after it") != nil })
        // One of the two must acknowledge, and its promise lasts 510 ms.
        #expect(world.now - before > 505_000_000)
        #expect(world.now - before < 1_000_000_000)
        let late = LeaseBeat(node: NodeNumber(3), boot: 9, number: 2, applied: 1)
        #expect(group.driver(2).answer(late).decision != .granted)
    }

    @Test func failedDriverWithWithheldEntryStaysIdle() throws {
        let group = try RaftGroup(world, nodes: 3)
        #expect(group.grow(to: [1, 2, 3]))
        world.run(milliseconds: 2_000)
        #expect(group.leader == NodeNumber(1))
        let applied = group.driver(3).status.applied
        let beat = LeaseBeat(node: NodeNumber(3), boot: 9, number: 1, applied: applied)
        #expect(group.driver(1).answer(beat).decision == .granted)
        // The withheld entry is in its log, and its disk fails before the promise ends.
        group.isolate(1)
        group.propose(1, "depose 3")
        try group.driver(1).store.limit(pages: 1)
        group.driver(1).keep([.fact(name: "big", [UInt8](repeating: 1, count: 100_000))]) { _ in }
        #expect(world.run { group.driver(1).status.failure != nil })
        let end = world.now + 900_000_000
        var turns = 0
        while world.now < end, turns < 10_000 {
            world.step()
            turns += 1
        }
        // A lane that runs without pause would stop the simulated time, and this test.
        try #require(turns < 10_000)
        try group.driver(1).store.limit(pages: 0)
        group.heal()
        #expect(world.run { group.driver(1).status.failure == nil })
        #expect(group.converge())
        #expect(group.violations() == [])
    }
}
