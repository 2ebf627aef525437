import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// Documents and tombstones with attributes on several nodes, over real sockets.
@Suite(.serialized) struct AttributeCopyTests {
    private static func attributes(_ count: Int) -> [(key: String, value: String)] {
        [("_sync", String(repeating: "7", count: count))]
    }

    /// By key: tombstones with and without a value, and the largest document.
    private static let versions: [(key: String, version: AttributedVersion)] = {
        let largest = TestWorld.stored(
            attributes(Limits.systemXattrBytesMax - 11),
            body: String(repeating: "1", count: Limits.valueBytesMax)
        )
        precondition(largest.count == Limits.storedValueBytesMax, "the largest stored value")
        let found: [(String, [UInt8], Bool)] = [
            ("empty", [], true),
            ("small", TestWorld.stored(attributes(10)), true),
            ("large", TestWorld.stored(attributes(Limits.systemXattrBytesMax - 11)), true),
            ("live", TestWorld.stored(attributes(10), body: "{}"), false),
            ("largest", largest, false),
        ]
        return found.map { key, value, isDeleted in
            (key, AttributedVersion(key, value, isDeleted: isDeleted))
        }
    }()

    private func put(on node: ClusterNode) throws {
        let bucket = try #require(node.service.bucket(named: "a"))
        for (_, version) in Self.versions { version.put(into: bucket, node.turn) }
    }

    private func hasAll(_ world: ClusterWorld, _ node: UInt16) -> Bool {
        Self.versions.allSatisfy { _, version in
            let number = VBucketID(ofKey: version.key, count: world.vBuckets).number
            let held = world[node].documents("a", Int(number))[version.key]
            return held?.isDeleted == version.isDeleted && held?.value == version.value
                && held?.hasAttributes == !version.value.isEmpty
        }
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func replicaReceivesEveryValueWithAttributes(type: BucketType) throws {
        let world = try ClusterWorld(nodes: 2)
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world.open(world.settings("a", type), map)
        try put(on: world[1])
        world.eventually("the replica has every value") { hasAll(world, 2) }
    }

    /// The active copy has only stubs and keys in memory.
    @Test func replicaBuiltFromDiskReceivesEveryValueWithAttributes() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a"), world.map("a", index: 1) { _ in [1] })
        try put(on: world[1])
        world.eventually("everything is persisted") { world[1].isPersisted("a") }
        world[1].ejectAll("a")
        #expect(!hasAll(world, 1))
        world.follow(world.map("a", index: 2) { _ in [1, 2] })
        world.eventually("the replica has every value") { hasAll(world, 2) }
    }

    /// After the restart, memory has the keys, and the values that warmup has not loaded are on
    /// disk.
    @Test func restartedActiveCopySendsEveryValueWithAttributes() throws {
        let world = try ClusterWorld(nodes: 2)
        let alone = world.map("a", index: 1) { _ in [1] }
        try world.open(world.settings("a"), alone)
        try put(on: world[1])
        world.stop(1)
        try world.start(1)
        try world[1].service.open(world.settings("a"), alone, as: NodeNumber(1), isNew: false)
        world.eventually("node 1 serves") { world[1].activeNumbers("a").count == world.vBuckets }
        world.follow(world.map("a", index: 2) { _ in [1, 2] })
        world.eventually("the replica has every value") { hasAll(world, 2) }
    }
}
