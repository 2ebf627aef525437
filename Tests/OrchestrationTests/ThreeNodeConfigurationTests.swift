import Orchestration
import Testing
import Vocabulary

/// Configurations of three nodes, byte for byte as clients were tested with them.
@Suite struct ThreeNodeConfigurationTests {
    /// Two nodes on other machines and one here, a bucket on the first two, the third waiting.
    func world() -> ClusterWorld {
        var world = ClusterWorld(nodes: 2)
        for (number, host) in [(1, "10.0.0.1"), (2, "fd00::2")] {
            let ports = NodePorts(admin: 8_091, data: 11_210, peer: 21_100)
            world.apply(.setNode(NodeAddress(number: n(number), host: host, ports: ports)))
        }
        world.apply(.addNode(ClusterWorld.node(3)))
        world.apply(.setNodeState(.init(number: n(3), membership: .inactiveAdded)))
        world.createBucket(rows: [[n(1), n(2)], [n(2)], [n(2), n(1)]])
        return world
    }

    func bucket(_ world: ClusterWorld, on node: Int) throws -> String {
        let bucket = try #require(world.state.bucket(named: "b"))
        let json = ConfigurationJSON.bucket(
            bucket,
            of: world.state,
            on: n(node),
            host: .placeholder
        )
        return String(decoding: json, as: UTF8.self)
    }

    let first =
        #"{"services":{"mgmt":8091,"kv":11210},"thisNode":true,"hostname":"10.0.0.1","nodeUUID":"u1"}"#
    let second = #"{"services":{"mgmt":8091,"kv":11210},"hostname":"fd00::2","nodeUUID":"u2"}"#

    @Test func configurationListsOnlyNodesWithData() throws {
        let world = world()
        let json = try bucket(world, on: 1)
        #expect(json.hasPrefix(#"{"rev":\#(world.index),"revEpoch":1,"name":"b","#))
        #expect(json.contains(#""nodesExt":[\#(first),\#(second)],"#))
        let nodes =
            #""nodes":[{"hostname":"10.0.0.1:8091","ports":{"direct":11210}},"#
            + #"{"hostname":"[fd00::2]:8091","ports":{"direct":11210}}],"#
        #expect(json.contains(nodes))
        let map =
            #""vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":1,"#
            + #""serverList":["10.0.0.1:11210","[fd00::2]:11210"],"#
            + #""vBucketMap":[[0,1],[1,-1],[1,0]]},"#
        #expect(json.contains(map))
        let global = String(
            decoding: ConfigurationJSON.global(world.state, on: n(1), host: .placeholder),
            as: UTF8.self
        )
        #expect(
            global.hasPrefix(
                #"{"rev":\#(world.state.rev),"revEpoch":1,"nodesExt":[\#(first),\#(second)],"#
            )
        )
    }

    /// Some clients crash if no node is marked as `thisNode`.
    @Test func answeringNodeWithoutDataIsListedWithoutDataServices() throws {
        let json = try bucket(world(), on: 3)
        let third = #"{"services":{"mgmt":9030},"thisNode":true,"nodeUUID":"u3"}"#
        let others = first.replacing(#""thisNode":true,"#, with: "") + "," + second
        #expect(json.contains(#""nodesExt":[\#(others),\#(third)],"#))
    }

    @Test func rebalanceShowsTheForwardMap() throws {
        var world = world()
        world.rebalance(kept: [n(1), n(2), n(3)])
        var json = try bucket(world, on: 1)
        let third = #"{"services":{"mgmt":9030},"nodeUUID":"u3"}"#
        #expect(json.contains(#""nodesExt":[\#(first),\#(second),\#(third)],"#))
        #expect(!json.contains("vBucketMapForward"))
        world.targets([[n(1), n(3)], [n(3), n(2)], []])
        json = try bucket(world, on: 1)
        #expect(json.hasPrefix(#"{"rev":\#(world.index),"#))
        let data = #"{"services":{"mgmt":9030,"kv":9031},"nodeUUID":"u3"}"#
        #expect(json.contains(#""nodesExt":[\#(first),\#(second),\#(data)],"#))
        let map =
            #""serverList":["10.0.0.1:11210","[fd00::2]:11210","$HOST:9031"],"#
            + #""vBucketMap":[[0,1],[1,-1],[1,0]],"vBucketMapForward":[[0,2],[2,1],[1,0]]},"#
        #expect(json.contains(map))
        world.end("r", .stopped)
        #expect(try !bucket(world, on: 1).contains("vBucketMapForward"))
    }

    @Test func revisionsGrowWithVisibleChanges() throws {
        var world = world()
        func rev() -> UInt64? { world.state.bucket(named: "b")?.rev }
        let born = rev()
        world.apply(.resume(world.step(0)))
        #expect(rev() == born)
        world.apply(.promote(world.step(0, row: [n(2)], position: at(1, 1), deposes: [n(1)])))
        #expect(rev() == world.index)
        let promoted = rev()
        world.apply(.confirm(world.step(0)))
        #expect(rev() == promoted)
        #expect(try bucket(world, on: 1).contains(#""vBucketMap":[[1,-1],[1,-1],[1,0]]"#))
    }

    @Test func lostVBucketHasNoActiveNodeInTheMap() throws {
        var world = world()
        world.apply(.failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: true)))
        let json = try bucket(world, on: 1)
        // The third vBucket's copies are here, but have not been queried yet.
        #expect(json.contains(#""vBucketMap":[[0,-1],[-1,-1],[1,0]]"#))
    }

    @Test func alternateAddressIsListedBesideTheNodesOwn() throws {
        var world = world()
        let before = world.state.bucket(named: "b")?.rev ?? 0
        let ports = [AlternateAddress.Port(service: "kv", number: 31_210)]
        let address = AlternateAddress(host: "public.example", ports: ports)
        let change = AlternateChange(number: n(2), address: address)
        #expect(world.apply(.setAlternate(change)) == .applied([.nodesChanged]))
        let external = #""external":{"hostname":"public.example","ports":{"kv":31210}}"#
        #expect(try bucket(world, on: 1).contains(#""alternateAddresses":{\#(external)}"#))
        #expect(world.state.bucket(named: "b").map { $0.rev > before } == true)
        // Some clients crash without ports, so the node's own ports are listed.
        let bare = AlternateAddress(host: "public.example", ports: [])
        world.apply(.setAlternate(AlternateChange(number: n(2), address: bare)))
        let json = try bucket(world, on: 1)
        let services = /"services":(\{[^}]*\}),"hostname":"fd00::2"/
        let own = try #require(json.firstMatch(of: services)).1
        #expect(json.contains(#""external":{"hostname":"public.example","ports":\#(own)}"#))
        world.apply(.setAlternate(AlternateChange(number: n(2), address: nil)))
        #expect(try !bucket(world, on: 1).contains("alternateAddresses"))
        let unknown = AlternateChange(number: n(9), address: address)
        #expect(world.apply(.setAlternate(unknown)) == .refused(.nodeUnknown))
    }

    @Test func serverGroupsAreListedIfThereAreSeveral() throws {
        var world = world()
        let groups = [ServerGroup.first, ServerGroup(name: "Rack \"2\"", uuid: "2")]
        let members = [GroupLayout.Member(node: n(2), group: "Rack \"2\"")]
        world.apply(.setGroups(GroupLayout(groups: groups, members: members)))
        let json = try bucket(world, on: 1)
        #expect(json.contains(#""hostname":"fd00::2","serverGroup":"Rack \"2\"","nodeUUID":"u2""#))
    }
}
