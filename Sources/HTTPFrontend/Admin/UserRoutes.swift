internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Local users, their roles and passwords. Clients match the texts of the refusals.
extension AdminRoutes {
    static let users: [Route] =
        userLists + [
            Route.setting("/settings/rbac/users/*/*", .securityWrite, by: .put, handler: putUser),
            // As in Couchbase Server, only local users can be changed in part.
            Route.setting(
                "/settings/rbac/users/local/*",
                .securityWrite,
                by: .patch,
                handler: patchUser
            ),
            Route(.delete, "/settings/rbac/users/*/*", access: .securityWrite, handler: deleteUser)
                .accepting()
                .failing(
                    as: .members.with(\.unknown, .json("User was not found.", status: 404))
                ),
            Route(.get, "/settings/rbac/groups", access: .securityRead) { _ in .json([]) },
            Route(.get, "/settings/rbac/groups/*", access: .securityRead) { _ in
                .json("Unknown group.", status: 404)
            },
            Route(.put, "/settings/rbac/groups/*", access: .securityWrite) { _ in
                let text = "Groups of users are not supported yet. Grant the roles to each user"
                return .refused([FieldError("_", text)])
            },
            Route(.delete, "/settings/rbac/groups/*", access: .securityWrite) { _ in
                .json("Group was not found.", status: 404)
            },
            Route(.get, "/settings/rbac/roles", access: .securityRead, handler: listRoles),
            Route(.get, "/settings/passwordPolicy", access: .securityRead) { _ in
                .json(.object(passwordPolicy))
            },
            Route(
                .post,
                "/settings/passwordPolicy",
                access: .securityWrite,
                validates: true,
                handler: setPasswordPolicy
            ),
            Route.setting("/controller/changePassword", .login, handler: changePassword),
        ]

    /// The requirements of a password; the same for all clusters.
    private static var passwordPolicy: [(String, JSONText)] {
        [
            ("minLength", .number(ClusterForm.passwordCharactersMin)),
            ("enforceUppercase", false),
            ("enforceLowercase", false),
            ("enforceDigits", false),
            ("enforceSpecialChars", false),
        ]
    }

    private static let userLists: [Route] = [
        Route(.get, "/settings/rbac/users", access: .securityRead) { call in
            list(call, path: "/settings/rbac/users")
        },
        Route(.get, "/settings/rbac/users/*", access: .securityRead) { call in
            switch call.capture(0) {
            case UserJSON.domain: list(call, path: "/settings/rbac/users/local")
            case "external": .json([])
            default: .json("Unknown user.", status: 404)
            }
        },
        Route(.get, "/settings/rbac/users/*/*", access: .securityRead) { call in
            guard call.capture(0) == UserJSON.domain, let user = call.state.user(call.capture(1))
            else { return .json("Unknown user.", status: 404) }
            return Reply.json(UserJSON.user(user)).version(user.settingsRevision)
        },
    ]

    /// The users that the query selects, or one page of them if the query asks for pages.
    private static func list(_ call: Call, path: String) -> Reply {
        do throws(FieldError) {
            let page = try UserPage(call.request.query)
            let selection = try UserSelection(call.request.query, isPaged: page != nil)
            let users = call.state.users
            guard let page else {
                return .json(.array(selection.users(of: users).map(UserJSON.user)))
            }
            return .json(try page.json(of: users, selection, path: path))
        } catch {
            return .refused([error])
        }
    }

    /// All roles, or those that include the permission of the query.
    @Sendable private static func listRoles(_ call: Call) async -> Reply {
        do throws(FieldError) {
            let permission = try UserSelection.permission(call.request.query)
            return .json(UserJSON.roles(including: permission, in: call.state))
        } catch {
            return .refused([error])
        }
    }

    // MARK: Changes

    private static func putUser(_ call: Call) async throws(AdministrationError) -> Reply {
        guard call.capture(0) == UserJSON.domain else { return refused(domain: call.capture(0)) }
        let id = call.capture(1)
        if call.request.isValidationOnly {
            let flaws = call.service.users.flaws(ofUser: id, call.request.form)
            return flaws.isEmpty ? .valid : .refused(flaws)
        }
        let user = call.state.user(id)
        guard let precondition = call.request.precondition else {
            return .refused([FieldError("_", RESTRequest.preconditionRule)])
        }
        guard precondition.permits(user?.settingsRevision) else {
            return .conflict("The user", mustBeAbsent: precondition == .absent)
        }
        // If the user changes after this check, the request is overtaken and checked again.
        let seen: Precondition<UserChange.Basis> =
            precondition == .any ? .any : user.map { .version($0.basis) } ?? .absent
        try await call.service.users.put(
            id,
            call.request.form,
            by: call.identity.login,
            precondition: seen
        )
        return .done
    }

    /// Changes a user's password, as the administrator; all else needs PUT.
    private static func patchUser(_ call: Call) async throws(AdministrationError) -> Reply {
        guard let user = call.state.user(call.capture(0)) else {
            return .json("Unknown user.", status: 404)
        }
        let parameters = call.request.form
        var form = SettingsForm(parameters)
        form.refuseUnknownFields(except: ["password", "locked"])
        form.checkFixed([("locked", false, UserForm.lockedReason)])
        if parameters.pairs.isEmpty { form.refuse("_", "Request should have parameters") }
        if let flaw = parameters["password"].flatMap(ClusterForm.flaw(ofPassword:)) {
            form.refuse("password", flaw)
        }
        guard form.errors.isEmpty else { return .refused(form.errors) }
        if call.request.isValidationOnly { return .valid }
        guard parameters["password"] != nil else { return .done }
        try await call.service.users.changePassword(of: user, parameters, by: call.identity.login)
        return .done
    }

