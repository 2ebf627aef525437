import Orchestration
import Testing
import Vocabulary

/// Membership changes and rebalances.
@Suite struct RebalanceCommandTests {
    @Test func nodeJoinsThroughItsMembershipStates() {
        var world = ClusterWorld(nodes: 1)
        let added = world.apply(.addNode(ClusterWorld.node(2)))
        #expect(added == .applied([.nodeAdded(n(2)), .nodesChanged]))
        #expect(world.state.node(number: n(2))?.membership == .joining)
        #expect(world.apply(.addNode(ClusterWorld.node(2))) == .refused(.nodeExists))
        var elsewhere = ClusterWorld.node(3)
        elsewhere.group = "Rack 9"
        #expect(world.apply(.addNode(elsewhere)) == .refused(.groupUnknown))
        // A joining node does not take part in a rebalance yet.
        #expect(world.rebalance(kept: [n(1), n(2)]) == .refused(.nodesMismatch))
        world.apply(.setNodeState(.init(number: n(2), membership: .inactiveAdded)))
        #expect(world.rebalance(kept: [n(1)]) == .refused(.nodesMismatch))
        #expect(world.rebalance(kept: [], ejected: [n(1), n(2)]) == .refused(.nodesMismatch))
        let rev = world.state.rev
        #expect(
            world.rebalance(kept: [n(1), n(2)]) == .applied([.rebalanceChanged, .nodesChanged])
        )
        #expect(world.state.node(number: n(2))?.membership == .active)
        #expect(world.state.rev > rev)
        #expect(world.rebalance(kept: [n(1), n(2)]) == .refused(.rebalanceRunning))
    }

    @Test func nodeNumbersAreNotReused() {
        var world = ClusterWorld(nodes: 1)
        world.apply(.addNode(ClusterWorld.node(2)))
        let removed = world.apply(.removeNode(n(2)))
        #expect(removed == .applied([.nodeRemoved(n(2)), .nodesChanged]))
        world.apply(.addNode(ClusterWorld.node(2)))
        #expect(world.state.nodes.map(\.number) == [n(1), n(3)])
        #expect(world.apply(.removeNode(n(2))) == .refused(.nodeUnknown))
        #expect(world.apply(.removeNode(n(1))) == .refused(.nodeInUse))
    }

    /// Present membership to requested membership.
    @Test func impossibleMembershipChangesAreRefused() {
        let wanted: [(NodeMembership, RecoveryType)] = [
            (.joining, .none), (.inactiveAdded, .none), (.inactiveAdded, .full),
            (.inactiveAdded, .delta), (.active, .none), (.inactiveFailed, .none),
            (.inactiveFailed, .full),
        ]
        func possible(_ prepare: (inout ClusterWorld) -> Void) -> [Int] {
            wanted.indices.filter { place in
                var world = ClusterWorld(nodes: 3)
                world.apply(.addNode(ClusterWorld.node(4)))
                prepare(&world)
                let (membership, recovery) = wanted[place]
                let change = NodeStateChange(
                    number: world.state.nodes[3].membership == .joining ? n(4) : n(3),
                    membership: membership,
                    recovery: recovery
                )
                return world.apply(.setNodeState(change)) == .applied([.nodesChanged])
            }
        }
        func failed(_ world: inout ClusterWorld) {
            world.apply(.removeNode(n(4)))
            world.apply(.addNode(ClusterWorld.node(5)))
            world.apply(.setNodeState(.init(number: n(5), membership: .inactiveAdded)))
            world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        }
        #expect(possible { _ in } == [1])
        #expect(possible(failed) == [2, 3])
        let returning = possible { world in
            failed(&world)
            world.apply(
                .setNodeState(.init(number: n(3), membership: .inactiveAdded, recovery: .full))
            )
        }
        #expect(returning == [2, 3, 5])
        var world = ClusterWorld(nodes: 1)
        let active = NodeStateChange(number: n(1), membership: .inactiveAdded)
        #expect(world.apply(.setNodeState(active)) == .refused(.nodeStateImpossible))
        let unknown = NodeStateChange(number: n(5), membership: .inactiveAdded)
        #expect(world.apply(.setNodeState(unknown)) == .refused(.nodeUnknown))
    }

    @Test func ejectedNodesWithoutCopiesAreRemovedAtTheEnd() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(3)]])
        #expect(world.apply(.removeNode(n(3))) == .refused(.nodeInUse))
        world.rebalance(kept: [n(1), n(2)], ejected: [n(3)])
        #expect(world.targets([[n(1), n(2)], [n(2), n(3)]]) == .refused(.rowsImpossible))
        world.targets([[n(1), n(2)], [n(2), n(1)]])
        #expect(world.state.bucket(named: "b")?.holders == [n(1), n(2), n(3)])
        world.apply(.joint(world.step(1, row: [n(2), n(1)])))
        world.apply(.final(world.step(1)))
        #expect(
            world.end()
                == .applied([.rebalanceChanged, changed(0, 1), .nodeRemoved(n(3)), .nodesChanged])
        )
        #expect(world.state.nodes.map(\.number) == [n(1), n(2)])
        #expect(world.state.bucket(named: "b")?.holders == [n(1), n(2)])
        #expect(world.state.rebalance == nil && world.state.lastRebalance?.ending == .completed)
        #expect(world.end() == .refused(.rebalanceNotRunning))
        #expect(world.targets([[], []]) == .refused(.rebalanceNotRunning))
    }

    @Test(arguments: [RebalanceOutcome.Ending.completed, .stopped])
    func ejectedNodesStayInTheMapUntilTheRebalanceEnds(_ ending: RebalanceOutcome.Ending) {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1)], [n(1), n(3)]])
        func servers() -> [NodeNumber] {
            world.state.buckets.flatMap { world.state.servers(of: $0).map(\.number) }
        }
        // A kept node without copies is no server. An ejected node stays a server until the
        // rebalance ends.
        #expect(servers() == [n(1), n(3)])
        world.rebalance(kept: [n(1), n(2)], ejected: [n(3)])
        world.targets([[n(1)], [n(1), n(2)]])
        world.apply(.joint(world.step(1, row: [n(1), n(2)])))
        world.apply(.final(world.step(1)))
        #expect(world.state.bucket(named: "b")?.holders == [n(1), n(2)])
        #expect(servers() == [n(1), n(2), n(3)])
        let before = world.state.bucket(named: "b")?.rev ?? .max
        world.end("r", ending)
        #expect(servers() == [n(1), n(2)])
        #expect(world.state.bucket(named: "b")?.rev ?? 0 > before)
    }

    @Test func clusterEventsAreCounted() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(3)]])
        func counters() -> [String] {
            world.state.counters.named.map { "\($0.name) \($0.count)" }
        }
        // The rebalance that added the nodes.
        #expect(counters() == ["rebalance_start 1", "rebalance_success 1"])
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [])
        #expect(counters() == ["rebalance_start 2", "rebalance_success 1"])
        world.end("another", .stopped)
        #expect(counters() == ["rebalance_start 2", "rebalance_success 1"])
        world.end("r", .stopped)
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [])
        world.end("r", .failed)
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [])
        world.end()
        world.apply(
            .failOver(FailoverStep(nodes: [n(2), n(3)], isAutomatic: false, mayLose: true))
        )
        let expected = [
            "rebalance_start 4", "rebalance_success 2", "rebalance_stop 1", "rebalance_fail 1",
            "failover 1", "failover_node 2",
        ]
        #expect(counters() == expected)
    }

    @Test func lastActiveNodeIsNotEjected() {
        var world = ClusterWorld(nodes: 2)
        world.rebalance(kept: [n(1)], ejected: [n(2)])
        world.apply(.failOver(FailoverStep(nodes: [n(1)], isAutomatic: false, mayLose: true)))
        #expect(world.state.rebalance?.kept == [])
        #expect(world.end() == .applied([.rebalanceChanged]))
        #expect(world.state.activeNodes.map(\.number) == [n(2)])
    }

    @Test func stoppedRebalanceRevertsToTheOldChains() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(3)]])
        world.rebalance(kept: [n(1), n(2)], ejected: [n(3)])
        world.targets([[], [n(2), n(1)]])
        world.apply(.joint(world.step(1, row: [n(2), n(1)])))
        #expect(world.end("another", .stopped) == .refused(.rebalanceNotRunning))
        world.end("r", .stopped)
        #expect(world.placement(1).chain == [n(2), n(3)] && world.placement(1).next.isEmpty)
        #expect(world.placement(1).fence == world.index)
        #expect(world.state.bucket(named: "b")?.targets == nil)
        #expect(world.state.activeNodes.count == 3)
    }

    /// The next leader started with another bucket and did not reach this one.
    @Test func endOfARebalanceRevertsMovesOfAnEarlierLeader() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket("a", rows: [[n(1), n(2)]])
        world.createBucket(rows: [[n(1), n(2)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(3)]])
        world.apply(.joint(world.step(0, row: [n(1), n(3)])))
        let other = BucketTargets(copies: 2, rows: [[n(3), n(2)]])
        world.apply(.setTargets(.init(bucket: "a", targets: other)))
        #expect(world.placement(0).isJoint && world.state.bucket(named: "b")?.targets == nil)
        let outcome = world.end("r", .stopped)
        #expect(outcome.effects.contains(changed(0)))
        #expect(world.placement(0).chain == [n(1), n(2)] && world.placement(0).next.isEmpty)
    }

    @Test func progressNeverFallsAndRestartsWithTheNextRebalance() {
        var world = ClusterWorld(nodes: 2)
        func mark(_ id: String, _ all: Double, _ second: Double) -> ClusterOutcome {
            let reached = RebalanceMark(fraction: all, parts: [(n(2), second)])
            return world.apply(.markRebalance(ProgressStep(rebalance: id, reached: reached)))
        }
        #expect(mark("r", 0.5, 0.5) == .refused(.rebalanceNotRunning))
        world.rebalance(kept: [n(1), n(2)])
        #expect(mark("q", 0.5, 0.5) == .refused(.rebalanceNotRunning))
        #expect(mark("r", 0.5, 0.25) == .applied([.rebalanceChanged]))
        // A late mark of an earlier leader.
        #expect(mark("r", 0.25, 0.5) == .applied([.rebalanceChanged]))
        #expect(world.state.rebalance?.reached.fraction == 0.5)
        #expect(world.state.rebalance?.reached.fraction(of: n(2)) == 0.5)
        #expect(world.state.rebalance?.reached.fraction(of: n(1)) == 0)
        world.end("r", .stopped)
        world.rebalance("s", kept: [n(1), n(2)])
        #expect(world.state.rebalance?.reached == RebalanceMark())
    }

    @Test func rebalanceMovesOneBucketAndBlocksBucketChanges() {
        var world = ClusterWorld(nodes: 2)
        world.createBucket("a", rows: [[n(1), n(2)]])
        world.createBucket("b", rows: [[n(1), n(2)]])
        world.rebalance(kept: [n(1), n(2)])
        let targets = BucketTargets(copies: 2, rows: [[n(2), n(1)]])
        world.apply(.setTargets(TargetChange(bucket: "a", targets: targets)))
        #expect(world.state.rebalance?.bucket == "a")
        world.targets([[n(2), n(1)]])
        #expect(world.state.rebalance?.bucket == "b")
        #expect(world.state.bucket(named: "a")?.targets == nil)
        let unknown = TargetChange(bucket: "c", targets: targets)
        #expect(world.apply(.setTargets(unknown)) == .refused(.bucketUnknown))
        #expect(world.targets([[], []]) == .refused(.rowsImpossible))
        #expect(world.targets([[n(2), n(1)]], copies: 1) == .refused(.rowsImpossible))
        #expect(world.createBucket("c", rows: [[n(1)]]) == .refused(.rebalanceRunning))
        let begin = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        #expect(world.apply(.deleteBucket(begin)) == .refused(.rebalanceRunning))
        #expect(world.apply(.flushBucket(begin)) == .refused(.rebalanceRunning))
        #expect(world.apply(.removeNode(n(2))) == .refused(.nodeInUse))
    }

    @Test func vBucketKeepsItsNumberOfCopiesUntilItsMoveEnds() {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2)]])
        guard var settings = world.state.bucket(named: "b")?.settings else { return }
        func change(_ replicas: Int) {
            settings.replicas = replicas
            world.apply(.changeBucket(BucketChange(settings: settings, options: BucketOptions())))
        }
        change(2)
        #expect(world.placement(0).copies == 2)
        #expect(world.state.bucket(named: "b")?.replicaColumns == 2)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(2), n(3)], []], copies: 3)
        world.apply(.joint(world.step(0, row: [n(1), n(2), n(3)])))
        let joint = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(joint?.copies == 2 && joint?.nextCopies == 3)
        world.apply(.final(world.step(0)))
        #expect(world.placement(0).copies == 3)
        world.end()
        change(0)
        #expect(world.placement(0).copies == 3)
        // A chain of one copy lowers its number at once.
        #expect(world.placement(1).copies == 1)
        #expect(world.state.bucket(named: "b")?.replicaColumns == 2)
        settings.vBuckets = 3
        let other = BucketChange(settings: settings, options: BucketOptions())
        #expect(world.apply(.changeBucket(other)) == .refused(.rowsImpossible))
    }

    @Test func flushFencesEveryVBucketAndHasTwoSteps() {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        world.apply(.promote(world.step(1, row: [n(1)], position: at(1, 1), deposes: [n(2)])))
        var step = BucketStep(name: "b", uuid: "b-uuid", phase: .end)
        #expect(world.apply(.flushBucket(step)) == .refused(.flushNotRunning))
        step.phase = .begin
        #expect(world.apply(.flushBucket(step)) == .applied([.bucketFlushed(name: "b")]))
        let flush = world.index
        for number: UInt16 in 0...1 {
            let placement = world.placement(number)
            #expect(placement.fence == world.index && placement.origin == world.index)
            #expect(placement.cause == .flushed && placement.isConfirmed)
        }
        #expect(world.placement(1).chain == [n(1)])
        #expect(world.apply(.flushBucket(step)) == .refused(.flushRunning))
        #expect(world.rebalance(kept: [n(1), n(2)]) == .refused(.flushRunning))
        step.phase = .end
        step.flush = flush
        #expect(world.apply(.flushBucket(step)) == .applied([]))
        step.uuid = "another"
        #expect(world.apply(.flushBucket(step)) == .refused(.bucketUnknown))
    }

    /// A former leader may propose the end of an earlier flush late.
    @Test func lateEndOfAnEarlierFlushIsRefused() {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(rows: [[n(1), n(2)]])
        let begin = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        world.apply(.flushBucket(begin))
        let end = BucketStep(name: "b", uuid: "b-uuid", phase: .end, flush: world.index)
        #expect(world.apply(.flushBucket(end)) == .applied([]))
        world.apply(.flushBucket(begin))
        let second = world.index
        #expect(world.apply(.flushBucket(end)) == .refused(.flushNotRunning))
        #expect(world.state.bucket(named: "b")?.flush == second)
    }

    @Test func invalidChainsOfANewBucketAreRefused() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.addNode(ClusterWorld.node(3)))
        let flawed: [[NodeChain]] = [
            [[n(1), n(2), n(3)]], [[]], [[n(3)]], [[n(9)]], [],
        ]
        for rows in flawed {
            #expect(world.createBucket(rows: rows) == .refused(.rowsImpossible))
        }
        #expect(world.createBucket(replicas: 4, rows: [[n(1)]]) == .refused(.rowsImpossible))
    }

    @Test func renamedServerGroupsKeepTheirNodes() {
        var world = ClusterWorld(nodes: 2)
        let rack = ServerGroup(name: "Rack 2", uuid: "r2")
        let renamed = ServerGroup(name: "Rack 1", uuid: ServerGroup.first.uuid)
        let members = [GroupLayout.Member(node: n(2), group: "Rack 2")]
        let layout = GroupLayout(groups: [renamed, rack], members: members)
        #expect(world.apply(.setGroups(layout)) == .applied([.nodesChanged]))
        #expect(world.state.nodes.map(\.group) == ["Rack 1", "Rack 2"])
        let without = GroupLayout(groups: [renamed], members: [])
        #expect(world.apply(.setGroups(without)) == .refused(.groupInUse))
        var lost = layout
        lost.members = [GroupLayout.Member(node: n(2), group: "Rack 3")]
        #expect(world.apply(.setGroups(lost)) == .refused(.groupUnknown))
        lost.members = [GroupLayout.Member(node: n(7), group: "Rack 2")]
        #expect(world.apply(.setGroups(lost)) == .refused(.nodeUnknown))
        #expect(
            world.apply(.setGroups(GroupLayout(groups: [rack, rack], members: [])))
                == .refused(.groupUnknown)
        )
    }

    @Test func newEpochRaisesTheRevisionEpoch() {
        var world = ClusterWorld(nodes: 1)
        let epoch = NewEpoch(
            groupID: 99,
            formerGroupID: 7,
            survivors: [n(1)],
            beganMilliseconds: 1
        ).ordered(by: "Administrator")
        let outcome = world.apply(.newEpoch(epoch))
        #expect(outcome == .applied([.epochChanged, .nodesChanged]))
        #expect(world.state.revEpoch == 2 && world.state.groupID == 99)
        #expect(world.state.rev == world.index)
    }
}
