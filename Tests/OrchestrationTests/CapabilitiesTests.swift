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

    private static func world(level: FeatureLevel) -> ClusterWorld {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(1)]])
        world.raise(to: level)
        return world
    }

    private func bucket(_ world: ClusterWorld) throws -> (json: String, rev: UInt64) {
        let bucket = try #require(world.state.buckets.first)
        let json = ConfigurationJSON.bucket(bucket, of: world.state, on: n(1), host: .placeholder)
        return (String(decoding: json, as: UTF8.self), bucket.rev)
    }

    @Test(arguments: [FeatureLevel.base, .designDocuments, .changeFeeds, .attributes])
    func attributesAndIgnoredPurgesAreListedFromTheirLevelOn(_ level: FeatureLevel) throws {
        let json = try bucket(Self.world(level: level)).json
        for word in Self.attributes + ["dcp.IgnorePurgedTombstones"] {
            #expect(json.contains("\"\(word)\"") == (level >= .attributes), "\(word)")
        }
        for word in ["collections", "rangeScan", "querySystemCollection", "nonDedupedHistory"] {
            #expect(!json.contains("\"\(word)\""), "\(word)")
        }
    }

    /// Clients ignore a configuration of the revision that they have.
    @Test func raiseToTheLevelOfAttributesRaisesTheRevision() throws {
        var world = Self.world(level: .changeFeeds)
        let before = (rev: world.state.rev, bucket: try bucket(world).rev)
        world.raise(to: .attributes)
        #expect(world.state.rev > before.rev)
        #expect(try bucket(world).rev > before.bucket)
    }

    @Test func raiseToAnotherLevelLeavesTheRevision() throws {
        var world = Self.world(level: .localUsers)
        let before = (rev: world.state.rev, bucket: try bucket(world).rev)
        world.raise(to: .changeFeeds)
        #expect(world.state.rev == before.rev)
        #expect(try bucket(world).rev == before.bucket)
    }
}
