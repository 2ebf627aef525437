import Bytes
import ClusterService
import Orchestration
import Testing
import Vocabulary

/// The users that the data plane is given.
@Suite struct AccountTests {
    let world = World()

    private func started(_ plane: RecordingPlane) async throws -> AdministrationService {
        let service = try world.service(plane)
        service.applier.openBuckets()
        try await service.start(host: "127.0.0.1", ports: NodePorts(admin: 8_091, data: 11_210))
        return service
    }

    /// The grants of all users of the data plane, as texts.
    private func users(_ plane: RecordingPlane) -> [String: [String]] {
        plane.record.withLock { $0.grants.mapValues { $0.roles.map(\.text) } }
    }

    @Test func userChangesAreAppliedToDataPlane() async throws {
        let plane = RecordingPlane()
        let service = try await started(plane)
        _ = await Result(
            of: try await service.settings.initialise(
                form(("port", "SAME"), ("username", "A"), ("password", "password"))
            )
        )
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(users(plane) == ["A": ["admin"]])
        let roles = ("roles", "data_reader[b],views_admin[*]")
        _ = await Result(
            of: try await service.users.put("u", form(roles, ("password", "secret")), by: "A")
        )
        #expect(users(plane) == ["A": ["admin"], "u": ["data_reader[b]", "views_admin[*]"]])
        let before = plane.record.withLock { $0.users["u"] }
        _ = await Result(
            of: try await service.users.put("u", form(("roles", "data_reader[b]")), by: "A")
        )
        #expect(users(plane)["u"] == ["data_reader[b]"])
        #expect(plane.record.withLock { $0.users["u"] } == before)
        _ = await Result(
            of: try await service.users.put(
                "u",
                form(("roles", "data_reader[b]"), ("password", "secret2")),
                by: "A"
            )
        )
        #expect(plane.record.withLock { $0.users["u"] } != before)
        _ = await Result(of: try await service.buckets.delete("b"))
        #expect(users(plane)["u"] == [])
        _ = await Result(of: try await service.users.delete("u", by: "A"))
        #expect(users(plane) == ["A": ["admin"]])
        service.stop()
    }

    @Test func restartedNodeHasItsUsersBeforeItListens() async throws {
        let first = try await started(RecordingPlane())
        _ = await Result(
            of: try await first.settings.initialise(
                form(("port", "SAME"), ("username", "A"), ("password", "password"))
            )
        )
        _ = await Result(
            of: try await first.users.put(
                "u",
                form(("roles", "ro_admin"), ("password", "secret")),
                by: "A"
            )
        )
        first.stop()
        let plane = RecordingPlane()
        let second = try world.service(plane)
        second.applier.openBuckets()
        #expect(users(plane) == ["A": ["admin"], "u": ["ro_admin"]])
        second.stop()
    }

    @Test func bucketPasswordAuthenticatesLoginsWithBucketName() async throws {
        let service = try await started(RecordingPlane())
        _ = await Result(
            of: try await service.settings.initialise(
                form(("port", "SAME"), ("username", "A"), ("password", "password"))
            )
        )
        let bucket = form(("name", "b"), ("ramQuotaMB", "100"), ("saslPassword", "its own"))
        _ = await Result(of: try await service.buckets.create(bucket))
        let keys = try #require(service.state.bucket(named: "b")?.settings.password)
        #expect(!keys.isEmpty && !String(decoding: keys, as: UTF8.self).contains("its own"))
        #expect(service.users.login("b", "its own") == .bucket("b"))
        #expect(service.users.login("b", "") == nil)
        _ = await Result(of: try await service.buckets.change("b", form(("saslPassword", ""))))
        #expect(service.users.login("b", "its own") == nil)
        #expect(service.users.login("b", "") == nil)
        service.stop()
    }
}
