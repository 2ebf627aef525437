package import Vocabulary

/// A user besides the administrator, with its password and what it may do.
///
/// - Ids are compared as bytes: every release then finds the same user in the same state.
package struct LocalUser: Hashable, Sendable {
    package let id: String
    /// The full name; empty if there is none.
    package var name: String
    package var roles: Grants
    /// Salted keys, opaque to this module.
    package var credentials: [UInt8]
    /// When the password was set, in seconds since the Unix epoch.
    package var passwordChangedSeconds: UInt64

    package init(
        id: String,
        name: String,
        roles: Grants,
        credentials: [UInt8],
        passwordChangedSeconds: UInt64
    ) {
        self.id = id
        self.name = name
        self.roles = roles
        self.credentials = credentials
        self.passwordChangedSeconds = passwordChangedSeconds
    }

    package var grants: [RoleGrant] { roles.roles }

    /// The basis of a change of name and roles.
    package var basis: UserChange.Basis { UserChange.Basis(name: name, roles: roles) }

    package func hasID(_ other: String) -> Bool { id.utf8.elementsEqual(other.utf8) }

    /// The bytes that count against `Limits.usersBytesMax`.
    package var byteCount: Int {
        roles.roles.reduce(id.utf8.count + name.utf8.count + credentials.count) { sum, grant in
            sum + grant.text.utf8.count
        } + Limits.userOverheadBytes
    }
}

/// Creates a user, or replaces its name and roles.
package struct UserChange: Hashable, Sendable {
    /// A new password, and when it was set in seconds since the Unix epoch.
    package struct Password: Hashable, Sendable {
        package var credentials: [UInt8]
        package var changedSeconds: UInt64

        package init(credentials: [UInt8], changedSeconds: UInt64) {
            self.credentials = credentials
            self.changedSeconds = changedSeconds
        }
    }

    /// The name and the roles that a change is based on.
    package struct Basis: Hashable, Sendable {
        package var name: String
        package var roles: Grants

        package init(name: String, roles: Grants) {
            self.name = name
            self.roles = roles
        }
    }

    package var id: String
    package var name: String
    package var roles: Grants
    /// Nil keeps the user's password; then the user has to exist.
    package var password: Password?
    /// The change is refused if the user has another name or other roles.
    package var was: Precondition<Basis>

    package init(
        id: String,
        name: String,
        roles: Grants,
        password: Password?,
        was: Precondition<Basis> = .any
    ) {
        self.id = id
        self.name = name
        self.roles = roles
        self.password = password
        self.was = was
    }
}

/// Replaces a user's password.
package struct PasswordChange: Hashable, Sendable {
    package var id: String
    package var password: UserChange.Password
    /// The keys of the password that the change is based on; it is refused if they have changed.
    package var was: [UInt8]

    package init(id: String, password: UserChange.Password, was: [UInt8]) {
        self.id = id
        self.password = password
        self.was = was
    }
}
