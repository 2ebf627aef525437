import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Requests about local users, from form to log, and logins.
@Suite struct UserServiceTests {
    let world = World()

    /// A provisioned node with the buckets `b`, and `open` without a password.
    private func started() async throws -> AdministrationService {
        let service = try world.service(RecordingPlane())
        service.applier.openBuckets()
        try await service.start(host: "127.0.0.1", ports: NodePorts(admin: 8_091, data: 11_210))
        _ = await Result(
            of: try await service.settings.initialise(
                form(("port", "SAME"), ("username", "A"), ("password", "password"))
            )
        )
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        _ = await Result(
            of: try await service.buckets.create(
                form(("name", "open"), ("ramQuotaMB", "100"), ("passwordless", "1"))
            )
        )
        return service
    }

    /// The errors of a refused request by their fields; nil if it was not refused.
    private func errors(_ outcome: Result<Void, AdministrationError>) -> [String: String]? {
        guard case .failure(.invalid(let errors, _)) = outcome else { return nil }
        return Dictionary(errors.map { ($0.field, $0.text) }) { first, _ in first }
    }

    private func isDone(_ outcome: Result<Void, AdministrationError>) -> Bool {
        outcome.isDone
    }

    // MARK: Changes

    @Test func userIsCreatedChangedAndDeleted() async throws {
        let service = try await started()
        let new = form(
            ("name", "Ann"),
            ("roles", "data_reader[b], views_reader[*],data_writer[b:*:*]"),
            ("password", "secret-1")
        )
        #expect(isDone(await Result(of: try await service.users.put("ann", new, by: "A"))))
        let made = try #require(service.state.user("ann"))
        #expect(made.name == "Ann")
        #expect(made.grants.map(\.text) == ["data_reader[b]", "data_writer[b]", "views_reader[*]"])
        #expect(made.passwordChangedSeconds == service.cluster.wallMilliseconds / 1_000)
        #expect(service.users.login("ann", "secret-1") == .user("ann"))
        #expect(service.users.login("ann", "secret-2") == nil)

        world.time.advance(by: 5_000_000_000)
        #expect(
            isDone(
                await Result(
                    of: try await service.users.put("ann", form(("roles", "ro_admin")), by: "A")
                )
            )
        )
        let changed = try #require(service.state.user("ann"))
        #expect(changed.name.isEmpty && changed.grants.map(\.text) == ["ro_admin"])
        #expect(changed.credentials == made.credentials)
        #expect(changed.passwordChangedSeconds == made.passwordChangedSeconds)

