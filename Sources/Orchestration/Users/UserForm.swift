package import Vocabulary

/// Validates a form of a local user: full name, roles, password.
///
/// - The texts are those of Couchbase Server where clients match them.
package struct UserForm {
    package private(set) var name = ""
    package private(set) var roles = Grants.none
    /// Nil keeps the present password.
    package private(set) var password: String?
    package private(set) var errors: [FieldError] = []

    private let parameters: FormParameters
    private let state: ClusterState

    /// Why a user cannot be locked, and what to do instead.
    package static let lockedReason =
        "Locked users are not supported. Delete the user, or remove its roles"

    private static let unsupported: [(field: String, reason: String)] = [
        ("groups", "Groups of users are not supported yet. Grant the roles to the user"),
        ("locked", lockedReason),
        ("temporaryPassword", "Temporary passwords are not supported"),
    ]

    /// - Parameters:
    ///   - parameters: The form.
    ///   - id: The user's id.
    ///   - state: The state that the form is checked against.
    package init(_ parameters: FormParameters, id: String, state: ClusterState) {
        self.parameters = parameters
        self.state = state
        validate(id: id)
        validateName()
        validatePassword(isNew: state.user(id) == nil)
        validateRoles()
        validateUnsupported()
    }

    private mutating func validate(id: String) {
        switch ClusterState.flaw(ofUserName: id) {
        case .empty: refuse("_", "Username must not be empty")
        case .tooLong:
            refuse("_", "The username may not exceed \(Limits.userIDBytesMax) characters")
        case .bannedCharacter:
            refuse(
                "_",
                "The username must not contain control characters or any of "
                    + UserNameFlaw.banned
            )
        case nil: break
        }
        if state.administrator?.name == id {
            refuse("_", "The administrator has this name. Choose another one")
        }
        // Both would look the same to an administrator, and each has its own password.
        if state.users.contains(where: { $0.id == id && !$0.hasID(id) }) {
            refuse("_", "Another user has this name in another encoding of its letters")
        }
    }

    private mutating func validateName() {
        name = parameters["name"] ?? ""
        if name.utf8.count > Limits.userNameBytesMax {
            refuse("name", "The name may not exceed \(Limits.userNameBytesMax) characters")
        }
    }

    private mutating func validatePassword(isNew: Bool) {
        guard let text = parameters["password"] else {
            if isNew { refuse("password", "Password is required for new user.") }
            return
        }
        if let flaw = ClusterForm.flaw(ofPassword: text) {
            refuse("password", flaw)
        } else {
            password = text
        }
    }

    private mutating func validateRoles() {
        var grants: [RoleGrant] = []
        var unknown: [String] = []
        var scoped: [String] = []
        for text in Self.split(parameters["roles"] ?? "") {
            do throws(RoleGrant.TextError) {
                let grant = try RoleGrant(parsing: text)
                if state.isGrantable(grant) { grants.append(grant) } else { unknown.append(text) }
            } catch .collections {
                scoped.append(text)
            } catch {
                unknown.append(text)
            }
        }
        roles = Grants(grants)
        if !unknown.isEmpty {
            refuse(
                "roles",
                "Cannot assign roles to user because the following roles are unknown, malformed or "
                    + "role parameters are undefined: [\(unknown.joined(separator: ","))]"
            )
        } else if !scoped.isEmpty {
            refuse(
                "roles",
                "Roles for scopes and collections are not supported yet: "
                    + "[\(scoped.joined(separator: ","))]. Grant the role for the whole bucket"
            )
        }
    }

    /// An absent or empty value, and `false`, ask for nothing.
    private mutating func validateUnsupported() {
        for (field, reason) in Self.unsupported {
            guard let value = parameters[field], !value.isEmpty, value != "false" else { continue }
            refuse(field, reason)
        }
        let known = ["name", "roles", "password"] + Self.unsupported.map(\.field)
        for (field, _) in parameters.pairs where !known.contains(field) {
            refuse(field, "Unsupported key")
        }
    }

    /// The roles of a list: commas in brackets do not separate.
    private static func split(_ text: String) -> [String] {
        var depth = 0
        let parts = text.split { character in
            if character == "[" { depth += 1 }
            if character == "]" { depth -= 1 }
            return character == "," && depth <= 0
        }
        return parts.map { $0.trimmingBlanks }.filter { !$0.isEmpty }
    }

    private mutating func refuse(_ field: String, _ text: String) {
        errors.append(FieldError(field, text))
    }
}

extension Substring {
    fileprivate var trimmingBlanks: String {
        let start = firstIndex { $0 != " " } ?? endIndex
        let end = lastIndex { $0 != " " }.map { index(after: $0) } ?? start
        return String(self[start..<end])
    }
}
