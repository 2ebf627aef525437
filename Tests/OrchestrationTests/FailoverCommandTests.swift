import Orchestration
import Testing
import Vocabulary

/// Nodes that are given up, and come back.
@Suite struct FailoverCommandTests {
    func world(_ rows: [NodeChain], nodes: Int = 3) -> ClusterWorld {
        var world = ClusterWorld(nodes: nodes)
        world.createBucket(rows: rows)
        return world
    }

    @Test func aFailedNodeLeavesTheChainsInWhichOthersServe() {
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
        // Somebody else has a copy of this one, and was not asked.
        #expect(world.placement(1).chain == [n(2), n(1)])
        let node = world.state.node(number: n(2))
        #expect(node?.membership == .inactiveFailed && node?.fencedAt == world.index)
        #expect(world.state.autoFailoverCount == 1)
        #expect(world.apply(.resetAutoFailoverCount) == .applied([.settingsChanged]))
        #expect(world.state.autoFailoverCount == 0)
    }

    /// The last copies are with nodes that were failed over: what those have is all there is.
    @Test func whatNobodyElseHasComesBackWithItsNodes() {
        var world = world([[n(2)], [n(2), n(3)], [n(1), n(2)]], nodes: 3)
        let born = world.placement(0).origin
        world.apply(.failOver(FailoverStep(nodes: [n(2), n(3)], isAutomatic: false)))
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
        // Their histories count, and none of them is believed to be whole before all were asked.
        #expect(placement.origin == born && placement.branch == world.index)
        #expect(
            placement.isRestored && !placement.isConfirmed && placement.basis == placement.chain
        )
        #expect(world.state.bucket(named: "b")?.rev == world.index)
        // Whatever ends the rebalance, and is begun after it: they are there.
        world.end("r", .stopped)
        world.rebalance("again", kept: [n(1), n(2), n(3)])
        #expect(world.placement(1) == placement)
        #expect(
            world.state.assignment(ofBucket: "b", VBucketID(1))?.role(of: n(3))
                == .replica(isInChain: true)
        )
        // Nobody was asked yet.
        #expect(world.apply(.confirm(world.step(1))) == leftOut(1))
        let step = world.step(1, row: [n(3), n(2)], position: at(born, 4), deposes: [n(2)])
        world.apply(.promote(step))
        #expect(!world.placement(1).isRestored)
        #expect(world.state.node(number: n(2))?.fencedAt == world.index)
        world.apply(.confirm(world.step(1)))
        #expect(world.placement(1).chain == [n(3), n(2)] && world.placement(1).isConfirmed)
    }

    /// Each of them may be all that comes back, and have most of what does.
    @Test func whoWasGivenUpBeforeTheLastOneMayComeBackToo() {
        var world = world([[n(1), n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        world.apply(.failOver(FailoverStep(nodes: [n(1)], isAutomatic: false)))
        let placement = world.placement(0)
        #expect(placement.chain.isEmpty && placement.rowBefore == [n(1), n(2)])
        let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(assignment?.role(of: n(1)) == .kept && assignment?.role(of: n(2)) == .kept)
    }

    /// The active copy forgot everything: alone in its chain it would serve at once.
    @Test func whatIsLeftUndecidedWaitsForWhoIsGivenUp() {
        var world = world([[n(1), n(2)], [n(1), n(2)]])
        let row: NodeChain = [n(1), n(2)]
        world.apply(.promote(world.step(0, row: row, position: VBucketPlacement.unknown)))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        let placement = world.placement(0)
        #expect(placement.chain == [n(1)] && placement.basis == row && placement.isRestored)
        #expect(world.placement(1).chain == [n(1)] && world.placement(1).isConfirmed)
        #expect(world.state.buckets.map { world.state.unserved($0) } == [1])
        #expect(world.apply(.confirm(world.step(0))) == leftOut(0))
        let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(assignment?.role(of: n(1)) == .pending && assignment?.role(of: n(2)) == .kept)
        // It is taken back, and has what was served.
        let membership = NodeMembership.inactiveAdded
        world.apply(.setNodeState(.init(number: n(2), membership: membership, recovery: .delta)))
        world.rebalance(kept: [n(1), n(2), n(3)])
        let back: NodeChain = [n(2), n(1)]
        let position = at(placement.origin, 4)
        world.apply(.promote(world.step(0, row: back, position: position, deposes: [n(1)])))
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).chain == back && world.placement(0).isConfirmed)
    }

    /// The rebalance had passed what only it has, and went on without it.
    @Test func whoIsFailedOverDuringARebalanceMayComeBackToItsLastCopies() {
        var world = world([[n(2)], [n(1), n(2)], [n(1), n(4)]], nodes: 4)
        let born = world.placement(0).origin
        world.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: false)))
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4)])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        world.end()
        #expect(world.placement(0).rowBefore == [n(2)])
        #expect(world.placement(1).rowBefore == [n(1), n(2)])
        // Who was taken out comes back to nothing.
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

    @Test func whatWasFlushedMeanwhileDoesNotComeBack() {
        var world = world([[n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        let placement = world.placement(0)
        #expect(placement.chain.isEmpty && placement.rowBefore == [n(2)])
        // What its node has is of before, and counts for nothing.
        #expect(placement.origin == world.index)
    }

    /// The rebalance had not come to what only it has: it would be made anew, with nobody asked.
    @Test func whatSomebodyMayComeBackWithIsNotMadeAnew() {
        var world = world([[n(2)], [n(1)]], nodes: 4)
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4)])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        #expect(world.placement(0).isLeft(to: world.state.awaited))
        #expect(!world.placement(1).isLeft(to: world.state.awaited))
        let anew = world.step(0, row: [n(1)], deposes: [n(2)])
        #expect(world.apply(.recreate(anew)) == leftOut(0))
        world.end()
        // Nobody asks for its copies: it comes back with nothing.
        let recovery = NodeStateChange(number: n(2), membership: .inactiveAdded, recovery: .full)
        world.apply(.setNodeState(recovery))
        world.rebalance("again", kept: [n(1), n(2), n(3)])
        #expect(!world.placement(0).isLeft(to: world.state.awaited))
        world.apply(.recreate(world.step(0, row: [n(1)], deposes: [n(2)])))
        #expect(world.placement(0).chain == [n(1)])
        world.end("again")
    }

    @Test func whoIsTakenOutIsNotAwaited() {
        var world = world([[n(2)], [n(1)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        #expect(world.placement(0).isLeft(to: world.state.awaited))
        world.rebalance(kept: [n(1), n(3)], ejected: [n(2)])
        #expect(!world.placement(0).isLeft(to: world.state.awaited))
    }

    /// Somebody may serve it still who has not heard that he was given up.
    @Test func whatCameBackAndWasFlushedBeforeAnybodyWasChosenIsServedByNobodyYet() {
        var world = world([[n(2)]])
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        let recovery = NodeStateChange(number: n(2), membership: .inactiveAdded, recovery: .delta)
        world.apply(.setNodeState(recovery))
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .stopped)
        #expect(world.placement(0).isRestored)
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        let placement = world.placement(0)
        #expect(placement.isRestored && placement.mayServe.contains(n(2)))
        #expect(placement.chain == [n(2)] && placement.origin == world.index)
        // Whoever does not come back from this has nothing: the flush does not wait for him.
        #expect(world.state.bucket(named: "b")?.isBeingEmptied(VBucketID(0)) == true)
    }

    /// Whoever asked for it may have asked long ago, of a map in which others served.
    @Test func nothingIsLostByAFailoverThatMayLoseNothing() {
        func refused(_ rows: [NodeChain]) -> Bool {
            var world = world(rows)
            let before = world.state
            let step = FailoverStep(nodes: [n(2)], isAutomatic: true)
            let isRefused = world.apply(.failOver(step)) == .refused(.nodeInUse)
            #expect(!isRefused || world.state.nodes == before.nodes)
            #expect(!isRefused || world.state.buckets == before.buckets)
            return isRefused
        }
        // The last copy; one of which another was not asked; none that it serves.
        #expect(refused([[n(1), n(2)], [n(2)]]))
        #expect(refused([[n(1), n(2)], [n(2), n(1)]]))
        #expect(!refused([[n(1), n(2)], [n(3), n(2)]]))
    }

    /// What two of three made durable may be with the active one alone from here on.
    @Test func whereOthersStayBesideTheActiveOneTheyProveAnewThatTheyAreIntact() throws {
        var world = ClusterWorld(nodes: 4)
        let rows: [NodeChain] = [[n(1), n(2), n(3)], [n(1), n(2)], [n(1), n(3), n(4)]]
        world.createBucket(replicas: 2, rows: rows)
        let born = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        let shorter = world.placement(0)
        #expect(shorter.chain == [n(1), n(3)] && shorter.cause == .resumed)
        #expect(shorter.fence == world.index && shorter.branch == world.index)
        #expect(shorter.origin == born && shorter.isConfirmed)
        let assignment = try #require(world.state.assignment(ofBucket: "b", VBucketID(0)))
        #expect(assignment.isResumed && assignment.branch == world.index)
        // Nobody stays beside this one, and nobody left that.
        #expect(world.placement(1).chain == [n(1)] && world.placement(1).fence == born)
        #expect(world.placement(2).fence == born && world.placement(2).branch == born)
        // One that is chosen and not confirmed has whatever any of them had.
        let row: NodeChain = [n(1), n(3), n(4)]
        world.apply(.promote(world.step(2, row: row, position: at(born, 1))))
        let promoted = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(4)], isAutomatic: false)))
        #expect(world.placement(2).chain == [n(1), n(3)] && !world.placement(2).isConfirmed)
        #expect(world.placement(2).branch == promoted && world.placement(2).fence == promoted)
    }

    @Test func failoversThatCannotBe() {
        var world = world([[n(1)]])
        func failOver(_ nodes: NodeNumber...) -> ClusterCommand {
            .failOver(FailoverStep(nodes: nodes, isAutomatic: false))
        }
        #expect(world.apply(failOver(n(1), n(2), n(3))) == .refused(.lastActiveNode))
        #expect(world.apply(failOver(n(9))) == .refused(.nodeUnknown))
        world.apply(failOver(n(2)))
        #expect(world.apply(failOver(n(2))) == .refused(.nodeNotActive))
        #expect(world.state.autoFailoverCount == 0)
    }

    @Test func aVBucketWithoutACopyBeginsAgainEmpty() {
        var world = world([[n(1)], [n(2)]])
        let born = world.index
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        let lost = world.placement(1)
        #expect(lost.chain.isEmpty && lost.fence == world.index && lost.origin == born)
        #expect(world.apply(.recreate(world.step(0, row: [n(3)]))) == leftOut(0))
        #expect(world.apply(.recreate(world.step(1))) == leftOut(1))
        #expect(world.apply(.recreate(world.step(1, row: [n(2)]))) == leftOut(1))
        // Only when nobody is left who might come back with it.
        #expect(world.apply(.recreate(world.step(1, row: [n(3), n(1)]))) == leftOut(1))
        world.rebalance(kept: [n(1), n(3)], ejected: [n(2)])
        #expect(
            world.apply(.recreate(world.step(1, row: [n(3), n(1)]))) == .applied([changed(1)])
        )
        #expect(world.placement(1).chain == [n(3), n(1)])
        #expect(world.placement(1).origin == world.index)
    }

    /// Who was to take over from a node that was failed over is failed over as well, after somebody
    /// said how the first one is to come back.
    @Test func nobodyWaitsForANodeThatWasGivenUpBefore() {
        var world = world([[n(3)], [n(1)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(2)], [n(1)]])
        world.apply(.joint(world.step(0, row: [n(2)])))
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false)))
        #expect(world.placement(0).chain == [n(3)] && world.placement(0).next == [n(2)])
        let recovery = NodeStateChange(number: n(3), membership: .inactiveAdded, recovery: .full)
        world.apply(.setNodeState(recovery))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
        #expect(world.placement(0).chain.isEmpty && world.placement(0).next.isEmpty)
        #expect(world.placement(1).chain == [n(1)])
    }

    @Test func aMoveThatANodeIsInGoesBack() {
        var world = world([[n(1), n(2)], [n(3), n(2)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(3)], [n(3), n(1)]])
        world.apply(.joint(world.step(0, row: [n(1), n(3)])))
        world.apply(.promote(world.step(1, row: [n(2)], position: at(1, 1), deposes: [n(3)])))
        world.apply(.confirm(world.step(1)))
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false)))
        let placement = world.placement(0)
        #expect(placement.next.isEmpty && placement.chain == [n(1), n(2)])
        #expect(placement.fence == world.index && placement.cause == .resumed)
        // The chain that counts is what it was.
        #expect(placement.branch < world.index)
        #expect(world.placement(1).chain == [n(2)])
        #expect(world.state.bucket(named: "b")?.targets?.rows == [[n(1)], [n(1)]])
        #expect(world.state.rebalance?.kept == [n(1), n(2)])
    }

    /// What its leader proposed comes behind the failover (standard, seed 5012).
    @Test func aMoveDoesNotGoOnWhoseActiveCopyWasFailedOver() {
        var world = world([[n(2)], [n(2), n(1)]])
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(1), n(2)], [n(2), n(3)]])
        world.apply(.joint(world.step(0, row: [n(1), n(2)])))
        world.apply(.joint(world.step(1, row: [n(2), n(3)])))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
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

    /// Nobody is left of the chain that counts: the one beside it has what there is.
    @Test(arguments: Ending.allCases)
    private func aMoveWhoseOldChainIsGivenUpEndsWithTheNewOne(_ ending: Ending) throws {
        var world = ClusterWorld(nodes: 5)
        world.createBucket(rows: [[n(4), n(5)], [n(1), n(4)]])
        let born = world.index
        world.rebalance(kept: [n(1), n(2), n(3)], ejected: [n(4), n(5)])
        world.targets([[n(2), n(3)], [n(1), n(2)]])
        world.apply(.joint(world.step(0, row: [n(2), n(3)])))
        let lost = [n(4), n(5)]
        if ending != .epoch {
            world.apply(.failOver(FailoverStep(nodes: lost, isAutomatic: false)))
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
            )
            world.apply(.newEpoch(epoch))
        }
        let placement = world.placement(0)
        #expect(placement.chain == [n(2), n(3)] && !placement.isJoint)
        #expect(placement.fence == world.index && placement.branch == world.index)
        #expect(placement.origin == born && placement.rowBefore == [n(4), n(5)])
        let bucket = try #require(world.state.bucket(named: "b"))
        #expect(ending == .resumed || bucket.rev == world.index)
        // Nobody of it serves before all of it were asked.
        let assignment = try #require(world.state.assignment(ofBucket: "b", VBucketID(0)))
        let question = Promotion.Question(
            vBucket: VBucketID(0),
            basis: placement.confirmedChain.nodes,
            of: assignment,
            lost: Set(lost)
        )
        #expect(question.asked == [n(2), n(3)])
        // Somebody of the old chain may not have heard of it, and serve until a promotion deposes him.
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

    @Test func oldCopiesAreKeptForADeltaRecoveryAndForNoOther() {
        var world = world([[n(1), n(2)], [n(2), n(1)]])
        world.apply(.promote(world.step(1, row: [n(1)], position: at(1, 1), deposes: [n(2)])))
        world.apply(.confirm(world.step(1)))
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false)))
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

    @Test func aGracefulFailoverRemembersTheRows() {
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
