import Bytes
import ClusterService
import Credentials
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// The rules for passwords follow the agreed settings and the cluster's secret.
@Suite struct PasswordRuleTests {
    let world = World()

    private func started() async throws -> AdministrationService {
        let service = try world.service(RecordingPlane())
        service.applier.openBuckets()
        try await service.start(host: "127.0.0.1", ports: NodePorts(admin: 8_091, data: 11_210))
        return service
    }

    private func keys(of user: String, _ service: AdministrationService) throws -> String {
        String(decoding: try #require(service.state.user(user)).credentials, as: UTF8.self)
    }

    @Test func changedSettingHasEffectOnTheNextPassword() async throws {
        let service = try await started()
        #expect(service.users.passwordRules.iterations == 60_000)
        #expect(!service.users.passwordRules.offersSHA1)
        _ = await Result(
            of: try await service.settings.initialise(
                form(("port", "SAME"), ("username", "A"), ("password", "password"))
            )
        )
        _ = await Result(
            of: try await service.users.put(
                "u",
                form(("roles", "ro_admin"), ("password", "secret-1")),
                by: "A"
            )
        )
        let first = try keys(of: "u", service)
        #expect(first.contains("SCRAM-SHA512,60000,") && first.contains("SCRAM-SHA256,60000,"))
        #expect(!first.contains("SCRAM-SHA1,"))
        var settings = service.state.settings
        settings.passwords.iterations = 5_000
        settings.passwords.offersSHA1 = true
        _ = await Result(
            of: try await service.settings.change(settings: settings, was: service.state.settings)
        )
        #expect(service.users.passwordRules.iterations == 5_000)
        #expect(try keys(of: "u", service) == first)
        _ = await Result(
            of: try await service.users.put(
                "u",
                form(("roles", "ro_admin"), ("password", "secret-2")),
                by: "A"
            )
        )
        let second = try keys(of: "u", service)
        #expect(second.contains("SCRAM-SHA512,5000,") && second.contains("SCRAM-SHA1,5000,"))
        let rules = service.users.passwordRules
        service.stop()
        let again = try await started()
        #expect(again.users.passwordRules == rules)
        again.stop()
    }

    @Test func nodesOfAClusterHaveTheSameRules() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await scene.build()
        let rules = scene[1].users.passwordRules
        #expect(rules.iterations == Int(PasswordSettings.iterationsRange.lowerBound))
        #expect(await eventually { scene[2].users.passwordRules == rules })
    }
}

extension AdministrationService {
    /// Passwords of tests are no secrets.
    func useLeastRounds() async throws {
        var settings = state.settings
        settings.passwords.iterations = UInt32(PasswordSettings.iterationsRange.lowerBound)
        guard
            case .success = await Result(
                of: try await self.settings.change(settings: settings, was: state.settings)
            )
        else {
            throw SceneError("settings")
        }
    }
}
