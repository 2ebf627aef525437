import Orchestration
import Testing
import Vocabulary

/// A new epoch after the permanent loss of a majority.
@Suite struct EpochTests {
    func world(_ rows: [NodeChain], nodes: Int = 3, replicas: Int = 1) -> ClusterWorld {
        var world = ClusterWorld(nodes: nodes)
        world.createBucket(replicas: replicas, rows: rows)
        return world
    }

    func epoch(
        _ survivors: NodeNumber...,
        group: UInt64 = 99,
        from former: UInt64 = 7
    ) -> ClusterCommand {
        .newEpoch(
            NewEpoch(
                groupID: group,
                formerGroupID: former,
                survivors: survivors,
                beganMilliseconds: 5_000
            ).ordered(by: "Administrator")
        )
    }

    @Test func newEpochLeavesNonSurvivorsBehind() {
        var world = world([[n(1), n(2)], [n(2), n(1)], [n(3), n(2)], [n(1)]])
        let rev = world.state.rev
        let outcome = world.apply(epoch(n(1)))
        let undecided = ClusterEffect.leftOut(bucket: "b", [VBucketID(1)])
        #expect(outcome == .applied([.epochChanged, .nodesChanged, changed(0, 2), undecided]))
        #expect(world.state.revEpoch == 2 && world.state.rev > rev)
        #expect(world.state.groupID == 99 && world.state.pastGroups == [7])
        #expect(world.state.leftBehind == [n(2), n(3)])
        #expect(world.state.members.map(\.number) == [n(1)])
        // The dead replica leaves its chain. The vBucket of the dead active node needs a promotion
        // first.
        #expect(world.placement(0).chain == [n(1)] && world.placement(0).fence < world.index)
        #expect(world.placement(1).chain == [n(2), n(1)])
        #expect(world.placement(2).chain.isEmpty && world.placement(2).fence == world.index)
        #expect(world.placement(3).chain == [n(1)])
    }

