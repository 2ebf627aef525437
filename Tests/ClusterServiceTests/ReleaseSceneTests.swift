import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Clusters of two releases, as an operator has them while the nodes are upgraded one by one.
///
/// A node of the earlier release is one that announces and obeys the lower feature level.
@Suite(.serialized) struct ReleaseSceneTests {
    private func levels(_ scene: ClusterScene, _ numbers: [Int]) -> Set<FeatureLevel> {
        Set(numbers.map { scene[$0].state.featureLevel })
    }

    /// Node 1 founds a cluster, and node 2 joins it.
    private func pair(_ first: FeatureLevel, _ second: FeatureLevel) async throws -> ClusterScene {
        let scene = try ClusterScene(3)
        try await scene.members[0].start(level: first)
        try await scene.members[1].start(level: second)
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        guard case .success = await Result(of: try await scene[1].settings.initialise(form)) else {
            throw SceneError("initialise")
        }
        guard case .success = await add(2, to: scene) else { throw SceneError("addNode") }
        return scene
    }

    private func add(_ number: Int, to scene: ClusterScene, by other: Int = 1) async
        -> Result<String, AdministrationError>
    {
        await Result(
            of: try await scene[other].membership.addNode(
                "127.0.0.1:\(scene.members[number - 1].ports.admin)",
                token: "",
                services: ["kv"],
                by: root
            )
        )
    }

    @Test func clusterIsRaisedWhenItsLastMemberIsUpgraded() async throws {
        // A node of the current release joins a cluster of the earlier one.
        let scene = try await pair(.lowest, .current)
        defer { scene.stop() }
        #expect(levels(scene, [1, 2]) == [.lowest])
        // A node of the earlier release joins that through a current node.
        try await scene.members[2].start(level: .lowest)
        guard case .success = await add(3, to: scene, by: 2) else { throw SceneError("addNode") }
        #expect(
            await eventually { scene[3].state.nodes.map(\.level) == [.lowest, .current, .lowest] }
        )

        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(await eventually { scene[2].state.node(number: NodeNumber(1))?.level == .current })
        try await Task.sleep(for: .milliseconds(500))
        #expect(levels(scene, [1, 2, 3]) == [.lowest])

        scene.members[2].stop()
        try await scene.members[2].start()
        #expect(await eventually { levels(scene, [1, 2, 3]) == [.current] })
        let isReported = {
            scene[1].cluster.events.all().contains {
                $0.text.contains("feature level was raised from 0 to 1")
            }
        }
        #expect(await eventually(isReported))
    }

    /// The earlier release lacks the call for a random key.
    @Test func randomKeyIsRequestedFromOtherNodesFromItsLevelOn() async throws {
        let scene = try await pair(.lowest, .current)
        defer { scene.stop() }
        let known = scene[1].state.nodes.map(\.otpNode)
        guard
            case .success = await Result(
                of: try await scene[1].membership.rebalance(known: known, ejected: [], by: root)
            )
        else {
            throw SceneError("rebalance")
        }
        let isBuilt = await eventually { scene[2].state.activeNodes.count == 2 }
        #expect(isBuilt)
        #expect(await eventually { scene[1].state.rebalance == nil })
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        var settings = BucketSettings(name: "b", uuid: "b-uuid", quota: 100 << 20)
        settings.vBuckets = 2
        let rows: [NodeChain] = [[one, two], [two, one]]
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        _ = try await scene[1].cluster.propose(.createBucket(bucket))
        #expect(await eventually { scene[2].state.bucket(named: "b") != nil })
        scene.members[0].plane?.key.withLock { $0 = [7] }
        #expect(await scene[2].documents.randomKey(inBucket: "b") == nil)

        scene.members[0].stop()
        try await scene.members[0].start()
        scene.members[0].plane?.key.withLock { $0 = [7] }
        #expect(await eventually { await scene[2].documents.randomKey(inBucket: "b") == [7] })
        #expect(levels(scene, [1, 2]) == [.current])
    }

    @Test func nodeBelowTheClustersLevelIsRefusedWithCauseAndCure() async throws {
        let scene = try await pair(.current, .current)
        defer { scene.stop() }
        #expect(levels(scene, [1, 2]) == [.current])
        try await scene.members[2].start(level: .lowest)
        guard case .failure(.refused(let sentence)) = await add(3, to: scene) else {
            Issue.record("the node was added")
            return
        }
        #expect(
            sentence
                == "Prepare join failed. The node 127.0.0.1:\(scene.members[2].ports.admin) supports "
                + "feature level 0, and this cluster already uses level 1. Start the release of the "
                + "cluster's nodes there, or a later one, and add the node again."
        )
        #expect(scene[1].state.nodes.count == 2)
        // The same node of the current release is welcome.
        scene.members[2].stop()
        try await scene.members[2].start()
        guard case .success = await add(3, to: scene) else { throw SceneError("addNode") }
    }

    @Test func memberStartedBelowTheClustersLevelDoesNotStart() async throws {
        let scene = try await pair(.current, .current)
        defer { scene.stop() }
        scene.members[1].stop()
        do {
            try await scene.members[1].start(level: .lowest)
            Issue.record("the node started")
        } catch let error as ClusterError {
            #expect(
                error.description.contains(
                    "the cluster uses feature level 1, and this node understands levels up to 0 only: "
                        + "start the release that the other nodes have, or a later one"
                )
            )
        }
        try await scene.members[1].start()
        #expect(await eventually { scene[2].state.featureLevel == .current })
    }
}