        let password = form(("roles", "ro_admin"), ("password", "secret-2"))
        #expect(isDone(await Result(of: try await service.users.put("ann", password, by: "A"))))
        #expect(service.users.login("ann", "secret-1") == nil)
        #expect(service.users.login("ann", "secret-2") == .user("ann"))
        #expect(
            service.state.user("ann")?.passwordChangedSeconds == made.passwordChangedSeconds + 5
        )

        #expect(isDone(await Result(of: try await service.users.delete("ann", by: "A"))))
        let again = await Result(of: try await service.users.delete("ann", by: "A"))
        guard case .failure(.unknown) = again else { throw SceneError("deleted twice") }
        #expect(service.users.login("ann", "secret-2") == nil)
        // Passwords are in no log.
        let texts = service.cluster.events.all().map(\.text)
        #expect(texts.filter { $0.contains("\"ann\"") }.count == 4)
        #expect(!texts.contains { $0.contains("secret") })
    }

    struct Refusal: Sendable {
        let id: String
        let form: [(String, String)]
        let field: String
        let text: String
    }

    private static let unknownRoles =
        "Cannot assign roles to user because the following roles are unknown, malformed or role "
        + "parameters are undefined: "
    private static let refusals = [
        Refusal(id: "a", form: [], field: "password", text: "Password is required for new user."),
        Refusal(
            id: "a",
            form: [("password", "short")],
            field: "password",
            text: "The password must be at least 6 characters long."
        ),
        Refusal(id: "a:b", form: [], field: "_", text: "The username must not contain control"),
        Refusal(id: "A", form: [], field: "_", text: "The administrator has this name."),
        Refusal(
            id: "a",
            form: [("roles", "data_reader[gone],admin,root,data_reader")],
            field: "roles",
            text: unknownRoles + "[data_reader[gone],root,data_reader]"
        ),
        Refusal(
            id: "a",
            form: [("roles", "data_reader[b:s:c]")],
            field: "roles",
            text: "Roles for scopes and collections are not supported yet: [data_reader[b:s:c]]."
        ),
        Refusal(id: "a", form: [("groups", "g")], field: "groups", text: "Groups of users"),
        Refusal(id: "a", form: [("locked", "true")], field: "locked", text: "Locked users"),
        Refusal(id: "a", form: [("role", "admin")], field: "role", text: "Unsupported key"),
        Refusal(
            id: "a",
            form: [("name", String(repeating: "x", count: 257))],
            field: "name",
            text: "The name may not exceed 256 characters"
        ),
    ]

    @Test(arguments: refusals)
    func impossibleUserIsRefusedByField(_ refusal: Refusal) async throws {
        let service = try await started()
        let outcome = await Result(
            of: try await service.users.put(refusal.id, FormParameters(refusal.form), by: "A")
        )
        let text = try #require(errors(outcome)?[refusal.field])
        #expect(text.hasPrefix(refusal.text), "\(text)")
        #expect(service.state.users.isEmpty)
        let flaws = service.users.flaws(ofUser: refusal.id, FormParameters(refusal.form))
        #expect(flaws.contains { $0.field == refusal.field })
    }

    /// SDKs send such values with every user.
    @Test func emptyValuesOfUnsupportedFieldsAreAccepted() async throws {
        let service = try await started()
        let form = form(
            ("password", "secret-1"),
            ("roles", ""),
            ("groups", ""),
            ("locked", "false"),
            ("temporaryPassword", "false")
        )
        #expect(isDone(await Result(of: try await service.users.put("ann", form, by: "A"))))
        #expect(service.state.user("ann")?.grants == [])
    }

    @Test func idOfOtherEncodingIsRefused() async throws {
        let service = try await started()
        let password = form(("password", "secret-1"))
        #expect(
            isDone(await Result(of: try await service.users.put("caf\u{e9}", password, by: "A")))
        )
        let outcome = await Result(
            of: try await service.users.put("cafe\u{301}", password, by: "A")
        )
        #expect(errors(outcome)?["_"]?.hasPrefix("Another user has this name") == true)
    }

    @Test func administratorCannotHaveAUsersName() async throws {
        let service = try await started()
        _ = await Result(
            of: try await service.users.put("ann", form(("password", "secret-1")), by: "A")
        )
        let next = form(("port", "SAME"), ("username", "ann"), ("password", "secret-2"))
        let outcome = await Result(
            of: try await service.settings.setAdministrator(next, isFirst: false, by: "A")
        )
        #expect(errors(outcome)?["username"] != nil)
    }

    // MARK: Passwords

    @Test func ownPasswordIsChangedUnlessItWasChangedMeanwhile() async throws {
        let service = try await started()
        _ = await Result(
            of: try await service.users.put(
                "ann",
                form(("password", "secret-1"), ("roles", "ro_admin")),
                by: "A"
            )
        )
        let before = try #require(service.state.user("ann"))
        let short = await Result(
            of: try await service.users.changePassword(of: before, form(("password", "x")), by: "A")
        )
        #expect(errors(short)?["password"] != nil)
        #expect(
            isDone(
                await Result(
                    of: try await service.users.changePassword(
                        of: before,
                        form(("password", "secret-2")),
                        by: "A"
                    )
                )
            )
        )
        #expect(service.users.login("ann", "secret-2") == .user("ann"))
        #expect(service.state.user("ann")?.grants == before.grants)
        let late = await Result(
            of: try await service.users.changePassword(
                of: before,
                form(("password", "secret-3")),
                by: "A"
            )
        )
        guard case .failure(.overtaken) = late else {
            Issue.record("changed by an outdated request")
            return
        }
        #expect(service.users.login("ann", "secret-2") == .user("ann"))
    }

    @Test func administratorKeepsItsNameWithANewPassword() async throws {
        let service = try await started()
        let short = await Result(
            of: try await service.settings.changeAdministratorPassword(form(("password", "x")))
        )
        #expect(errors(short)?["password"] != nil)
        #expect(
            isDone(
                await Result(
                    of: try await service.settings.changeAdministratorPassword(
                        form(("password", "secret-1"))
                    )
                )
            )
        )
        #expect(service.users.login("A", "secret-1") == .administrator("A"))
        #expect(service.users.login("A", "password") == nil)
    }

    @Test func stoppedServiceDerivesNoPassword() async throws {
        let service = try await started()
        service.stop()
        guard
            case .failure(.failed) = await Result(
                of: try await service.users.put(
                    "ann",
                    form(("password", "secret-1")),
                    by: "A"
                )
            )
        else {
            Issue.record("not refused")
            return
        }
    }

    // MARK: Logins

    @Test func loginNamesTheAdministratorThenAUserThenABucket() async throws {
        let service = try await started()
        #expect(service.users.login("A", "password") == .administrator("A"))
        #expect(service.isAdministrator("A", "password"))
        #expect(service.users.login("open", "") == .guest("open"))
        #expect(service.users.login("open", "secret-1") == nil)
        #expect(service.users.login("b", "") == nil)
        #expect(service.users.login("absent", "") == nil)
        // A user hides the bucket of its name.
        _ = await Result(
            of: try await service.users.put("open", form(("password", "secret-1")), by: "A")
        )
        #expect(service.users.login("open", "") == nil)
        #expect(service.users.login("open", "secret-1") == .user("open"))
        #expect(!service.isAdministrator("open", "secret-1"))
        _ = await Result(of: try await service.users.delete("open", by: "A"))
        #expect(service.users.login("open", "") == .guest("open"))
    }

    @Test func checkedLoginIsKnownUntilThePasswordChanges() async throws {
        let service = try await started()
        _ = await Result(
            of: try await service.users.put("ann", form(("password", "secret-1")), by: "A")
        )
        #expect(service.users.knownLogin("ann", "secret-1") == nil)
        _ = service.users.login("ann", "secret-1")
        #expect(service.users.knownLogin("ann", "secret-1") == .some(.user("ann")))
        _ = await Result(
            of: try await service.users.put("ann", form(("password", "secret-2")), by: "A")
        )
        #expect(service.users.knownLogin("ann", "secret-1") == nil)
        _ = service.users.login("ann", "secret-1")
        #expect(service.users.knownLogin("ann", "secret-1") == .some(nil))
        #expect(service.users.knownLogin("open", "") == .some(.guest("open")))
    }
}
