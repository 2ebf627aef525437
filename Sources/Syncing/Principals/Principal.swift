package import Bytes

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
