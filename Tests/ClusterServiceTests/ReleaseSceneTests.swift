import Bytes
import ClusterService
import Orchestration
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
        guard case .done = await scene[1].initialise(form) else { throw SceneError("initialise") }
        guard case .done = await add(2, to: scene) else { throw SceneError("addNode") }
        return scene
    }

    private func add(_ number: Int, to scene: ClusterScene, by other: Int = 1) async
        -> MembershipOutcome
    {
        await scene[other].addNode(
            "127.0.0.1:\(scene.members[number - 1].ports.admin)",
            login: ("", ""),
            services: ["kv"]
        )
    }

    @Test func clusterIsRaisedWhenItsLastMemberIsUpgraded() async throws {
        // A node of the current release joins a cluster of the earlier one.
        let scene = try await pair(.base, .current)
        defer { scene.stop() }
        #expect(levels(scene, [1, 2]) == [.base])
        // A node of the earlier release joins that through a current node.
        try await scene.members[2].start(level: .base)
        guard case .done = await add(3, to: scene, by: 2) else { throw SceneError("addNode") }
        #expect(await eventually { scene[3].state.nodes.map(\.level) == [.base, .current, .base] })

        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(await eventually { scene[2].state.node(number: NodeNumber(1))?.level == .current })
        try await Task.sleep(for: .milliseconds(500))
        #expect(levels(scene, [1, 2, 3]) == [.base])

        scene.members[2].stop()
        try await scene.members[2].start()
        #expect(await eventually { levels(scene, [1, 2, 3]) == [.current] })
        let isReported = {
            scene[1].events.all().contains {
                $0.text.contains("feature level was raised from 1 to 6")
            }
        }
        #expect(await eventually(isReported))
    }

    /// The call for a random key is of level 2.
    @Test func otherNodesAreAskedForRandomKeyFromItsLevelOn() async throws {
        let scene = try await pair(.base, .current)
        defer { scene.stop() }
        let known = scene[1].state.nodes.map(\.otpNode)
        guard case .running = await scene[1].rebalance(known: known, ejected: []) else {
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
        _ = try await scene[1].propose(.createBucket(bucket))
        #expect(await eventually { scene[2].state.bucket(named: "b") != nil })
        scene.members[0].plane?.key.withLock { $0 = [7] }
        #expect(await scene[2].randomKey(inBucket: "b") == nil)

        scene.members[0].stop()
        try await scene.members[0].start()
        scene.members[0].plane?.key.withLock { $0 = [7] }
        #expect(await eventually { await scene[2].randomKey(inBucket: "b") == [7] })
        #expect(levels(scene, [1, 2]) == [.current])
    }

    /// Design documents are of level 3: nodes of earlier releases could not read the log.
    @Test func designDocumentIsRefusedBelowItsLevelWithTheNodesToUpgrade() async throws {
        let scene = try await pair(.base, .current)
        defer { scene.stop() }
        let known = scene[1].state.nodes.map(\.otpNode)
        guard case .running = await scene[1].rebalance(known: known, ejected: []) else {
            throw SceneError("rebalance")
        }
        #expect(await eventually { scene[2].state.activeNodes.count == 2 })
        #expect(await eventually { scene[1].state.rebalance == nil })
        var settings = BucketSettings(name: "b", uuid: "b-uuid", quota: 100 << 20)
        settings.vBuckets = 1
        let rows: [NodeChain] = [[NodeNumber(1), NodeNumber(2)]]
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        _ = try await scene[1].propose(.createBucket(bucket))
        #expect(await eventually { scene[2].state.bucket(named: "b") != nil })
        let body = Array(#"{"views":{}}"#.utf8)
        do throws(DesignDocumentError) {
            _ = try await scene[2].putDesignDocument("x", body: body, inBucket: "b")
            Issue.record("the document was accepted")
        } catch {
            #expect(error.code == .levelTooLow)
            #expect(
                error.description
                    == "Design documents need feature level 3. Upgrade these nodes first: "
                    + "\(scene.name(1)) (level 1)."
            )
        }

        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(await eventually { levels(scene, [1, 2]) == [.current] })
        let made = try await scene[2].putDesignDocument("x", body: body, inBucket: "b")
        #expect(scene[2].designDocument("x", ofBucket: "b") == made)
        #expect(await eventually { scene[1].designDocument("x", ofBucket: "b") == made })
    }

    /// Local users are of level 4.
    @Test func userIsRefusedBelowItsLevelWithTheNodesToUpgrade() async throws {
        let scene = try await pair(.designDocuments, .current)
        defer { scene.stop() }
        let form = FormParameters([("password", "secret-1"), ("roles", "ro_admin")])
        guard case .refused(let errors) = await scene[1].putUser("ann", form) else {
            Issue.record("the user was accepted")
            return
        }
        let sentence = "Local users need feature level 4. Upgrade these nodes first: "
        #expect(errors == [FieldError("_", sentence + "\(scene.name(1)) (level 3).")])

        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(await eventually { levels(scene, [1, 2]) == [.current] })
        guard case .done = await scene[2].putUser("ann", form) else {
            Issue.record("the user was refused")
            return
        }
        #expect(await eventually { scene[1].login("ann", "secret-1") == .user("ann") })
    }

    /// Extended attributes are of level 6: a node of an earlier release discards a tombstone's value.
    @Test func dataServiceGetsTheClustersLevelAndEachRaise() async throws {
        let scene = try await pair(.changeFeeds, .current)
        defer { scene.stop() }
        let levels = { scene.members[0...1].map { $0.plane?.level.withLock { $0 } } }
        #expect(await eventually { levels() == [.changeFeeds, .changeFeeds] })

        scene.members[0].stop()
        try await scene.members[0].start()
        #expect(await eventually { levels() == [.attributes, .attributes] })
        // A restarted node has the level before it serves a client.
        scene.members[1].stop()
        try await scene.members[1].start()
        #expect(levels()[1] == .attributes)
    }

    @Test func nodeBelowTheClustersLevelIsRefusedWithCauseAndCure() async throws {
        let scene = try await pair(.current, .current)
        defer { scene.stop() }
        #expect(levels(scene, [1, 2]) == [.current])
        try await scene.members[2].start(level: .base)
        guard case .refused(let sentence) = await add(3, to: scene) else {
            Issue.record("the node was added")
            return
        }
        #expect(
            sentence
                == "Prepare join failed. The node 127.0.0.1:\(scene.members[2].ports.admin) supports "
                + "feature level 1, and this cluster already uses level 6. Start the release of the "
                + "cluster's nodes there, or a later one, and add the node again."
        )
        #expect(scene[1].state.nodes.count == 2)
        // The same node of the current release is welcome.
        scene.members[2].stop()
        try await scene.members[2].start()
        guard case .done = await add(3, to: scene) else { throw SceneError("addNode") }
    }

    @Test func memberStartedBelowTheClustersLevelDoesNotStart() async throws {
        let scene = try await pair(.current, .current)
        defer { scene.stop() }
        scene.members[1].stop()
        do {
            try await scene.members[1].start(level: .base)
            Issue.record("the node started")
        } catch let error as ClusterError {
            #expect(
                error.description.contains(
                    "the cluster uses feature level 6, and this node understands levels up to 1 only: "
                        + "start the release that the other nodes have, or a later one"
                )
            )
        }
        try await scene.members[1].start()
        #expect(await eventually { scene[2].state.featureLevel == .current })
    }
}
