import ClusterService
import Orchestration
import Testing
import Vocabulary

/// Compaction requested from one node.
@Suite(.serialized) struct CompactionSceneTests {
    @Test func compactionRunsOnEveryNodeOfTheBucket() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        // Requested from the node without a part of the bucket.
        guard case .done = await scene[3].compactBucket("b") else {
            Issue.record("not all nodes have begun")
            return
        }
        let begun = scene.members.map { member in
            member.plane?.calls.contains("compact b") ?? false
        }
        #expect(begun[0...1] == [true, true])
        guard case .unknown = await scene[1].compactBucket("none") else {
            Issue.record("a bucket that does not exist was compacted")
            return
        }
        scene.members[1].stop()
        guard case .failed(let text) = await scene[3].compactBucket("b") else {
            Issue.record("node 2 has begun although it is stopped")
            return
        }
        #expect(text.contains("\(scene.name(2)) did not answer"))
    }
}
