import ClusterService
import Orchestration
import Testing

/// Nodes that leave their cluster, and requests to them right after that.
@Suite(.serialized) struct LeavingSceneTests {
    private let rounds = 5

    private func initialise(_ scene: ClusterScene) async -> Bool {
        let port = scene.members[0].ports.admin
        let form = FormParameters([
            ("port", "\(port)"), ("username", "Administrator"), ("password", "password"),
        ])
        return await Result(of: try await scene[1].settings.initialise(form)).isDone
    }

    /// The reset is answered before the node has a record of itself.
    @Test func awaitOwnRecordWaitsForRecordOfResetNode() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.members[0].start()
        for _ in 0..<rounds {
            guard await initialise(scene) else { throw SceneError("initialise") }
            #expect(await Result(of: try await scene[1].engagement.reset()).isDone)
            await scene[1].cluster.awaitOwnRecord()
            #expect(scene[1].state.node(number: scene[1].thisNode)?.membership == .active)
        }
    }

    /// The admin port of the node answers throughout: at first that it is a member, then without a
    /// record of the node.
    @Test func ejectedNodeCanBeAddedAtOnce() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        for member in scene.members { try await member.start() }
        guard await initialise(scene) else { throw SceneError("initialise") }
        let address = "127.0.0.1:\(scene.members[1].ports.admin)"
        for _ in 0..<rounds {
            let added = await Result(
                of: try await scene[1].membership.addNode(
                    address,
                    token: "",
                    services: ["kv"],
                    by: root
                )
            )
            #expect(added == .success(scene.name(2)))
            #expect(
                await Result(of: try await scene[1].membership.eject(scene.name(2), by: root))
                    .isDone
            )
        }
    }
}
