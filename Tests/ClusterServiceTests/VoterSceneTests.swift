import ClusterService
import Consensus
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Voters, with real services, sockets and files.
@Suite(.serialized) struct VoterSceneTests {
    /// With two voters both are needed, and the second one's vote could not be removed again.
    @Test func nodeFailedBeforeRebalanceIsNoVoterUntilRestart() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        for member in scene.members { try await member.start() }
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        guard case .success = await Result(of: try await scene[1].settings.initialise(form)) else {
            throw SceneError("initialise")
        }
        let place = "127.0.0.1:\(scene.members[1].ports.admin)"
        guard
            case .success = await Result(
                of: try await scene[1].membership.addNode(
                    place,
                    token: "",
                    services: ["kv"],
                    by: root
                )
            )
        else { throw SceneError("addNode") }
        scene.members[1].stop()
        // Its last beat counts for a moment.
        try await Task.sleep(for: .seconds(2))
        let known = scene[1].state.nodes.map(\.otpNode)
        guard
            case .success(let id) = await Result(
                of: try await scene[1].membership.rebalance(
                    known: known,
                    ejected: [],
                    by: root
                )
            )
        else { throw SceneError("rebalance") }
        #expect(await eventually { scene[1].state.lastRebalance?.id == id })
        #expect(scene[1].cluster.raftStatus.configuration.voters == [scene[1].thisNode])
        var settings = scene[1].state.settings
        settings.maxBucketCount += 1
        _ = try await scene[1].cluster.propose(.setSettings(settings))
        #expect(scene[1].state.settings == settings)

        try await scene.members[1].start()
        #expect(await eventually { scene[1].cluster.raftStatus.configuration.voters.count == 2 })
        #expect(await eventually { scene[2].state.settings == settings })
    }
}