    /// The failed-over node may still serve, and another copy may be promoted: intact copies of the
    /// longer chain must not count for that.
    @Test func failedOverSurvivorsChainDropsLeftBehindNodes() {
        var world = world([[n(3), n(2), n(1)]], nodes: 4, replicas: 2)
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).chain == [n(3), n(2), n(1)])
        world.apply(epoch(n(1), n(3)))
        let placement = world.placement(0)
        #expect(placement.chain == [n(3), n(1)] && placement.isConfirmed)
        #expect(placement.branch == world.index && placement.fence == world.index)
        #expect(world.apply(.removeNode(n(2))) == .applied([.nodeRemoved(n(2)), .nodesChanged]))
    }

    @Test func leftBehindNodeIsRemovedOnceNoVBucketNamesIt() {
        var world = world([[n(1), n(2)], [n(2), n(1)]])
        world.apply(epoch(n(1)))
        #expect(world.apply(.removeNode(n(2))) == .refused(.nodeInUse))
        #expect(world.apply(.removeNode(n(3))) == .applied([.nodeRemoved(n(3)), .nodesChanged]))
        #expect(world.rebalance(kept: [n(1), n(2)]) == .refused(.nodeNotActive))
        let position = at(2, 5)
        world.apply(
            .promote(world.step(1, row: [n(1)], position: position, deposes: [n(2)]))
        )
        #expect(world.apply(.removeNode(n(2))) == .refused(.nodeInUse))
        world.apply(.confirm(world.step(1)))
        #expect(world.placement(1).chain == [n(1)])
        #expect(world.apply(.removeNode(n(2))) == .applied([.nodeRemoved(n(2)), .nodesChanged]))
        #expect(world.state.nodes.map(\.number) == [n(1)])
        // The node can be added again, with another number.
        world.apply(.addNode(ClusterWorld.node(2)))
        #expect(world.state.nodes.map(\.number) == [n(1), n(4)])
    }

    @Test func newEpochEndsTheRebalanceAndRevertsItsMoves() {
        var world = world([[n(1), n(2)], [n(2), n(3)], [n(3), n(1)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(3)], [n(1), n(3)], [n(1), n(3)]])
        world.apply(.joint(world.step(0, row: [n(1), n(3)])))
        world.apply(.joint(world.step(2, row: [n(1), n(3)])))
        world.apply(.takeOver(world.step(2, position: at(1, 7))))
        world.apply(epoch(n(1)))
        #expect(world.state.rebalance == nil)
        #expect(world.state.lastRebalance?.ending == .failed)
        #expect(world.state.bucket(named: "b")?.targets == nil)
        #expect(world.placement(0).next.isEmpty && world.placement(0).chain == [n(1)])
        #expect(world.placement(1).chain.isEmpty)
        #expect(world.placement(2).chain == [n(1)] && world.placement(2).former == nil)
    }

    /// The failed-over node was given up before, so no copy of its vBucket could be queried.
    @Test func newEpochGivesUpTheOnlyCopiesOfFailedOverNodes() {
        var world = world([[n(1), n(2)], [n(3), n(2)]])
        world.apply(.promote(world.step(1, row: [n(2)], position: at(1, 5), deposes: [n(3)])))
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        let impact = UnsafeFailoverImpact(world.state, without: [n(2)])
        #expect(impact.buckets.map(\.lost) == [[VBucketID(1)]])
        world.apply(epoch(n(1), n(3)))
        #expect(world.placement(0).chain == [n(1)])
        #expect(world.placement(1).chain.isEmpty && world.placement(1).isConfirmed)
        #expect(!world.state.holdsData(n(2)))
        #expect(world.apply(.removeNode(n(2))) == .applied([.nodeRemoved(n(2)), .nodesChanged]))
    }

    @Test func impossibleEpochsAreRefused() {
        var world = ClusterWorld(nodes: 3)
        world.apply(.addNode(ClusterWorld.node(4)))
        world.apply(.setNodeState(.init(number: n(4), membership: .inactiveAdded)))
        let before = world.state.revEpoch
        #expect(world.apply(epoch(n(9), n(1))) == .refused(.nodeUnknown))
        #expect(world.apply(epoch(n(4))) == .refused(.lastActiveNode))
        #expect(world.apply(epoch()) == .refused(.lastActiveNode))
        #expect(world.state.revEpoch == before && world.state.leftBehind.isEmpty)
        var empty = ClusterState(memoryQuota: 1)
        #expect(empty.apply(epoch(), at: 1) == .refused(.notInitialised))
    }

    @Test func pastGroupsSurviveARestart() {
        var world = world([[n(1), n(2)]])
        world.apply(epoch(n(1), n(3), group: 99))
        world.apply(epoch(n(1), group: 100, from: 99))
        #expect(world.state.pastGroups == [7, 99] && world.state.revEpoch == 3)
        guard case .state(let read) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not read back")
            return
        }
        #expect(read == world.state)
    }

    @Test func lossesOfANewEpochAreListedBeforehand() {
        let world = world([[n(1), n(2)], [n(2), n(1)], [n(3), n(2)], [n(2), n(3)]])
        let impact = UnsafeFailoverImpact(world.state, without: [n(2), n(3)])
        #expect(impact.buckets.map(\.lost) == [[VBucketID(2), VBucketID(3)]])
        #expect(impact.buckets.map(\.doubtful) == [[VBucketID(1)]])
        #expect(
            impact.sentences == [
                "Of the bucket “b”, vBuckets 2 and 3 have no copy there: all documents of them "
                    + "would be lost.",
                "Of the bucket “b”, the copies there of vBucket 1 may lack the last changes, "
                    + "durable ones too.",
            ]
        )
        #expect(UnsafeFailoverImpact(world.state, without: []).buckets.isEmpty)
    }
}

/// Promotions after an operator gave up the other copies.
@Suite struct GivenUpTests {
    func question() -> Promotion.Question {
        let assignment = VBucketAssignment(
            fence: 5,
            stage: 5,
            chain: [n(2), n(1), n(3)],
            isConfirmed: true,
            nextChain: [],
            builders: [],
            former: nil,
            copies: 3,
            nextCopies: nil,
            origin: 1,
            kept: []
        )
        return Promotion.Question(
            vBucket: VBucketID(0),
            basis: [n(2), n(1), n(3)],
            of: assignment
        )
    }

    func report(branch: UInt64) -> CopyReport {
        CopyReport(
            vBucket: VBucketID(0),
            state: .replica,
            fence: 5,
            position: at(branch, 9),
            high: Seqno(9),
            persisted: .zero,
            isIntact: branch != 0,
            wasCleanStop: true,
            boot: 1
        )
    }

    @Test func copyWithoutPositionIsPromotedOnlyIfAllOtherCopiesAreGivenUp() {
        let sealed = [n(1): report(branch: 0)]
        #expect(Promotion.choose(question(), sealed: sealed) == nil)
        #expect(Promotion.choose(question(), sealed: sealed, givenUp: [n(2)]) == nil)
        let choice = Promotion.choose(question(), sealed: sealed, givenUp: [n(2), n(3)])
        #expect(choice?.node == n(1))
        #expect(choice?.safety != .safe)
    }

    @Test func givingUpCopiesDoesNotMakeAPromotionSafe() {
        let choice = Promotion.choose(
            question(),
            sealed: [n(1): report(branch: 5)],
            givenUp: [n(2), n(3)]
        )
        let expected = Promotion.Safety.mayLoseCommitted(intact: 1, needed: 2, answered: 1, of: 3)
        #expect(choice?.safety == expected)
    }
}
