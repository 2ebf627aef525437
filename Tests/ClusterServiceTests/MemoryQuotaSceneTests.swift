import Bytes
import ClusterService
import Orchestration
import Testing
import Vocabulary

/// The memory quota in forms, in joins, and at a start on another machine.
@Suite(.serialized) struct MemoryQuotaSceneTests {
    /// The second node has 1 200 MB, of which it can give 960 MB; the cluster's quota is 1 000 MB.
    @Test func nodeWithTooLittleMemoryForQuotaIsNotAdded() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await scene.members[0].start()
        try await scene.members[1].start(memoryTotal: 1_200 << 20)
        let credentials = form(
            ("port", "SAME"),
            ("username", "Administrator"),
            ("password", "password")
        )
        guard case .success = await Result(of: try await scene[1].settings.initialise(credentials))
        else {
            throw SceneError("initialise")
        }
        let address = "127.0.0.1:\(scene.members[1].ports.admin)"
        let refused = await Result(
            of: try await scene[1].membership.addNode(
                address,
                token: "",
                services: ["kv"],
                by: root
            )
        )
        guard case .failure(.refused(let text)) = refused else { throw SceneError("\(refused)") }
        #expect(text.contains("1000 MB on each node"))
        #expect(text.contains("at most 960 MB of its 1200 MB"))
        #expect(scene[1].state.nodes.count == 1)
        #expect(!scene[2].state.isProvisioned)
        // The refusal's advice works.
        guard
            case .success = await Result(
                of: try await scene[1].settings.change(form(("memoryQuota", "900")))
            )
        else {
            throw SceneError("memoryQuota")
        }
        let added = await Result(
            of: try await scene[1].membership.addNode(
                address,
                token: "",
                services: ["kv"],
                by: root
            )
        )
        guard case .success = added else { throw SceneError("\(added)") }
        // From here on the quota must fit that node too, whichever node gets the request.
        guard
            case .failure(.invalid(let errors, _)) = await Result(
                of: try await scene[1].settings.change(form(("memoryQuota", "961")))
            )
        else {
            throw SceneError("the quota was raised beyond what a node can give")
        }
        #expect(errors.map(\.field) == ["_"])
        #expect(errors.first?.text.contains("can give: at most 960MB of its 1200MB") == true)
    }

    /// The node serves its buckets, and an alert describes the problem.
    @Test func nodeOnSmallerMachineServesWithAlert() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.build()
        let made = await Result(
            of: try await scene[1].buckets.create(form(("name", "b"), ("ramQuotaMB", "600")))
        )
        guard case .success = made else { throw SceneError("\(made)") }
        #expect(!scene[1].health.alerts.contains { $0.id == "memory" })
        scene.members[0].stop()
        try await scene.members[0].start(memoryTotal: 1_200 << 20)
        let alert = try #require(scene[1].health.alerts.first { $0.id == "memory" })
        #expect(alert.message.contains("at most 960 MB of its 1200 MB"))
        #expect(scene[1].cluster.events.all().contains { $0.text == alert.message })
        #expect(scene[1].state.memoryQuota == 1_000 << 20)
        #expect(scene[1].state.bucket(named: "b") != nil)
        // The rule applies from here on, and the quotas can be lowered.
        let raised = await Result(
            of: try await scene[1].buckets.change("b", form(("ramQuotaMB", "500")))
        )
        guard case .success = raised else { throw SceneError("\(raised)") }
        guard
            case .success = await Result(
                of: try await scene[1].settings.change(form(("memoryQuota", "960")))
            )
        else {
            throw SceneError("memoryQuota")
        }
        #expect(!scene[1].health.alerts.contains { $0.id == "memory" })
    }
}
