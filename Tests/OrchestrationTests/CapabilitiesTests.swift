import Orchestration
import Testing
import Vocabulary

/// The capabilities of buckets: a client uses what is listed.
@Suite struct CapabilitiesTests {
    private static let attributes = [
        "xattr", "tombstonedUserXAttrs", "subdoc.AccessDeleted", "subdoc.ReplaceBodyWithXattr",
        "subdoc.DocumentMacroSupport", "subdoc.ReviveDocument", "subdoc.ReplicaRead",
        "subdoc.BinaryXattr",
    ]

    @Test func attributesAndIgnoredPurgesAreListed() throws {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        let bucket = try #require(world.state.buckets.first)
        let bytes = ConfigurationJSON.bucket(bucket, of: world.state, on: n(1), host: .placeholder)
        let json = String(decoding: bytes, as: UTF8.self)
        for word in Self.attributes + ["dcp.IgnorePurgedTombstones"] {
            #expect(json.contains("\"\(word)\""), "\(word)")
        }
        for word in ["collections", "rangeScan", "querySystemCollection", "nonDedupedHistory"] {
            #expect(!json.contains("\"\(word)\""), "\(word)")
        }
    }

    /// Nothing that clients see changes: they keep their configurations.
    @Test func raisedFeatureLevelDoesNotChangeTheRevision() throws {
        var world = ClusterWorld(levels: [0])
        let before = world.state.rev
        var address = NodeAddress(
            number: n(1),
            host: "127.0.0.1",
            ports: ClusterWorld.node(1).ports
        )
        address.level = FeatureLevel.first
        world.apply(.setNode(address))
        world.apply(.raiseFeatureLevel(FeatureLevel.first))
        #expect(world.state.featureLevel == FeatureLevel.first && world.state.rev == before)
    }
}
