import Orchestration
import Testing
import Vocabulary

/// What configurations announce of views: nothing that is not there.
@Suite struct ViewsConfigurationTests {
    /// Two nodes on other machines and one here; bucket `b` on the first two.
    private static func world(views: [UInt16], type: BucketType = .persistent) -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        for (number, host) in [(1, "10.0.0.1"), (2, "fd00::2")] {
            let ports = NodePorts(admin: 8_091, data: 11_210, peer: 21_100)
            world.apply(.setNode(NodeAddress(number: n(number), host: host, ports: ports)))
        }
        for (place, port) in views.enumerated() {
            world.announceViews(port, by: place + 1)
        }
        var settings = BucketSettings(name: "b%c", uuid: "b-uuid", quota: 100 << 20)
        settings.type = type
        settings.vBuckets = 2
        let rows: [NodeChain] = [[n(1), n(2)], [n(2), n(1)]]
        world.apply(.createBucket(NewBucket(settings: settings, options: .init(), rows: rows)))
        return world
    }

    private func bucket(
        _ world: ClusterWorld,
        on node: Int = 1,
        host: HostNaming = .placeholder
    ) throws -> String {
        let bucket = try #require(world.state.buckets.first)
        let json = ConfigurationJSON.bucket(bucket, of: world.state, on: n(node), host: host)
        return String(decoding: json, as: UTF8.self)
    }

    private func global(_ world: ClusterWorld) -> String {
        let json = ConfigurationJSON.global(world.state, on: n(1), host: .placeholder)
        return String(decoding: json, as: UTF8.self)
    }

    private let capability = #","couchapi"]"#
    private let documents = #""ddocs":{"uri":"/pools/default/buckets/b%25c/ddocs"},"nodes":["#

    @Test func bucketWithViewsOnAllItsNodesIsAnnounced() throws {
        let json = try bucket(Self.world(views: [8_092, 8_093]))
        #expect(json.contains(capability))
        #expect(json.contains(documents))
        let nodes =
            #""nodes":[{"couchApiBase":"http://10.0.0.1:8092/b%25c%2Bb-uuid","#
            + #""hostname":"10.0.0.1:8091","ports":{"direct":11210}},"#
            + #"{"couchApiBase":"http://[fd00::2]:8093/b%25c%2Bb-uuid","#
            + #""hostname":"[fd00::2]:8091","ports":{"direct":11210}}],"#
        #expect(json.contains(nodes))
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210,"capi":8092},"thisNode""#))
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210,"capi":8093},"hostname""#))
    }

    /// A client that finds the capability sends queries to any of the bucket's nodes.
    @Test func bucketWithANodeWithoutViewsIsNotAnnounced() throws {
        let json = try bucket(Self.world(views: [8_092, 0, 8_094]))
        #expect(!json.contains("couchapi\"") && !json.contains("ddocs"))
        #expect(json.contains(#"{"couchApiBase":"http://10.0.0.1:8092/b%25c%2Bb-uuid","#))
        #expect(json.contains(#"{"hostname":"[fd00::2]:8091","ports":{"direct":11210}}"#))
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210},"hostname""#))
    }

    @Test func ephemeralBucketHasNoViews() throws {
        let json = try bucket(Self.world(views: [8_092, 8_093], type: .ephemeral))
        for absent in ["couchapi\"", "couchApiBase", "ddocs"] { #expect(!json.contains(absent)) }
        // The service of the node stays: it serves the views of other buckets.
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210,"capi":8092},"thisNode""#))
    }

    @Test func clusterWithoutViewPortsAnnouncesNone() throws {
        let world = Self.world(views: [])
        for json in [try bucket(world), global(world)] {
            for absent in ["capi", "couch", "ddocs"] { #expect(!json.contains(absent)) }
        }
    }

    @Test func nodeWithoutDataIsListedWithoutViews() throws {
        let json = try bucket(Self.world(views: [8_092, 8_093, 8_094]), on: 3)
        #expect(json.contains(#"{"services":{"mgmt":9030},"thisNode":true,"#))
        #expect(json.contains(capability))
    }

    @Test func clusterConfigurationListsViewPortsOfActiveNodes() {
        var world = Self.world(views: [8_092, 0, 8_094])
        let added = ClusterWorld.node(4)
        world.apply(.addNode(added))
        world.announceViews(8_095, by: 4)
        let json = global(world)
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210,"capi":8092},"thisNode""#))
        #expect(json.contains(#"{"services":{"mgmt":8091,"kv":11210},"hostname""#))
        #expect(json.contains(#"{"services":{"mgmt":9030,"kv":9031,"capi":8094},"nodeUUID""#))
        #expect(!json.contains("8095"))
    }

    @Test func loopbackNodeIsNamedLikeItsHostname() throws {
        var world = ClusterWorld.withDesigns()
        world.announceViews(8_092, by: 1)
        let placeholder = #""couchApiBase":"http://$HOST:8092/b%2Bb-uuid","hostname":"$HOST:9010""#
        #expect(try bucket(world).contains(placeholder))
        let address = #""couchApiBase":"http://[::1]:8092/b%2Bb-uuid","hostname":"[::1]:9010""#
        #expect(try bucket(world, host: .address("::1")).contains(address))
    }

    @Test func alternatePortOfViewsIsListedOnlyWithViews() throws {
        var world = Self.world(views: [])
        let ports = [("kv", 31_210), ("capi", 38_092)].map { service, number in
            AlternateAddress.Port(service: service, number: UInt16(number))
        }
        let address = AlternateAddress(host: "public.example", ports: ports)
        world.apply(.setAlternate(AlternateChange(number: n(2), address: address)))
        #expect(try bucket(world).contains(#""ports":{"kv":31210}}"#))
        world.announceViews(8_092, by: 2)
        #expect(try bucket(world).contains(#""ports":{"kv":31210,"capi":38092}}"#))
        // Without given ports, the node's own ones apply.
        let bare = AlternateAddress(host: "public.example", ports: [])
        world.apply(.setAlternate(AlternateChange(number: n(2), address: bare)))
        let own =
            #""external":{"hostname":"public.example","ports":{"mgmt":8091,"kv":11210,"capi":8092}}"#
        #expect(try bucket(world).contains(own))
    }
}
