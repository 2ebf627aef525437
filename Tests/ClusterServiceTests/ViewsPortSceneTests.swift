import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Each node's port for views reaches the agreed state, whatever happens to its membership.
@Suite(.serialized) struct ViewsPortSceneTests {
    private func start(_ scene: ClusterScene) async throws {
        for (place, member) in scene.members.enumerated() {
            member.setViewsPort(UInt16(8_001 + place))
            try await member.start()
        }
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        guard case .success = await Result(of: try await scene[1].settings.initialise(form)) else {
            throw SceneError("initialise")
        }
    }

    private func add(_ number: Int, to scene: ClusterScene) async throws {
        let outcome = await Result(
            of: try await scene[1].membership.addNode(
                "127.0.0.1:\(scene.members[number - 1].ports.admin)",
                token: "",
                services: ["kv"],
                by: root
            )
        )
        guard case .success = outcome else { throw SceneError("addNode: \(outcome)") }
    }

    private func ports(_ scene: ClusterScene, at number: Int) -> [UInt16] {
        scene[number].state.nodes.map(\.ports.views)
    }

    private func restart(_ number: Int, of scene: ClusterScene, views port: UInt16) async throws {
        scene.members[number - 1].stop()
        scene.members[number - 1].setViewsPort(port)
        try await scene.members[number - 1].start()
    }

    @Test func loneNodeHasAnnouncedItsPortWhenItServes() async throws {
        let world = World()
        for port in [8_092, 9_092, 0] as [UInt16] {
            let service = try world.service(RecordingPlane())
            service.applier.openBuckets()
            let ports = NodePorts(admin: 8_091, data: 11_210, peer: 0, views: port)
            try await service.start(host: "127.0.0.1", ports: ports)
            #expect(service.state.nodes.map(\.ports) == [ports])
            service.stop()
        }
    }

    @Test func joiningNodeAnnouncesItsViewPort() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await start(scene)
        #expect(ports(scene, at: 1) == [8_001] && ports(scene, at: 2) == [8_002])
        try await add(2, to: scene)
        for number in [1, 2] {
            #expect(await eventually { ports(scene, at: number) == [8_001, 8_002] })
        }

        // A node that begins anew, alone, announces it again.
        #expect(await eventually { scene[1].state.nodes.last?.membership == .inactiveAdded })
        guard
            case .success = await Result(
                of: try await scene[1].membership.eject(scene.name(2), by: root)
            )
        else {
            throw SceneError("eject")
        }
        #expect(
            await eventually { !scene[2].state.isProvisioned && ports(scene, at: 2) == [8_002] }
        )
        #expect(ports(scene, at: 1) == [8_001])
    }

    @Test func restartedMemberAnnouncesAnotherPortOrNone() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        for (place, member) in scene.members.enumerated() {
            member.setViewsPort(UInt16(8_001 + place))
        }
        try await scene.build()
        try await scene.keepFromFailingOver()
        #expect(await eventually { ports(scene, at: 1) == [8_001, 8_002, 8_003] })
        try await restart(2, of: scene, views: 9_002)
        #expect(await eventually { ports(scene, at: 1) == [8_001, 9_002, 8_003] })
        try await restart(3, of: scene, views: 0)
        #expect(await eventually { ports(scene, at: 1) == [8_001, 9_002, 0] })
    }

    /// Without a majority the cluster cannot agree on the port; the new epoch can.
    @Test func portChangedWithoutAMajorityIsAnnouncedInTheNewEpoch() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        for (place, member) in scene.members.enumerated() {
            member.setViewsPort(UInt16(8_001 + place))
        }
        try await scene.build()
        #expect(await eventually { ports(scene, at: 1) == [8_001, 8_002, 8_003] })
        let names = [scene.name(2), scene.name(3)]
        for number in [2, 3] { scene.members[number - 1].stop() }
        try await restart(1, of: scene, views: 9_001)
        #expect(ports(scene, at: 1) == [8_001, 8_002, 8_003])
        guard
            case .success = await Result(
                of: try await scene[1].membership.failOver(names, by: root, isUnsafe: true)
            )
        else {
            throw SceneError("failOver")
        }
        #expect(await eventually { ports(scene, at: 1) == [9_001] })
    }
}
