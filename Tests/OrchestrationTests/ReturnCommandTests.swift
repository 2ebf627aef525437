import Orchestration
import Testing
import Vocabulary

/// Recovered nodes whose chains contain other failed-over nodes.
@Suite struct ReturnCommandTests {
    private func world(_ rows: [NodeChain], replicas: Int = 1, nodes: Int) -> ClusterWorld {
        var world = ClusterWorld(nodes: nodes)
        world.createBucket(replicas: replicas, rows: rows)
        return world
    }

    private func failOver(_ nodes: [NodeNumber], _ world: inout ClusterWorld) {
        world.apply(.failOver(FailoverStep(nodes: nodes, isAutomatic: false, mayLose: true)))
    }

    private func recover(_ nodes: [NodeNumber], _ world: inout ClusterWorld) {
        for node in nodes {
            let membership = NodeMembership.inactiveAdded
            world.apply(
                .setNodeState(.init(number: node, membership: membership, recovery: .delta))
            )
        }
    }

    /// Both copies of a vBucket return after the number of replicas was lowered to 0.
    private func backWithFewerCopies() throws -> ClusterWorld {
        var world = world([[n(1), n(2)]], nodes: 3)
        failOver([n(1), n(2)], &world)
        let bucket = try #require(world.state.bucket(named: "b"))
        var settings = bucket.settings
        settings.replicas = 0
        world.apply(.changeBucket(BucketChange(settings: settings, options: bucket.options)))
        recover([n(1), n(2)], &world)
        world.rebalance(kept: [n(1), n(2), n(3)])
        return world
    }

    /// No move starts on a chain with a failed-over peer; no promotion was possible, because the
    /// third copy was silent.
    @Test func recoveredNodesChainExcludesOtherFailedOverNodes() {
        var world = world([[n(1), n(2), n(3)], [n(3), n(1)]], replicas: 2, nodes: 4)
        failOver([n(1), n(2)], &world)
        #expect(world.placement(0).chain == [n(1), n(2), n(3)])
        recover([n(1)], &world)
        let outcome = world.rebalance(kept: [n(1), n(3), n(4)], ejected: [n(2)])
        let placement = world.placement(0)
        #expect(placement.chain == [n(1), n(3)] && placement.isConfirmed)
        // As after any failover of a peer, the remaining replicas have to become intact again.
        #expect(placement.cause == .resumed && placement.branch == world.index)
        #expect(outcome == .applied([.rebalanceChanged, .nodesChanged, changed(0)]))
        world.targets([[n(1), n(3), n(4)], [n(3), n(1), n(4)]], copies: 3)
        world.apply(.joint(world.step(0, row: [n(1), n(3), n(4)])))
        #expect(world.placement(0).isJoint)
    }

    /// The number of copies was lowered while the vBucket was unserved: each returning copy may be
    /// the most complete.
    @Test func allReturningCopiesAreQueriedEvenIfFewerAreWanted() throws {
        var world = try backWithFewerCopies()
        let placement = world.placement(0)
        #expect(placement.chain == [n(1)] && placement.isRestored)
        let assignment = try #require(world.state.assignment(ofBucket: "b", VBucketID(0)))
        let question = Promotion.Question(
            vBucket: VBucketID(0),
            basis: placement.confirmedChain.nodes,
            of: assignment
        )
        #expect(question.asked == [n(1), n(2)] && assignment.role(of: n(2)) == .kept)
        let position = at(placement.origin, 4)
        world.apply(
            .promote(world.step(0, row: [n(2)], position: position, deposes: [n(1)]))
        )
        world.apply(.confirm(world.step(0)))
        #expect(world.placement(0).chain == [n(2)] && world.placement(0).isConfirmed)
    }

    @Test func restoredVBucketWithExtraCopiesCanBeFlushedWithoutItsFirstNode() throws {
        var world = try backWithFewerCopies()
        failOver([n(1)], &world)
        world.end("r", .stopped)
        world.apply(.flushBucket(BucketStep(name: "b", uuid: "b-uuid", phase: .begin)))
        let placement = world.placement(0)
        #expect(placement.chain.count == 1 && placement.origin == world.index)
    }
}
