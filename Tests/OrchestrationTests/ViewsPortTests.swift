import Bytes
import Orchestration
import Testing
import Vocabulary

/// The nodes' ports for views as part of the agreed state.
@Suite struct ViewsPortTests {
    /// Three nodes with bucket `b` on the first two.
    private static func world() -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        return world
    }

    private func ports(_ state: ClusterState) -> [UInt16] { state.nodes.map(\.ports.views) }

    @Test func portIsSetChangedAndRemoved() {
        var world = Self.world()
        #expect(ports(world.state) == [0, 0, 0])
        for port in [8_092, 9_092, 0] as [UInt16] {
            #expect(world.announceViews(port, by: 2) == .applied([.nodesChanged]))
            #expect(ports(world.state) == [0, port, 0])
        }
    }

    /// Clients load a configuration again only if its revision is higher.
    @Test func changedPortRaisesAllRevisionsAndTheSamePortNone() {
        var world = Self.world()
        world.createBucket("other", rows: [[n(3)]])
        world.announceViews(8_092, by: 1)
        #expect(world.state.rev == world.index)
        #expect(world.state.buckets.map(\.rev) == [world.index, world.index])
        let before = world.state
        #expect(world.announceViews(8_092, by: 1) == .applied([]))
        #expect(world.state.rev == before.rev)
        #expect(world.state.buckets.map(\.rev) == before.buckets.map(\.rev))
    }

    @Test func viewPortOfNodeIsAddedAndRemovedWithTheNode() throws {
        var world = Self.world()
        var node = ClusterWorld.node(4)
        node.ports.views = 8_092
        let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: .addNode(node))
        let read = try ClusterEnvelope(decoding: envelope.encoded)
        world.apply(read.command)
        #expect(ports(world.state) == [0, 0, 0, 8_092])
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(ports(decoded) == [0, 0, 0, 8_092])
        world.apply(.removeNode(n(4)))
        #expect(ports(world.state) == [0, 0, 0])
    }

    @Test func newEpochKeepsViewPorts() {
        var world = Self.world()
        for number in 1...3 { world.announceViews(UInt16(8_000 + number), by: number) }
        let epoch = NewEpoch(
            groupID: 8,
            formerGroupID: 7,
            survivors: [n(1), n(2)],
            beganMilliseconds: 1
        ).ordered(by: "Administrator")
        world.apply(.newEpoch(epoch))
        #expect(ports(world.state) == [8_001, 8_002, 8_003])
    }
}
