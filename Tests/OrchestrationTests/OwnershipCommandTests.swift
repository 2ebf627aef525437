import Orchestration
import Testing
import Vocabulary

/// Each ownership step of a vBucket, applied and left out.
@Suite struct OwnershipCommandTests {
    let chains: [NodeChain] = [[n(1), n(2)], [n(2), n(3)], [n(3), n(1)], [n(1), n(2)]]

    func world() -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: chains)
        return world
    }

    @Test func newBucketHasOneFenceForAllVBuckets() {
        let world = world()
        for (number, chain) in chains.enumerated() {
            let placement = world.placement(UInt16(number))
            #expect(placement.chain == chain)
            #expect(placement.fence == world.index && placement.stage == world.index)
            #expect(placement.origin == world.index && placement.isConfirmed)
            #expect(placement.copies == 2)
        }
        let assignment = world.state.assignment(ofBucket: "b")
        #expect(assignment?.index == world.index)
        #expect(assignment?.vBuckets[1].role(of: n(2)) == .active)
        #expect(assignment?.vBuckets[1].role(of: n(3)) == .replica(isInChain: true))
        #expect(assignment?.vBuckets[1].role(of: n(1)) == VBucketRole.none)
    }

    @Test func promotedCopyIsNotServedBeforeItIsConfirmed() {
        var world = world()
        let born = world.index
        let promotion = world.step(0, row: [n(2)], position: at(born, 9), deposes: [n(1)])
        let outcome = world.apply(.promote(promotion))
        #expect(outcome == .applied([changed(0), .deposed([n(1)])]))
        let pending = world.placement(0)
        #expect(pending.chain == [n(2)] && pending.basis == [n(1), n(2)])
        #expect(!pending.isConfirmed && pending.cause == .promoted)
        #expect(pending.fence == world.index && pending.stage == world.index)
        #expect(pending.origin == born && pending.expected == at(born, 9))
        #expect(world.state.node(number: n(1))?.fencedAt == world.index)
        #expect(world.state.deposedAt == [n(1): world.index])
        let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(assignment?.role(of: n(2)) == .pending)
        // Until the promotion is confirmed, a repeated one queries the old chain.
        #expect(assignment?.role(of: n(1)) == .kept)

        let fence = world.index
        #expect(world.apply(.confirm(world.step(0))) == .applied([changed(0)]))
        let confirmed = world.placement(0)
        #expect(confirmed.isConfirmed && confirmed.basis.isEmpty && confirmed.expected == nil)
        #expect(confirmed.fence == fence && confirmed.stage == world.index)
        #expect(world.state.assignment(ofBucket: "b", VBucketID(0))?.role(of: n(2)) == .active)
        #expect(world.apply(.confirm(world.step(0))) == leftOut(0))
    }

    @Test func fenceAndStageAreCompared() {
        var world = world()
        let late = world.step(0, row: [n(2)], position: at(1, 1), deposes: [n(1)])
        world.apply(.resume(world.step(0)))
        #expect(world.apply(.promote(late)) == leftOut(0))
        // A confirmation keeps the fence, and an earlier promotion has an outdated basis.
        world.apply(.promote(world.step(0, row: [n(1), n(2)], position: at(1, 1))))
        let basedOnOld = world.step(0, row: [n(2)], position: at(1, 1), deposes: [n(1)])
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).fence == basedOnOld.steps[0].fence)
        #expect(world.apply(.promote(basedOnOld)) == leftOut(0))
        #expect(world.placement(0).chain == [n(1), n(2)])
    }

    @Test func outdatedStepsAreLeftOutAndTheRestApplies() {
        var world = world()
        var steps = world.step(0)
        steps.steps += world.step(1).steps + world.step(2).steps
        steps.steps[1].stage -= 1
        steps.steps.append(VBucketSteps.Step(vBucket: VBucketID(99), fence: 1, stage: 1))
        let outcome = world.apply(.resume(steps))
        let left = ClusterEffect.leftOut(bucket: "b", [VBucketID(1), VBucketID(99)])
        #expect(outcome == .applied([changed(0, 2), left]))
        steps.bucket = "none"
        #expect(world.apply(.resume(steps)) == .refused(.bucketUnknown))
    }

    /// Invalid rows of a promotion.
    @Test(
        arguments: [
            ([n(3)], at(1, 1), [n(1)]),  // Was never queried.
            ([n(2), n(1), n(3)], at(1, 1), [n(1)]),  // Too many copies.
            ([], at(1, 1), [n(1)]),
            ([n(2)], nil, [n(1)]),
            ([n(2)], at(1, 1), []),  // Does not list the deposed node.
            ([n(9)], at(1, 1), [n(1)]),  // No node has this number.
        ] as [([NodeNumber], CopyPosition?, [NodeNumber])]
    )
    func invalidPromotionsAreLeftOut(
        row: [NodeNumber],
        position: CopyPosition?,
        deposes: [NodeNumber]
    ) throws {
        var world = world()
        let row = try #require(NodeChain(row))
        let step = world.step(0, row: row, position: position, deposes: deposes)
        #expect(world.apply(.promote(step)) == leftOut(0))
    }

    @Test func secondPromotionKeepsTheConfirmedBasis() {
        var world = world()
        world.apply(.promote(world.step(0, row: [n(2)], position: at(1, 1), deposes: [n(1)])))
        world.apply(.promote(world.step(0, row: [n(1)], position: at(1, 1), deposes: [n(2)])))
        #expect(world.placement(0).basis == [n(1), n(2)])
        #expect(world.placement(0).chain == [n(1)])
        #expect(world.apply(.resume(world.step(0))) == leftOut(0))
    }

    @Test func moveGoesThroughAJointPhase() {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        #expect(world.apply(.joint(world.step(0, row: [n(3), n(2)]))) == leftOut(0))
        world.targets([[n(3), n(2)], [n(2), n(1)], [], []])
        let building = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(building?.role(of: n(3)) == .replica(isInChain: false))
        // Only the agreed target is accepted.
        #expect(world.apply(.joint(world.step(0, row: [n(3), n(1)]))) == leftOut(0))
        let (fence, stage) = (world.placement(0).fence, world.placement(0).stage)
        world.apply(.joint(world.step(0, row: [n(3), n(2)])))
        #expect(world.placement(0).fence == fence && world.placement(0).stage == stage)
        let joint = world.state.assignment(ofBucket: "b", VBucketID(0))
        #expect(joint?.nextChain == [n(3), n(2)] && joint?.builders == [])
        #expect(joint?.role(of: n(3)) == .replica(isInChain: true))
        #expect(world.apply(.joint(world.step(0, row: [n(3), n(2)]))) == leftOut(0))

        // The active node changes, so only a takeover can end the joint phase.
        #expect(world.apply(.final(world.step(0))) == leftOut(0))
        #expect(world.apply(.takeOver(world.step(0))) == leftOut(0))
        let takeOver = world.apply(.takeOver(world.step(0, position: at(fence, 44))))
        #expect(takeOver == .applied([changed(0)]))
        let taken = world.placement(0)
        #expect(taken.chain == [n(3), n(2)] && taken.former == n(1) && taken.next.isEmpty)
        #expect(taken.fence == world.index && taken.isConfirmed && taken.cause == .takenOver)
        #expect(taken.expected == at(fence, 44))
        #expect(world.state.node(number: n(1))?.fencedAt == world.index)
        #expect(world.state.assignment(ofBucket: "b", VBucketID(0))?.role(of: n(1)) == .kept)
        #expect(world.apply(.release(world.step(0))) == .applied([changed(0)]))
        #expect(world.placement(0).former == nil && world.placement(0).fence == taken.fence)
        #expect(world.apply(.release(world.step(0))) == leftOut(0))
    }

    @Test func moveThatKeepsTheActiveNodeKeepsTheFence() {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[], [n(2), n(1)], [], []])
        world.apply(.joint(world.step(1, row: [n(2), n(1)])))
        let fence = world.placement(1).fence
        #expect(world.apply(.takeOver(world.step(1, position: at(1, 1)))) == leftOut(1))
        #expect(world.apply(.final(world.step(1))) == .applied([changed(1)]))
        #expect(world.placement(1).chain == [n(2), n(1)])
        #expect(world.placement(1).fence == fence && world.placement(1).stage == world.index)
    }

    @Test func resumeRevertsToTheOldChain() {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(3), n(2)], [], [], []])
        world.apply(.joint(world.step(0, row: [n(3), n(2)])))
        #expect(world.apply(.resume(world.step(0))) == .applied([changed(0)]))
        let placement = world.placement(0)
        #expect(placement.chain == [n(1), n(2)] && placement.next.isEmpty)
        #expect(placement.fence == world.index && placement.cause == .resumed)
    }

    @Test func formerActiveCopyCanBePromoted() {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(3), n(2)], [], [], []])
        world.apply(.joint(world.step(0, row: [n(3), n(2)])))
        world.apply(.takeOver(world.step(0, position: at(1, 5))))
        let back = world.step(0, row: [n(1), n(2)], position: at(1, 5), deposes: [n(3)])
        #expect(world.apply(.promote(back)) == .applied([changed(0), .deposed([n(3)])]))
        #expect(world.placement(0).former == n(1))
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).former == nil)
        #expect(world.placement(0).chain == [n(1), n(2)])
    }

    /// Otherwise the vBucket would belong to a lost node, and no copy could be queried.
    @Test func failedOverNodeIsNotConfirmed() {
        var world = world()
        let before = world.placement(0)
        #expect(before.chain.count > 1)
        let (chosen, other) = (before.chain.nodes[0], before.chain.nodes[1])
        let position = at(before.fence, 5)
        world.apply(.promote(world.step(0, row: [chosen], position: position)))
        world.apply(.failOver(FailoverStep(nodes: [chosen], isAutomatic: false, mayLose: true)))
        #expect(world.placement(0).chain == [chosen] && !world.placement(0).isConfirmed)
        #expect(world.apply(.confirm(world.step(0))) == leftOut(0))
        let next = world.step(0, row: [other], position: position, deposes: [chosen])
        world.apply(.promote(next))
        #expect(world.apply(.confirm(world.step(0))) == .applied([changed(0)]))
        #expect(world.placement(0).chain == [other] && world.placement(0).isConfirmed)
    }

    /// The failed-over node may still serve because it does not know; a promotion deposes it.
    @Test func flushDoesNotDemoteAFailedOverActiveNode() {
        var world = world()
        let before = world.placement(0)
        world.apply(
            .failOver(
                FailoverStep(nodes: [before.chain.nodes[0]], isAutomatic: false, mayLose: true)
            )
        )
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        #expect(world.placement(0).chain == before.chain)
        #expect(world.placement(0).origin == world.index)
    }

    /// A write may be durable by the disk of the former active copy.
    ///
    /// The new copies may not have persisted it yet, and would lose it in a power cut.
    @Test func formerActiveCopyIsKeptDuringAPromotion() {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(3), n(2)], [], [], []])
        world.apply(.joint(world.step(0, row: [n(3), n(2)])))
        world.apply(.takeOver(world.step(0, position: at(1, 5))))
        world.apply(.promote(world.step(0, row: [n(2)], position: at(1, 5), deposes: [n(3)])))
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).chain == [n(2)])
        #expect(world.placement(0).former == n(1))
        #expect(world.state.assignment(ofBucket: "b", VBucketID(0))?.role(of: n(1)) == .kept)
        #expect(world.apply(.release(world.step(0))) == .applied([changed(0)]))
        #expect(world.placement(0).former == nil)
    }

    /// Intact copies stay intact over takeovers, and have to become intact again after a promotion.
    @Test func onlyPromotionsAndEmptyingBranchTheHistory() throws {
        var world = world()
        let born = world.index
        func branch() -> UInt64? {
            let assignment = world.state.assignment(ofBucket: "b", VBucketID(0))
            #expect(assignment?.branch == world.placement(0).branch)
            return assignment?.branch
        }
        #expect(branch() == born)
        world.apply(.resume(world.step(0)))
        #expect(branch() == born && world.placement(0).fence > born)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.targets([[n(3), n(2)], [], [], []])
        world.apply(.joint(world.step(0, row: [n(3), n(2)])))
        world.apply(.takeOver(world.step(0, position: at(born, 5))))
        let taken = world.placement(0)
        #expect(branch() == born && taken.cause == .takenOver)
        // A move that keeps the active node changes neither fence nor branch.
        world.targets([[n(3), n(1)], [], [], []])
        world.apply(.joint(world.step(0, row: [n(3), n(1)])))
        world.apply(.final(world.step(0)))
        #expect(branch() == born && world.placement(0).fence == taken.fence)
        let promotion = world.step(0, row: [n(1)], position: at(born, 5), deposes: [n(3)])
        world.apply(.promote(promotion))
        let promoted = world.index
        #expect(branch() == promoted && world.placement(0).fence == promoted)
        world.apply(.confirm(world.step(0)))
        #expect(branch() == promoted)
        world.apply(.resume(world.step(0)))
        #expect(branch() == promoted && world.placement(0).fence == world.index)
        // Snapshots contain it.
        guard case .state(let read) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("the state cannot be read back")
            return
        }
        #expect(read == world.state)
        world.end("r", .stopped)
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        #expect(branch() == world.index && world.placement(0).origin == world.index)
    }

    @Test func promoteCommandListsTheNodesItDeposes() {
        let world = world()
        let promotion = world.step(0, row: [n(2)], position: at(1, 1), deposes: [n(1)])
        #expect(ClusterState.effect(of: .promote(promotion)) == .deposes([n(1)]))
        let own = world.step(0, row: [n(1)], position: at(1, 1))
        #expect(ClusterState.effect(of: .promote(own)) == LeasePromises.Effect.none)
        let failover = FailoverStep(nodes: [n(1), n(3)], isAutomatic: false, mayLose: true)
        #expect(ClusterState.effect(of: .failOver(failover)) == .deposes([n(1), n(3)]))
        #expect(ClusterState.effect(of: .resume(own)) == LeasePromises.Effect.none)
        let recreation = world.step(0, row: [n(2)], deposes: [n(1)])
        #expect(ClusterState.effect(of: .recreate(recreation)) == .deposes([n(1)]))
    }
}
