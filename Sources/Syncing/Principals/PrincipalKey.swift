internal import SyncWire

/// Names a user or a role of a database.
///
/// - The guest is the user with the empty name; administrators write it as `GUEST`.
package struct PrincipalKey: Hashable, Sendable {
    package enum Kind: UInt8, Sendable {
        case user
        case role
    }

    /// Precedes the names of roles in calls of `access` and `role`.
    package static let rolePrefix = "role:"
    package static let guest = PrincipalKey(.user, "")
    /// The longest name, in bytes: prefixed keys of documents have 250 (Sync Gateway 3).
    package static let nameBytesMax = 239

    package let kind: Kind
    package let name: String

    package init(_ kind: Kind, _ name: String) {
        self.kind = kind
        self.name = name
    }

    /// Parses a name of the function `access`: `jane` or `role:editors`; nil if the name is invalid.
    package init?(accessName text: String) {
        let isRole = text.utf8.starts(with: Self.rolePrefix.utf8)
        kind = isRole ? .role : .user
        name = isRole ? String(text.dropFirst(Self.rolePrefix.count)) : text
        guard Self.isValid(name: name) else { return nil }
    }

    /// Whether a name has only ASCII letters, digits and `-+.@%_`; the empty name is the guest's.
    package static func isValid(name: String) -> Bool {
        name.utf8.count <= nameBytesMax && (name.isEmpty || PrincipalConfiguration.isName(name))
    }

    /// As administrators write it.
    package var externalName: String { self == .guest ? PrincipalConfiguration.guestName : name }

    /// As paths of the administration port name it: `GUEST` is the guest.
    package init(_ kind: Kind, externalName: String) {
        self.init(
            kind,
            kind == .user && externalName == PrincipalConfiguration.guestName ? "" : externalName
        )
    }
}