    /// Accepts the values of the policy, and refuses others.
    @Sendable private static func setPasswordPolicy(_ call: Call) async -> Reply {
        let parameters = call.request.form
        let policy = passwordPolicy
        var form = SettingsForm(parameters)
        form.refuseUnknownFields(except: Set(policy.map(\.0)))
        if parameters.pairs.isEmpty { form.refuse("_", "Request should have parameters") }
        for (name, value) in policy {
            let text = String(decoding: value.bytes, as: UTF8.self)
            guard let asked = parameters[name], asked != text else { continue }
            form.refuse(name, "The value is \(text) and cannot be changed")
        }
        guard form.errors.isEmpty else { return .refused(form.errors) }
        return call.request.isValidationOnly ? .valid : .done
    }

    private static func deleteUser(_ call: Call) async throws(AdministrationError) -> Reply {
        guard call.capture(0) == UserJSON.domain else { throw .unknown }
        try await call.service.users.delete(call.capture(1), by: call.identity.login)
        return .done
    }

    private static func refused(domain: String) -> Reply {
        guard domain == "external" else { return .json("Unknown user.", status: 404) }
        let text = "Users of external domains are not supported yet. Create a local user"
        return .refused([FieldError("_", text)])
    }

    /// Changes the password of the login that sends the request.
    private static func changePassword(_ call: Call) async throws(AdministrationError) -> Reply {
        let form = call.request.form
        var unknown = SettingsForm(form)
        unknown.require("password")
        unknown.refuseUnknownFields(except: ["password"])
        guard unknown.errors.isEmpty else { return .refused(unknown.errors) }
        if call.request.isValidationOnly {
            let flaw = ClusterForm.flaw(ofPassword: form["password"] ?? "")
            return flaw.map { .refused([FieldError("password", $0)]) } ?? .valid
        }
        switch call.identity {
        case .administrator, .unprovisioned:
            try await call.service.settings.changeAdministratorPassword(form)
        case .user(let id):
            guard let user = call.state.user(id) else {
                return .json("User was not found.", status: 404)
            }
            do throws(AdministrationError) {
                try await call.service.users.changePassword(of: user, form, by: id)
            } catch {
                // A repetition would change a password that this request did not present.
                let text = "Another request changed the password. Log in again and retry."
                throw error == .overtaken ? .invalid([FieldError("_", text)]) : error
            }
        case .bucket, .guest, .anonymous:
            return .forbidden(Permission.securityWrite.text)
        }
        return .done
    }
}

/// One page of the list of users: so many users from one user on.
struct UserPage {
    /// As in Couchbase Server.
    private static let sizes: ClosedRange<UInt64> = 2...100

    private let size: Int
    /// The first user of the page has this id, or is the next in the list; nil for the first page.
    ///
    /// `UserSelection.start` has the ids for which there is no page.
    private let start: String?

    /// Nil if the query asks for no pages.
    ///
    /// - Throws: `FieldError` if the size of a page is missing or not possible.
    init?(_ query: FormParameters) throws(FieldError) {
        start = query["startFrom"]
        guard let text = query["pageSize"] else {
            guard start == nil else {
                throw FieldError("pageSize", "The value must be supplied")
            }
            return nil
        }
        guard let number = FormParameters.number(text), Self.sizes.contains(number) else {
            let bounds = "\(Self.sizes.lowerBound) to \(Self.sizes.upperBound)"
            let reason = "The value of \"pageSize\" must be in range from \(bounds)"
            throw FieldError("pageSize", reason)
        }
        size = Int(number)
    }

    /// - Parameters:
    ///   - all: All users.
    ///   - selection: Which of them the list contains, and in which order.
    ///   - path: The path of the list, for the links to the other pages.
    /// - Returns: The page, with links.
    /// - Throws: `FieldError` if the page's first user does not exist, and its place is unknown.
    func json(
        of all: [LocalUser],
        _ selection: UserSelection,
        path: String
    ) throws(FieldError) -> JSONText {
        let users = selection.users(of: all)
        var place = 0
        if let start { place = try selection.start(at: start, in: users, of: all) }
        let query = "\(path)?pageSize=\(size)" + Self.text(of: selection.parameters)
        let page = users.dropFirst(place).prefix(size)
        var links = [("first", link(query, from: nil))]
        if place > 0 {
            let before = max(0, place - size)
            links.append(("prev", link(query, from: before == 0 ? nil : users[before].id)))
        }
        if page.endIndex < users.count {
            links.append(("next", link(query, from: users[page.endIndex].id)))
        }
        let last = max(0, users.count - size)
        links.append(("last", link(query, from: last == 0 ? nil : users[last].id)))
        return [
            "total": .number(users.count),
            "links": .object(links.map { ($0.0, .string($0.1)) }),
            "skipped": .number(place),
            "users": .array(page.map(UserJSON.user)),
        ]
    }

    private static func text(of parameters: [(name: String, value: String)]) -> String {
        parameters.map { "&\($0.name)=\(URLCoding.encode($0.value.utf8))" }.joined()
    }

    private func link(_ query: String, from id: String?) -> String {
        guard let id else { return query }
        return query + "&startFromDomain=\(UserJSON.domain)&startFrom=\(URLCoding.encode(id.utf8))"
    }
}
