package import Bytes
package import JSON
package import SyncWire

/// A user or a role as it is stored: what administrators gave it, and what it had.
///
/// Grants of documents are not in it, but in the documents (`DocumentGrants`). `Access` is the union.
///
/// - Of a role, email, password and roles are empty.
package struct Principal: Hashable, Sendable, ExtensibleFields {
    package private(set) var key = PrincipalKey.guest
    /// The sequence of its last change by an administrator: the sequence of its row in feeds.
    package var sequence: UInt64 = 0
    /// The channels that administrators gave (`admin_channels`).
    package var channels = GrantSet<ChannelName>()
    /// The roles that administrators gave (`admin_roles`).
    package var roles = GrantSet<String>()
    package var email = ""
    package var isDisabled = false
    /// Opaque to this module; empty if the only password is the empty one.
    package var credentials: [UInt8] = []
    /// The sequence at which the password was set: sessions of an earlier one are invalid.
    package var passwordStamp: UInt64 = 0
    package private(set) var channelHistory = GrantHistory<ChannelName>()
    package private(set) var roleHistory = GrantHistory<String>()

    package init() {}

    package init(_ key: PrincipalKey) { self.key = key }

    /// The guest of a database without a stored one: disabled and without channels.
    package static var defaultGuest: Principal {
        var guest = Principal(.guest)
        guest.isDisabled = true
        return guest
    }

    /// - Throws: `CodingFailure` if the bytes end, or a field is invalid.
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var kind = key.kind
        var name = key.name
        try coder.choice(&kind, "kind")
        try coder.field(&name, "name")
        key = PrincipalKey(kind, name)
        try coder.field(&sequence, "sequence")
        try coder.field(&channels, "channels")
        try coder.field(&roles, "roles")
        try coder.field(&email, "email")
        try coder.field(&isDisabled, "whether disabled")
        try coder.field(&credentials, "credentials")
        try coder.field(&passwordStamp, "stamp of the password")
        try coder.field(&channelHistory, "history of channels")
        try coder.field(&roleHistory, "history of roles")
    }

    /// Records what the principal lost between two accesses, because a document or an administrator no
    /// longer gives it.
    ///
    /// `sequence` is that of the document or principal which changed. A second call with it adds nothing.
    package mutating func recordLosses(from old: Access, to new: Access, at sequence: UInt64) {
        channelHistory.record(old.channels.grants(missingIn: new.channels), end: sequence)
        roleHistory.record(old.roles.grants(missingIn: new.roles), end: sequence)
    }
}

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

extension Principal {
    /// Writes what the administration port shows: never the password.
    ///
    /// Members have the order of Sync Gateway's answers in the dialect.
    package func write(to writer: inout JSONWriter, access: Access, dialect: GatewayDialect) {
        writer.object { writer in
            writer.member("name", key.externalName)
            Self.write("admin_channels", channels.names.map(\.description), to: &writer)
            let all = access.allChannels.names.map(\.description)
            if dialect == .first { Self.write("all_channels", all, to: &writer) }
            if key.kind == .user {
                if !email.isEmpty || dialect == .third { writer.member("email", email) }
                if isDisabled || dialect == .third { writer.member("disabled", isDisabled) }
                Self.write("admin_roles", roles.names, to: &writer)
            }
            if dialect == .third { Self.write("all_channels", all, to: &writer) }
            Self.write("roles", access.roles.names, to: &writer)
        }
    }

    /// Writes the answer of `_session`: the name is null for the guest and without a user.
    package static func writeSession(
        of user: Principal?,
        access: Access?,
        oneTimeID: String? = nil,
        to writer: inout JSONWriter
    ) {
        writer.object { writer in
            writer.array("authentication_handlers") { writer in
                writer.value("default")
                writer.value("cookie")
            }
            writer.member("ok", true)
            if let oneTimeID { writer.member("one_time_session_id", oneTimeID) }
            writer.object("userCtx") { writer in
                writer.object("channels") { writer in
                    for grant in access?.channels.grants ?? [] {
                        writer.member(grant.name.description, grant.sequence)
                    }
                }
                writer.name("name")
                if let user, user.key != .guest {
                    writer.value(user.key.name)
                } else {
                    writer.null()
                }
            }
        }
    }

    private static func write(_ name: String, _ texts: [String], to writer: inout JSONWriter) {
        guard !texts.isEmpty else { return }
        writer.array(name) { writer in
            for text in texts { writer.value(text) }
        }
    }
}
