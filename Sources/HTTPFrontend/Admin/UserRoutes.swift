internal import ClusterService
internal import Orchestration

/// Users: only the administrator exists yet. Clients match the texts of the refusals.
extension Routes {
    static let users: [Route] = [
        Route(.get, "/settings/rbac/users", .permission(readPermission)) { _ in .json([]) },
        Route(.get, "/settings/rbac/users/*", .permission(readPermission)) { call in
            isDomain(call) ? .json([]) : .json("Unknown user.", status: 404)
        },
        Route(.get, "/settings/rbac/users/*/*", .permission(readPermission)) { _ in
            .json("Unknown user.", status: 404)
        },
        Route(.put, "/settings/rbac/users/*/*", .permission(writePermission)) { _ in
            let text = "Users other than the administrator are not supported yet"
            return .refused([FieldError("_", text)])
        },
        Route(.delete, "/settings/rbac/users/*/*", .permission(writePermission)) { _ in
            .json("User was not found.", status: 404)
        },
        Route(.get, "/settings/rbac/groups", .permission(readPermission)) { _ in .json([]) },
        Route(.get, "/settings/rbac/groups/*", .permission(readPermission)) { _ in
            .json("Unknown group.", status: 404)
        },
        Route(.delete, "/settings/rbac/groups/*", .permission(writePermission)) { _ in
            .json("Group was not found.", status: 404)
        },
        Route(.get, "/settings/rbac/roles", .permission(readPermission)) { _ in
            .json([
                [
                    "role": "admin",
                    "name": "Full Admin",
                    "desc": "The administrator: may do everything.",
                ]
            ])
        },
        Route(.get, "/settings/passwordPolicy", .permission(readPermission)) { _ in
            .json([
                "minLength": .number(ClusterForm.passwordCharactersMin),
                "enforceUppercase": false,
                "enforceLowercase": false,
                "enforceDigits": false,
                "enforceSpecialChars": false,
            ])
        },
        Route(
            .post,
            "/controller/changePassword",
            .permission(writePermission),
            needsCluster: true,
            changePassword
        ),
    ]

    private static let readPermission = "cluster.admin.security!read"
    private static let writePermission = "cluster.admin.security!write"

    private static func isDomain(_ call: Call) -> Bool {
        ["local", "external"].contains(call.capture(0))
    }

    @Sendable private static func changePassword(_ call: Call) async -> Reply {
        let form = FormParameters([
            ("port", "SAME"), ("username", call.state.administrator?.name ?? ""),
            ("password", call.request.form["password"] ?? ""),
        ])
        switch await call.service.setAdministrator(form, isFirst: false) {
        case .done: return .done
        case .overtaken: return .overtaken
        case .refused(let errors): return .refused(errors)
        case .failed(let text): return .failed(text)
        }
    }
}
