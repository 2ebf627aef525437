import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// A flush while a node is failed over, with real services, sockets and files.
@Suite(.serialized) struct FlushSceneTests {
    func n(_ number: Int) -> NodeNumber { NodeNumber(UInt16(number)) }

    /// Three nodes; only the second has data of the first vBucket.
    private func scene() async throws -> ClusterScene {
        let scene = try ClusterScene(3)
        try await scene.build()
        try await scene.keepFromFailingOver()
        try await scene.createBucket([[n(2), n(3)], [n(1), n(3)]])
        scene.members[2].plane?.isEmpty.withLock { $0 = true }
        let bucket = try bucket(in: scene)
        var settings = bucket.settings
        settings.flushEnabled = true
        let change = BucketChange(settings: settings, options: bucket.options)
        try await agree(on: .changeBucket(change), in: scene)
        return scene
    }

    private func bucket(in scene: ClusterScene) throws -> BucketRecord {
        try #require(scene[1].state.bucket(named: "b"))
    }

    private func agree(on command: ClusterCommand, in scene: ClusterScene) async throws {
        guard case .done = try await scene[1].cluster.propose(command) else {
            throw SceneError("\(command)")
        }
    }

    private func beginFlush(in scene: ClusterScene) async throws {
        let step = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        try await agree(on: .flushBucket(step), in: scene)
    }

    private func failOverSecond(in scene: ClusterScene) async throws {
        let result = await Result(
            of: try await scene[1].membership.failOver([scene.name(2)], by: root)
        )
        guard case .success = result else { throw SceneError("\(result)") }
        #expect(scene.chains(at: 1) == [[n(2), n(3)], [n(1), n(3)]])
    }

    private func isFlushing(_ scene: ClusterScene) -> Bool {
        scene[1].state.bucket(named: "b")?.flush != nil
    }

    /// Regression: the flush waited for the node, and the node's recovery for the flush.
    @Test func flushDoesNotWaitForRecoveryOfFailedOverNode() async throws {
        let scene = try await scene()
        defer { scene.stop() }
        // The second vBucket keeps the flush from ending.
        scene.members[0].plane?.carriedThrough.withLock { $0 = 0 }
        try await beginFlush(in: scene)
        try await failOverSecond(in: scene)
        // Its emptied copy has not served since a restart, and no other copy was built from it.
        scene.members[1].plane?.isPending.withLock { $0 = true }
        #expect(isFlushing(scene))
        scene.members[0].plane?.carriedThrough.withLock { $0 = .max }
        #expect(await eventually { !isFlushing(scene) })
        _ = await Result(
            of: try await scene[1].membership.setRecovery(scene.name(2), .delta, by: root)
        )
        let known = scene[1].state.nodes.map(\.otpNode)
        let outcome = await Result(
            of: try await scene[1].membership.rebalance(known: known, ejected: [], by: root)
        )
        guard case .success = outcome else {
            Issue.record("\(outcome)")
            return
        }
    }

    /// It cannot serve what was flushed: it gets no lease before its copies act by its failover.
    @Test func flushDoesNotWaitForNodeThatMissedItAndWasFailedOver() async throws {
        let scene = try await scene()
        defer { scene.stop() }
        scene.members[1].holdDisk()
        try await beginFlush(in: scene)
        try await failOverSecond(in: scene)
        #expect(await eventually { !isFlushing(scene) })
        #expect(scene[2].state.bucket(named: "b")?.flush == nil)
        #expect(scene[2].state.index < scene[1].state.index)
    }

    /// It serves as the only copy, and was failed over before the flush.
    @Test func flushWaitsForFailedOverNodeThatMayServeFlushedDocuments() async throws {
        let scene = try await scene()
        defer { scene.stop() }
        try await failOverSecond(in: scene)
        let failover = scene[1].state.index
        #expect(await eventually { scene[2].state.index >= failover })
        scene.members[1].holdDisk()
        try await beginFlush(in: scene)
        // With the flush's fence, a silent node's copy counts as emptied.
        let flushed = try bucket(in: scene)[VBucketID(0)]
        let resumed = VBucketSteps.Step(VBucketID(0), from: flushed)
        try await agree(on: .resume(VBucketSteps(bucket: "b", steps: [resumed])), in: scene)
        try await Task.sleep(for: .seconds(5))
        #expect(isFlushing(scene))
        #expect(scene.chains(at: 1)[0] == [n(2), n(3)])
        scene.members[1].releaseDisk()
        #expect(await eventually { !isFlushing(scene) })
    }
}
