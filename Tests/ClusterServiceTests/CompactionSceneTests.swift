import ClusterService
import Orchestration
import Testing
import Vocabulary

/// A compaction that is asked of one node.
@Suite(.serialized) struct CompactionSceneTests {
    @Test func everyNodeThatHasSomeOfABucketCompactsIt() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        // Asked of the one that has nothing of it.
        guard case .done = await scene[3].compactBucket("b") else {
            Issue.record("not everybody has begun")
            return
        }
        let begun = scene.members.map { member in
            member.plane?.calls.contains("compact b") ?? false
        }
        #expect(begun[0...1] == [true, true])
        guard case .unknown = await scene[1].compactBucket("none") else {
            Issue.record("there is no such bucket")
            return
        }
        scene.members[1].stop()
        guard case .failed(let text) = await scene[3].compactBucket("b") else {
            Issue.record("one has not begun")
            return
        }
        #expect(text.contains("not on \(scene.name(2)):"))
    }
}
