import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Each node's indexes reach the other nodes.
@Suite(.serialized) struct ViewStatisticsSceneTests {
    /// Two nodes of one cluster.
    private func pair() async throws -> ClusterScene {
        let scene = try ClusterScene(2)
        try await scene.members[0].start()
        try await scene.members[1].start()
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        guard case .success = await Result(of: try await scene[2].settings.initialise(form)) else {
            throw SceneError("initialise")
        }
        let outcome = await Result(
            of: try await scene[2].membership.addNode(
                "127.0.0.1:\(scene.members[0].ports.admin)",
                token: "",
                services: ["kv"],
                by: root
            )
        )
        guard case .success = outcome else { throw SceneError("addNode: \(outcome)") }
        return scene
    }

    private static let building: ViewStatistics = {
        var document = ViewStatistics.DesignDocument(name: "d")
        document.isBuilding = true
        (document.changesDone, document.changesTotal) = (300, 1_000)
        var bucket = ViewStatistics.Bucket(name: "b")
        (bucket.diskUsed, bucket.dataUsed, bucket.queries) = (8_192, 4_096, 5)
        bucket.designDocuments = [document]
        var views = ViewStatistics()
        views.buckets = [bucket]
        return views
    }()

    @Test func indexesOfANodeAreShownOnTheOthersWhileItHasThem() async throws {
        let scene = try await pair()
        defer { scene.stop() }
        let (one, two) = (scene[1].thisNode, scene[2].thisNode)
        #expect(scene[2].statistics.viewStatistics(of: one) == nil)
        #expect(scene[1].statistics.viewStatistics(of: one) == nil)
        let shown = Guarded<ViewStatistics?>(Self.building)
        scene[1].statistics.readViews { shown.withLock { $0 } }
        #expect(scene[1].statistics.viewStatistics(of: one) == Self.building)
        #expect(await eventually { scene[2].statistics.viewStatistics(of: one) == Self.building })
        #expect(scene[1].statistics.viewStatistics(of: two) == nil)

        shown.withLock { $0 = nil }
        #expect(await eventually { scene[2].statistics.viewStatistics(of: one) == nil })
        // The node still answers: what it sent is gone, not out of date.
        #expect(scene[2].statistics.current(of: one) != nil)
    }

    @Test func nodeThatStopsIsShownWithoutIndexes() async throws {
        let scene = try await pair()
        defer { scene.stop() }
        let one = scene[1].thisNode
        scene[1].statistics.readViews { Self.building }
        #expect(await eventually { scene[2].statistics.viewStatistics(of: one) != nil })
        scene.members[0].stop()
        #expect(await eventually { scene[2].statistics.viewStatistics(of: one) == nil })
    }
}
