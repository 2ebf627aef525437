import Orchestration
import Testing
import Vocabulary

/// Failovers and recoveries of nodes.
@Suite struct FailoverCommandTests {
    func world(_ rows: [NodeChain], nodes: Int = 3) -> ClusterWorld {
        var world = ClusterWorld(nodes: nodes)
        world.createBucket(rows: rows)
        return world
    }

    @Test func failedOverReplicaLeavesChainsWhoseActiveNodeStays() {
        var world = world([[n(1), n(2)], [n(2), n(1)], [n(3), n(2)]])
        let step = FailoverStep(nodes: [n(2)], isAutomatic: true, mayLose: true)
        let outcome = world.apply(.failOver(step))
        let undecided = ClusterEffect.leftOut(bucket: "b", [VBucketID(1)])
        #expect(
            outcome == .applied([.nodesChanged, .deposed([n(2)]), changed(0, 2), undecided])
        )
        #expect(world.placement(0).chain == [n(1)])
        #expect(world.placement(0).stage == world.index && world.placement(0).fence < world.index)
        #expect(world.placement(2).rowBefore == [n(3), n(2)])
        // This vBucket has another copy, which has not been queried.
        #expect(world.placement(1).chain == [n(2), n(1)])
        let node = world.state.node(number: n(2))
        #expect(node?.membership == .inactiveFailed && node?.fencedAt == world.index)
        #expect(world.state.autoFailoverCount == 1)
        #expect(world.apply(.resetAutoFailoverCount) == .applied([.settingsChanged]))
        #expect(world.state.autoFailoverCount == 0)
    }

    /// The only copies are on failed-over nodes.
    @Test func recoveredNodesRestoreTheOnlyCopies() {
        var world = world([[n(2)], [n(2), n(3)], [n(1), n(2)]], nodes: 3)
        let born = world.placement(0).origin
        world.apply(
            .failOver(FailoverStep(nodes: [n(2), n(3)], isAutomatic: false, mayLose: true))
        )
        #expect(world.placement(0).chain.isEmpty && world.placement(1).chain.isEmpty)
        for node in [n(2), n(3)] {
            let membership = NodeMembership.inactiveAdded
            world.apply(
                .setNodeState(.init(number: node, membership: membership, recovery: .delta))
            )
        }
        world.rebalance(kept: [n(1), n(2), n(3)])
        #expect(world.state.rebalance?.delta == [n(2), n(3)])
        #expect(world.placement(0).chain == [n(2)] && world.placement(2).chain == [n(1)])
        let placement = world.placement(1)
        #expect(placement.chain == [n(2), n(3)])
        // Their histories count, and no copy counts as intact before all were queried.
        #expect(placement.origin == born && placement.branch == world.index)
        #expect(
            placement.isRestored && !placement.isConfirmed && placement.basis == placement.chain
        )
        #expect(world.state.bucket(named: "b")?.rev == world.index)
        // However the rebalance ends, and after later commands, the vBucket keeps these copies.
        world.end("r", .stopped)
        world.rebalance("again", kept: [n(1), n(2), n(3)])
        #expect(world.placement(1) == placement)
        #expect(
            world.state.assignment(ofBucket: "b", VBucketID(1))?.role(of: n(3))
                == .replica(isInChain: true)
        )
        // No copy was queried yet.
        #expect(world.apply(.confirm(world.step(1))) == leftOut(1))
        let step = world.step(1, row: [n(3), n(2)], position: at(born, 4), deposes: [n(2)])
        world.apply(.promote(step))
        #expect(!world.placement(1).isRestored)
        #expect(world.state.node(number: n(2))?.fencedAt == world.index)
        world.apply(.confirm(world.step(1)))
        #expect(world.placement(1).chain == [n(3), n(2)] && world.placement(1).isConfirmed)
    }

    /// Each node may be the only one to return, or the one with the most complete copy.
    @Test func copiesGivenUpBeforeTheLastOneAreRestoredToo() {
        var world = world([[n(1), n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        world.apply(.failOver(FailoverStep(nodes: [n(1)], isAutomatic: false, mayLose: true)))
        let placement = world.placement(0)
        #expect(placement.chain.isEmpty && placement.rowBefore == [n(1), n(2)])
        let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(assignment?.role(of: n(1)) == .kept && assignment?.role(of: n(2)) == .kept)
    }

    /// The active copy lost all its data: alone in its chain it would serve at once.
    @Test func vBucketWhoseActiveCopyLostItsDataWaitsForAFailedOverReplica() {
        var world = world([[n(1), n(2)], [n(1), n(2)]])
        let row: NodeChain = [n(1), n(2)]
        world.apply(.promote(world.step(0, row: row, position: VBucketPlacement.unknown)))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let placement = world.placement(0)
        #expect(placement.chain == [n(1)] && placement.basis == row && placement.isRestored)
        #expect(world.placement(1).chain == [n(1)] && world.placement(1).isConfirmed)
        #expect(world.state.buckets.map { world.state.unserved($0) } == [1])
        #expect(world.apply(.confirm(world.step(0))) == leftOut(0))
        let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(assignment?.role(of: n(1)) == .pending && assignment?.role(of: n(2)) == .kept)
        // The node is readmitted and has the data that was served.
        let membership = NodeMembership.inactiveAdded
        world.apply(.setNodeState(.init(number: n(2), membership: membership, recovery: .delta)))
        world.rebalance(kept: [n(1), n(2), n(3)])
        let back: NodeChain = [n(2), n(1)]
        let position = at(placement.origin, 4)
        world.apply(.promote(world.step(0, row: back, position: position, deposes: [n(1)])))
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).chain == back && world.placement(0).isConfirmed)
    }

    /// The rebalance had already moved past the bucket with the node's only copies.
    @Test func nodeFailedOverDuringARebalanceRecoversItsLastCopies() {
        var world = world([[n(2)], [n(1), n(2)], [n(1), n(4)]], nodes: 4)
        let born = world.placement(0).origin
        world.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: false, mayLose: true)))
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4)])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        world.end()
        #expect(world.placement(0).rowBefore == [n(2)])
        #expect(world.placement(1).rowBefore == [n(1), n(2)])
        // An ejected node returns without copies.
        #expect(world.state.node(number: n(4)) == nil && world.placement(2).rowBefore.isEmpty)
        let recovery = NodeStateChange(number: n(2), membership: .inactiveAdded, recovery: .delta)
        world.apply(.setNodeState(recovery))
        world.rebalance("again", kept: [n(1), n(2), n(3)])
        #expect(world.placement(0).chain == [n(2)] && world.placement(0).origin == born)
        world.end("again", .stopped)
        world.apply(.promote(world.step(0, row: [n(2)], position: at(born, 1))))
        world.apply(.confirm(world.step(0)))
        world.rebalance("last", kept: [n(1), n(2), n(3)])
        world.end("last")
        #expect(world.placement(1).rowBefore.isEmpty)
    }

    @Test func flushedVBucketIsNotRestoredFromOldCopies() {
        var world = world([[n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        let placement = world.placement(0)
        #expect(placement.chain.isEmpty && placement.rowBefore == [n(2)])
        // The node's copy is older than the flush and counts as empty.
        #expect(placement.origin == world.index)
    }

    /// The rebalance had not reached the bucket with the node's only copies, and would recreate the
    /// vBucket.
    @Test func vBucketOfAnAwaitedNodeIsNotRecreated() {
        var world = world([[n(2)], [n(1)]], nodes: 4)
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4)])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).isLeft(to: world.state.awaited))
        #expect(!world.placement(1).isLeft(to: world.state.awaited))
        let recreation = world.step(0, row: [n(1)], deposes: [n(2)])
        #expect(world.apply(.recreate(recreation)) == leftOut(0))
        world.end()
        // A full recovery does not use its copies: the node returns empty.
        let recovery = NodeStateChange(number: n(2), membership: .inactiveAdded, recovery: .full)
        world.apply(.setNodeState(recovery))
        world.rebalance("again", kept: [n(1), n(2), n(3)])
        #expect(!world.placement(0).isLeft(to: world.state.awaited))
        world.apply(.recreate(world.step(0, row: [n(1)], deposes: [n(2)])))
        #expect(world.placement(0).chain == [n(1)])
        world.end("again")
    }

    @Test func ejectedNodeIsNotAwaited() {
        var world = world([[n(2)], [n(1)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).isLeft(to: world.state.awaited))
        world.rebalance(kept: [n(1), n(3)], ejected: [n(2)])
        #expect(!world.placement(0).isLeft(to: world.state.awaited))
    }

    /// A node may still serve the vBucket because it has not learned of its failover.
    @Test func flushBeforePromotionLeavesRecoveredVBucketUnserved() {
        var world = world([[n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let recovery = NodeStateChange(number: n(2), membership: .inactiveAdded, recovery: .delta)
        world.apply(.setNodeState(recovery))
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .stopped)
        #expect(world.placement(0).isRestored)
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        let placement = world.placement(0)
        #expect(placement.isRestored && placement.mayServe.contains(n(2)))
        #expect(placement.chain == [n(2)] && placement.origin == world.index)
        // A node that does not answer counts as empty: the promotion does not wait for it.
        #expect(world.state.bucket(named: "b")?.isBeingEmptied(VBucketID(0)) == true)
    }

    /// The step may be applied long after it was proposed, when the nodes are active again.
    @Test func failoverThatMayNotLoseDataIsRefusedForActiveNodes() {
        func refused(_ rows: [NodeChain]) -> Bool {
            var world = world(rows)
            let before = world.state
            let step = FailoverStep(nodes: [n(2)], isAutomatic: true, mayLose: false)
            let isRefused = world.apply(.failOver(step)) == .refused(.nodeInUse)
            #expect(!isRefused || world.state.nodes == before.nodes)
            #expect(!isRefused || world.state.buckets == before.buckets)
            return isRefused
        }
        // The only copy; a copy beside an unqueried one; a replica only.
        #expect(refused([[n(1), n(2)], [n(2)]]))
        #expect(refused([[n(1), n(2)], [n(2), n(1)]]))
        #expect(!refused([[n(1), n(2)], [n(3), n(2)]]))
    }

    /// A write that was durable on two of three copies may now exist on the active copy only.
    @Test func remainingReplicasMustBecomeIntactAgainAfterAFailover() throws {
        var world = ClusterWorld(nodes: 4)
        let rows: [NodeChain] = [[n(1), n(2), n(3)], [n(1), n(2)], [n(1), n(3), n(4)]]
        world.createBucket(replicas: 2, rows: rows)
        let born = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let shorter = world.placement(0)
        #expect(shorter.chain == [n(1), n(3)] && shorter.cause == .resumed)
        #expect(shorter.fence == world.index && shorter.branch == world.index)
        #expect(shorter.origin == born && shorter.isConfirmed)
        let assignment = try #require(world.state.assignment(ofBucket: "b", VBucketID(0)))
        #expect(assignment.isResumed && assignment.branch == world.index)
        // No replica stays in the first of these chains, and none left the second.
        #expect(world.placement(1).chain == [n(1)] && world.placement(1).fence == born)
        #expect(world.placement(2).fence == born && world.placement(2).branch == born)
        // The copy of an unconfirmed promotion has everything that any queried copy had.
        let row: NodeChain = [n(1), n(3), n(4)]
        world.apply(.promote(world.step(2, row: row, position: at(born, 1))))
        let promoted = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(2).chain == [n(1), n(3)] && !world.placement(2).isConfirmed)
        #expect(world.placement(2).branch == promoted && world.placement(2).fence == promoted)
    }

    @Test func impossibleFailoversAreRefused() {
        var world = world([[n(1)]])
        func failOver(_ nodes: NodeNumber...) -> ClusterCommand {
            .failOver(FailoverStep(nodes: nodes, isAutomatic: false, mayLose: true))
        }
        #expect(world.apply(failOver(n(1), n(2), n(3))) == .refused(.lastActiveNode))
        #expect(world.apply(failOver(n(9))) == .refused(.nodeUnknown))
        world.apply(failOver(n(2)))
        #expect(world.apply(failOver(n(2))) == .refused(.nodeNotActive))
        #expect(world.state.autoFailoverCount == 0)
    }

    @Test func vBucketWithoutACopyIsRecreatedEmpty() {
        var world = world([[n(1)], [n(2)]])
        let born = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let lost = world.placement(1)
        #expect(lost.chain.isEmpty && lost.fence == world.index && lost.origin == born)
        #expect(world.apply(.recreate(world.step(0, row: [n(3)]))) == leftOut(0))
        #expect(world.apply(.recreate(world.step(1))) == leftOut(1))
        #expect(world.apply(.recreate(world.step(1, row: [n(2)]))) == leftOut(1))
        // Only if no node may return with a copy.
        #expect(world.apply(.recreate(world.step(1, row: [n(3), n(1)]))) == leftOut(1))
        world.rebalance(kept: [n(1), n(3)], ejected: [n(2)])
        #expect(
            world.apply(.recreate(world.step(1, row: [n(3), n(1)]))) == .applied([changed(1)])
        )
        #expect(world.placement(1).chain == [n(3), n(1)])
        #expect(world.placement(1).origin == world.index)
    }

    /// The active node of a move is failed over, an operator sets its recovery type, and then the
    /// move's target node is failed over as well.
    @Test func vBucketHasNoChainAfterBothNodesOfItsMoveAreLost() {
        var world = world([[n(3)], [n(1)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(2)], [n(1)]])
        world.apply(.joint(world.step(0, row: [n(2)])))
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).chain == [n(3)] && world.placement(0).next == [n(2)])
        let recovery = NodeStateChange(number: n(3), membership: .inactiveAdded, recovery: .full)
        world.apply(.setNodeState(recovery))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).chain.isEmpty && world.placement(0).next.isEmpty)
        #expect(world.placement(1).chain == [n(1)])
    }

    @Test func failoverRevertsMovesOfTheNode() {
        var world = world([[n(1), n(2)], [n(3), n(2)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(3)], [n(3), n(1)]])
        world.apply(.joint(world.step(0, row: [n(1), n(3)])))
        world.apply(.promote(world.step(1, row: [n(2)], position: at(1, 1), deposes: [n(3)])))
        world.apply(.confirm(world.step(1)))
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        let placement = world.placement(0)
        #expect(placement.next.isEmpty && placement.chain == [n(1), n(2)])
        #expect(placement.fence == world.index && placement.cause == .resumed)
        // The old chain is unchanged.
        #expect(placement.branch < world.index)
        #expect(world.placement(1).chain == [n(2)])
        #expect(world.state.bucket(named: "b")?.targets?.rows == [[n(1)], [n(1)]])
        #expect(world.state.rebalance?.kept == [n(1), n(2)])
    }

    /// The leader's proposal is applied after the failover (standard, seed 5012).
    @Test func moveOfAFailedOverActiveCopyIsNotCompleted() {
        var world = world([[n(2)], [n(2), n(1)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(2)], [n(2), n(3)]])
        world.apply(.joint(world.step(0, row: [n(1), n(2)])))
        world.apply(.joint(world.step(1, row: [n(2), n(3)])))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let position = at(world.placement(0).origin, 4)
        #expect(world.apply(.takeOver(world.step(0, position: position))) == leftOut(0))
        #expect(world.apply(.final(world.step(1))) == leftOut(1))
        #expect(world.placement(0).isJoint && world.placement(1).isJoint)
    }

    private enum Ending: CaseIterable {
        case resumed
        case ended
        case epoch
    }

    /// All nodes of the old chain are lost: only the target chain has copies.
    @Test(arguments: Ending.allCases)
    private func moveContinuesWithTheTargetIfTheOldChainIsLost(_ ending: Ending) throws {
        var world = ClusterWorld(nodes: 5)
        world.createBucket(rows: [[n(4), n(5)], [n(1), n(4)]])
        let born = world.index
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4), n(5)])
        world.targets([[n(2), n(3)], [n(1), n(2)]])
        world.apply(.joint(world.step(0, row: [n(2), n(3)])))
        let lost = [n(4), n(5)]
        if ending != .epoch {
            world.apply(.failOver(FailoverStep(nodes: lost, isAutomatic: false, mayLose: true)))
            #expect(world.placement(0).isJoint && world.placement(0).chain == [n(4), n(5)])
        }
        switch ending {
        case .resumed: world.apply(.resume(world.step(0)))
        case .ended: world.end("r", .failed)
        case .epoch:
            let epoch = NewEpoch(
                groupID: 99,
                formerGroupID: 7,
                survivors: [n(1), n(2), n(3)],
                beganMilliseconds: 5_000
            ).ordered(by: "Administrator")
            world.apply(.newEpoch(epoch))
        }
        let placement = world.placement(0)
        #expect(placement.chain == [n(2), n(3)] && !placement.isJoint)
        #expect(placement.fence == world.index && placement.branch == world.index)
        #expect(placement.origin == born && placement.rowBefore == [n(4), n(5)])
        let bucket = try #require(world.state.bucket(named: "b"))
        #expect(ending == .resumed || bucket.rev == world.index)
        // No copy of the target chain serves before all were queried.
        let assignment = try #require(world.state.assignment(ofBucket: "b", VBucketID(0)))
        let question = Promotion.Question(
            vBucket: VBucketID(0),
            basis: placement.confirmedChain.nodes,
            of: assignment,
            lost: Set(lost)
        )
        #expect(question.asked == [n(2), n(3)])
        // A node of the old chain may not know, and may serve until a promotion deposes it.
        #expect(placement.isRestored && placement.basis == placement.chain)
        #expect(Set(placement.mayServe) == [n(2), n(4), n(5)])
        #expect(world.apply(.confirm(world.step(0))) == leftOut(0))
        let step = world.step(
            0,
            row: [n(3), n(2)],
            position: at(born, 4),
            deposes: placement.mayServe
        )
        world.apply(.promote(step))
        #expect(world.state.node(number: n(4))?.fencedAt == world.index)
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).chain == [n(3), n(2)] && world.placement(0).isConfirmed)
        #expect(world.placement(0).mayServe == [n(3)])
    }

    @Test func oldCopiesAreKeptForDeltaRecoveryOnly() {
        var world = world([[n(1), n(2)], [n(2), n(1)]])
        world.apply(.promote(world.step(1, row: [n(1)], position: at(1, 1), deposes: [n(2)])))
        world.apply(.confirm(world.step(1)))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        func roles() -> [VBucketRole?] {
            world.state.assignment(ofBucket: "b")?.vBuckets.map { $0.role(of: n(2)) } ?? []
        }
        #expect(roles() == [.kept, .kept])
        func recover(_ type: RecoveryType) -> ClusterCommand {
            let membership = type == .none ? NodeMembership.inactiveFailed : .inactiveAdded
            return .setNodeState(.init(number: n(2), membership: membership, recovery: type))
        }
        world.apply(recover(.full))
        #expect(roles() == [VBucketRole.none, VBucketRole.none])
        world.apply(recover(.delta))
        #expect(roles() == [.kept, .kept])
        world.rebalance(kept: [n(1), n(2), n(3)])
        #expect(world.state.rebalance?.delta == [n(2)])
        #expect(world.state.node(number: n(2))?.membership == .active)
        #expect(roles() == [.kept, .kept])
        world.targets([[n(1), n(2)], []])
        #expect(roles() == [.replica(isInChain: false), .kept])
        world.end()
        #expect(roles() == [VBucketRole.none, VBucketRole.none])
    }

    @Test func gracefulFailoverRecordsTheOldChains() {
        var world = world([[n(1), n(2)], [n(2), n(3)]])
        world.rebalance(kind: .gracefulFailover, kept: [n(1), n(3)], ejected: [n(2)])
        world.targets([[n(1)], [n(3)]])
        world.apply(.joint(world.step(0, row: [n(1)])))
        world.apply(.final(world.step(0)))
        world.apply(.joint(world.step(1, row: [n(3)])))
        world.apply(.takeOver(world.step(1, position: at(1, 7))))
        world.apply(.release(world.step(1)))
        #expect(world.end() == .applied([.rebalanceChanged, changed(0, 1), .nodesChanged]))
        #expect(world.state.node(number: n(2))?.membership == .inactiveFailed)
        #expect(world.placement(0).rowBefore == [n(1), n(2)])
        #expect(world.placement(1).rowBefore == [n(2), n(3)])
        #expect(world.state.lastRebalance?.kind == .gracefulFailover)
    }
}
