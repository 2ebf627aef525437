import DataService
import Engine
import Testing
import Vocabulary

/// The purges of a copy are reported to the copies that are built from it.
@Suite(.serialized) struct PurgedCopyTests {
    /// Purge seqno and highest revision of each vBucket.
    private func purges(_ node: ClusterNode) -> [[UInt64]] {
        (0..<8).map { number in
            node.copy("a", number)?.withCore { [$0.purgeSeqno.value, $0.maxRevision] } ?? []
        }
    }

    @Test func newReplicaReceivesPurgeSeqnosOfActiveCopy() throws {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a", .ephemeral), world.map("a", index: 1) { _ in [1] })
        world[1].write(0..<200, "a")
        for key in 0..<100 { world[1].delete("key\(key)", "a") }
        world[1].write(200..<300, "a")
        for number in 0..<8 {
            world[1].copy("a", number)?.withCore { core in
                _ = core.forgetTombstones(from: 0, groupsMax: .max / 2, deletedBefore: .max)
            }
        }
        let purged = purges(world[1])
        #expect(purged.allSatisfy { $0.count == 2 && $0[0] > 0 && $0[1] >= 2 })
        world.follow(world.map("a", index: 2) { _ in [1, 2] })
        world.converge("a", 1, 2)
        #expect(purges(world[2]) == purged)
        #expect(!world[1].logged("invalid frame") && !world[2].logged("invalid frame"))
    }
}
