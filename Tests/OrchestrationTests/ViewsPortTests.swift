import Orchestration
import Testing
import Vocabulary

/// The nodes' ports for views as part of the agreed state.
@Suite struct ViewsPortTests {
    /// Nodes that may have view ports, with bucket `b` on the first two.
    private static func world(level: FeatureLevel = .designDocuments) -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        world.raise(to: level)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        return world
    }

    private static func set(_ number: Int, _ port: UInt16) -> ClusterCommand {
        .setViewsPort(.init(number: n(number), port: port))
    }

    private func ports(_ state: ClusterState) -> [UInt16] { state.nodes.map(\.ports.views) }

    // MARK: Changes

    @Test func portIsSetChangedAndRemoved() {
        var world = Self.world()
        #expect(ports(world.state) == [0, 0, 0])
        #expect(world.apply(Self.set(2, 8_092)) == .applied([.nodesChanged]))
        #expect(ports(world.state) == [0, 8_092, 0])
        #expect(world.apply(Self.set(2, 9_092)) == .applied([.nodesChanged]))
        #expect(ports(world.state) == [0, 9_092, 0])
        #expect(world.apply(Self.set(2, 0)) == .applied([.nodesChanged]))
        #expect(ports(world.state) == [0, 0, 0])
        #expect(world.apply(Self.set(9, 8_092)) == .refused(.nodeUnknown))
    }

    /// Clients load a configuration again only if its revision is higher.
    @Test func changedPortRaisesAllRevisionsAndTheSamePortNone() {
        var world = Self.world()
        world.createBucket("other", rows: [[n(3)]])
        world.apply(Self.set(1, 8_092))
        #expect(world.state.rev == world.index)
        #expect(world.state.buckets.map(\.rev) == [world.index, world.index])
        let before = world.state
        #expect(world.apply(Self.set(1, 8_092)) == .applied([]))
        #expect(world.state.rev == before.rev)
        #expect(world.state.buckets.map(\.rev) == before.buckets.map(\.rev))
    }

    @Test func clusterBelowTheLevelRefusesViewPorts() {
        var world = Self.world(level: FeatureLevel(2))
        #expect(world.apply(Self.set(1, 8_092)) == .refused(.featureUnavailable))
        #expect(ports(world.state) == [0, 0, 0])
        world.raise(to: .designDocuments)
        #expect(world.apply(Self.set(1, 8_092)) == .applied([.nodesChanged]))
    }

    // MARK: Other commands

    /// The entry has no field for the port, so it must not remove it.
    @Test func announcedAddressKeepsTheViewPort() {
        var world = Self.world()
        world.apply(Self.set(1, 8_092))
        let ports = NodePorts(admin: 9_000, data: 9_001, peer: 9_002)
        let address = NodeAddress(number: n(1), host: "127.0.0.1", ports: ports)
        #expect(world.apply(.setNode(address)) == .applied([.nodesChanged]))
        #expect(world.state.nodes[0].ports.admin == 9_000)
        #expect(world.state.nodes[0].ports.views == 8_092)
        // The same address again is no change.
        let before = world.state
        #expect(world.apply(.setNode(address)) == .applied([]))
        #expect(world.state.rev == before.rev)
    }

    /// A node applies its own entries as it reads them from the log: with what they encode.
    @Test func viewPortInEntriesThatDoNotEncodeItIsIgnored() throws {
        var world = Self.world()
        var node = ClusterWorld.node(4)
        node.level = .designDocuments
        node.ports.views = 8_092
        world.apply(.addNode(node))
        #expect(ports(world.state) == [0, 0, 0, 0])
        world.apply(Self.set(4, 9_092))
        let address = NodeAddress(number: n(4), host: node.host, ports: node.ports)
        #expect(world.apply(.setNode(address)) == .applied([]))
        #expect(ports(world.state) == [0, 0, 0, 9_092])
        for command in [ClusterCommand.addNode(node), .setNode(address)] {
            let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
            let decoded = try #require(ClusterEnvelope.decode(envelope.encoded()))
            switch decoded.command {
            case .addNode(let node): #expect(node.ports.views == 0)
            case .setNode(let address): #expect(address.ports.views == 0)
            default: Issue.record("another command")
            }
        }
    }

    @Test func viewPortLeavesWithItsNode() {
        var world = Self.world()
        var node = ClusterWorld.node(4)
        node.level = .designDocuments
        world.apply(.addNode(node))
        world.apply(Self.set(4, 8_092))
        world.apply(.removeNode(n(4)))
        #expect(ports(world.state) == [0, 0, 0])
        #expect(world.apply(Self.set(4, 8_092)) == .refused(.nodeUnknown))
        world.apply(.addNode(node))
        #expect(ports(world.state) == [0, 0, 0, 0])
    }

    @Test func newEpochKeepsViewPorts() {
        var world = Self.world()
        for number in 1...3 { world.apply(Self.set(number, UInt16(8_000 + number))) }
        let epoch = NewEpoch(
            groupID: 8,
            formerGroupID: 7,
            survivors: [n(1), n(2)],
            beganMilliseconds: 1
        )
        world.apply(.newEpoch(epoch))
        #expect(ports(world.state) == [8_001, 8_002, 8_003])
    }

    // MARK: Encoding

    @Test func stateWithViewPortsSurvivesItsEncoding() {
        var world = Self.world()
        world.apply(Self.set(1, 8_092))
        world.apply(Self.set(3, .max))
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
        #expect(ports(decoded) == [8_092, 0, .max])
    }
}
