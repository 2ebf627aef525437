import Bytes
import DivanClient
import Seams
import Testing
import Vocabulary

/// Cluster maps: parsing, the choice of the newest, and the routes of keys.
@Suite struct ClusterMapTests {
    private func map(_ text: String, host: String = "10.0.0.9") throws -> ClusterMap {
        try Array(text.utf8).withUnsafeBytes { buffer in
            try ClusterMap(ByteView(buffer), host: host)
        }
    }

    private func refusal(_ text: String) -> String? {
        do {
            _ = try map(text)
            return nil
        } catch { return "\(error)" }
    }

    @Test func nodesWithADataPortAreParsedInOrder() throws {
        let found = try map(
            """
            {"rev":7,"revEpoch":2,"name":"b","nodesExt":[
              {"services":{"kv":11210,"mgmt":8091},"hostname":"10.0.0.1"},
              {"services":{"kv":11310}},
              {"services":{"mgmt":8091},"hostname":"10.0.0.3"},
              {"services":{"kv":11410},"hostname":"$HOST"}],
             "vBucketServerMap":{"serverList":["a:1","b:2","c:3"],"numReplicas":1,
              "vBucketMap":[[0,1],[1,2],[2,-1],[-1,-1]]}}
            """
        )
        #expect(
            found.nodes.map(\.description) == [
                "10.0.0.1:11210", "10.0.0.9:11310", "10.0.0.9:11410",
            ]
        )
        #expect(found.revision == .init(epoch: 2, number: 7))
        #expect(found.vBucketCount == 4)
        #expect(found.node(of: VBucketID(1)) == 1)
        #expect(found.node(of: VBucketID(1), copy: 1) == 2)
        #expect(found.node(of: VBucketID(2), copy: 1) == nil)
        #expect(found.node(of: VBucketID(3)) == nil)
        #expect(found.node(of: VBucketID(4)) == nil)
        #expect(found.node(of: VBucketID(0), copy: 2) == nil)
    }

    @Test func serverListIsUsedIfExtendedNodesAreMissing() throws {
        let found = try map(
            """
            {"rev":1,"name":"b","vBucketServerMap":
             {"serverList":["$HOST:11210","[fe80::1]:11310"],"vBucketMap":[[0],[1]],
              "vBucketMapForward":[[1],[1]]}}
            """,
            host: "127.0.0.1"
        )
        #expect(found.nodes.map(\.description) == ["127.0.0.1:11210", "[fe80::1]:11310"])
        #expect(found.nodes[1].host == "fe80::1")
        #expect(found.forwardNode(of: VBucketID(0)) == 1)
        #expect(found.revision == .init(epoch: 0, number: 1))
    }

    @Test func securedClientUsesThePortsWithTLSAndRefusesAMapThatLacksOne() throws {
        func secured(_ nodes: String) throws -> [String] {
            let text =
                #"{"rev":1,"name":"b","nodesExt":["# + nodes
                + #"],"vBucketServerMap":{"serverList":["a:1","b:2"],"vBucketMap":[[0],[1]]}}"#
            return try Array(text.utf8).withUnsafeBytes { buffer in
                try ClusterMap(ByteView(buffer), host: "10.0.0.9", isSecured: true)
            }.nodes.map(\.description)
        }
        let first = #"{"services":{"kv":11210,"kvSSL":11207},"hostname":"10.0.0.1"}"#
        let second = #"{"services":{"kv":11310,"kvSSL":11307}}"#
        #expect(try secured(first + "," + second) == ["10.0.0.1:11207", "10.0.0.9:11307"])
        for other in [#"{"services":{"kv":11310}}"#, #"{"services":{"mgmtSSL":18091}}"#] {
            #expect(throws: ClusterMap.InvalidMap.self) { try secured(first + "," + other) }
        }
        #expect(throws: ClusterMap.InvalidMap.self) { try secured("") }
    }

    @Test func invalidConfigurationIsRefusedWithItsReason() {
        let start = #"{"rev":1,"name":"b","vBucketServerMap":{"serverList":["h:1"],"vBucketMap":"#
        #expect(refusal("{") == "the configuration is not JSON")
        #expect(refusal(#"{"rev":1,"nodesExt":[]}"#) == "the configuration is not that of a bucket")
        #expect(refusal(start + "[]}}") == "the map of bucket b is still empty")
        #expect(refusal(start + "[[0],[1]]}}") == "the vBucket map names an unknown node")
        #expect(
            refusal(start + "[[0],[0,-1]]}}") == "the rows of the vBucket map differ in length"
        )
        #expect(refusal(start + "[[0],[0]]}}") == nil)
    }

    @Test func mapIsAppliedOnlyIfItsEpochOrRevisionIsHigher() throws {
        func at(_ epoch: Int64, _ number: Int64) throws -> ClusterMap {
            try map(MapText(epoch: epoch, rev: number, ports: [1]).json)
        }
        var cache = ClusterMapCache(bucket: "documents")
        #expect(cache.apply(try at(1, 5)) == .applied)
        #expect(cache.apply(try at(1, 5)) == .known)
        #expect(cache.apply(try at(1, 4)) == .known)
        #expect(cache.apply(try at(1, 6)) == .applied)
        #expect(cache.apply(try at(2, 1)) == .applied)
        #expect(cache.apply(try at(1, 900)) == .known)
        #expect(cache.current?.revision == .init(epoch: 2, number: 1))
        #expect(cache.changes == 3)
        let other = try map(MapText(rev: 99, ports: [1], bucket: "other").json)
        #expect(
            cache.apply(other)
                == .refused("the configuration is of bucket other, not of documents")
        )
    }

    @Test func keysAreRoutedAsByCouchbaseClients() throws {
        let router = KeyRouter(try map(MapText(rev: 1, ports: [1, 2], vBuckets: 1_024).json))
        let known: [(String, UInt16)] = [("foo", 115), ("bar", 767), ("k1", 526), ("hello", 528)]
        for (key, number) in known {
            let vBucket = Array(key.utf8).withUnsafeBytes { router.vBucket(of: ByteView($0)) }
            #expect(vBucket == VBucketID(number))
            #expect(router.route(vBucket)?.node.port == (number % 2 == 0 ? 1 : 2))
        }
    }

    @Test func refusedRequestIsRoutedToTheNodeTheVBucketMovesTo() throws {
        var text = MapText(rev: 1, ports: [1, 2], vBuckets: 2)
        text.forward = [1, 1]
        let router = KeyRouter(try map(text.json, host: "127.0.0.1"))
        let first = SocketAddress(host: "127.0.0.1", port: 1)
        #expect(router.route(VBucketID(0))?.node == first)
        #expect(router.route(VBucketID(0), refusedBy: first)?.node.port == 2)
        #expect(router.route(VBucketID(1), refusedBy: first)?.node.port == 2)
        #expect(router.route(VBucketID(0), .replica(1)) == nil)
    }
}
