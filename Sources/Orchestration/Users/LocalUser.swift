package import Bytes
package import Vocabulary

/// A user besides the administrator, with its password and what it may do.
///
/// - Ids are compared as bytes: every release then finds the same user in the same state.
package struct LocalUser: Hashable, Sendable, CodedFields {
    package internal(set) var id = ""
    /// The full name; empty if there is none.
    package var name = ""
    package var roles = Grants.none
    /// Salted keys, opaque to this module.
    package var credentials: [UInt8] = []
    /// When the password was set, in seconds since the Unix epoch.
    package var passwordChangedSeconds: UInt64 = 0

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&name, "name")
        try coder.field(&roles, "roles")
        try coder.field(&credentials, "credentials")
        try coder.field(&passwordChangedSeconds, "change of the password")
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
package struct UserChange: Hashable, Sendable, CodedFields {
    /// A new password, and when it was set in seconds since the Unix epoch.
    package struct Password: Hashable, Sendable, CodedFields {
        package var credentials: [UInt8] = []
        package var changedSeconds: UInt64 = 0

        package init() {}

        package init(credentials: [UInt8], changedSeconds: UInt64) {
            self.credentials = credentials
            self.changedSeconds = changedSeconds
        }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&credentials, "credentials")
            try coder.field(&changedSeconds, "change of the password")
        }
    }

    /// The name and the roles that a change is based on.
    package struct Basis: Hashable, Sendable, CodedFields {
        package var name = ""
        package var roles = Grants.none

        package init() {}

        package init(name: String, roles: Grants) {
            self.name = name
            self.roles = roles
        }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&name, "name of the basis")
            try coder.field(&roles, "roles of the basis")
        }
    }

    package var id = ""
    package var name = ""
    package var roles = Grants.none
    /// Nil keeps the user's password; then the user has to exist.
    package var password: Password?
    /// The change is refused if the user has another name or other roles.
    package var was = Precondition<Basis>.any

    package init() {}

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

    /// The parts that follow the roles.
    private struct Parts: OptionSet {
        let rawValue: UInt8
        static let password = Parts(rawValue: 1)
        static let basis = Parts(rawValue: 2)
        /// Nothing follows for it: the user must not exist.
        static let absent = Parts(rawValue: 4)
        static let all: Parts = [.password, .basis, .absent]
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&name, "name")
        try coder.field(&roles, "roles")
        var parts: Parts = password == nil ? [] : .password
        var basis = Basis()
        switch was {
        case .any: break
        case .absent: parts.insert(.absent)
        case .version(let version):
            parts.insert(.basis)
            basis = version
        }
        try coder.choice(&parts, "parts")
        try coder.require(parts.isSubset(of: .all), "parts")
        try coder.require(!parts.isSuperset(of: [.basis, .absent]), "parts")
        if parts.contains(.password) {
            var new = password ?? Password()
            try coder.field(&new, "password")
            password = new
        }
        if parts.contains(.absent) { was = .absent }
        if parts.contains(.basis) {
            try coder.field(&basis, "basis")
            was = .version(basis)
        }
    }
}

/// Replaces a user's password.
package struct PasswordChange: Hashable, Sendable, CodedFields {
    package var id = ""
    package var password = UserChange.Password()
    /// The keys of the password that the change is based on; it is refused if they have changed.
    package var was: [UInt8] = []

    package init() {}

    package init(id: String, password: UserChange.Password, was: [UInt8]) {
        self.id = id
        self.password = password
        self.was = was
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&password, "password")
        try coder.field(&was, "former credentials")
    }
}
