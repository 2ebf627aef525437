package import Bytes
internal import JSON
package import SyncWire

/// The body of a request that creates or replaces a user or a role.
package struct PrincipalUpdate: Equatable, Sendable {
    package var name: String?
    package var password: String?
    package var email: String?
    package var isDisabled: Bool?
    package var channels: [String]?
    package var roles: [String]?
    /// `all_channels` and `roles`, which clients return as they read them.
    package var derivedChannels: [String]?
    package var derivedRoles: [String]?

    package init() {}

    /// - Throws: `Refusal` 400 if `body` is no JSON object, or a member has another type.
    package init(parsing body: ByteView) throws(Refusal) {
        guard let tree = JSONValue.parse(body), tree.members != nil else {
            throw Refusal(400, "Bad JSON")
        }
        name = try Self.member("name", of: tree, \.string)
        password = try Self.member("password", of: tree, \.string)
        email = try Self.member("email", of: tree, \.string)
        isDisabled = try Self.member("disabled", of: tree, \.bool)
        channels = try Self.texts("admin_channels", of: tree)
        roles = try Self.texts("admin_roles", of: tree)
        derivedChannels = try Self.texts("all_channels", of: tree)
        derivedRoles = try Self.texts("roles", of: tree)
    }

    /// - Throws: `Refusal` 400 if the member is neither absent nor null, nor of the type of `value`.
    private static func member<Value>(
        _ name: String,
        of tree: JSONValue,
        _ value: (JSONValue) -> Value?
    ) throws(Refusal) -> Value? {
        guard let member = tree[name], !member.isNull else { return nil }
        guard let found = value(member) else {
            throw Refusal(400, "Invalid JSON: \(name) has the wrong type")
        }
        return found
    }

    /// - Throws: `Refusal` 400 if the member is no array of strings.
    static func texts(_ name: String, of tree: JSONValue) throws(Refusal) -> [String]? {
        try member(name, of: tree) { value in
            guard let elements = value.array else { return nil }
            let texts = elements.compactMap(\.string)
            return texts.count == elements.count ? texts : nil
        }
    }
}

/// Adds and removes grants of administrators, without the race of reading and replacing them.
///
/// `{"add": {"admin_channels": [...], "admin_roles": [...]}, "remove": {...}}`. Sync Gateway has no such
/// request: there, concurrent grants are lost (issue #2071).
package struct PrincipalPatch: Equatable, Sendable {
    package var addedChannels: [String] = []
    package var addedRoles: [String] = []
    package var removedChannels: [String] = []
    package var removedRoles: [String] = []

    package init() {}

    /// - Throws: `Refusal` 400 if `body` is no JSON object, or a member has another type.
    package init(parsing body: ByteView) throws(Refusal) {
        guard let tree = JSONValue.parse(body), tree.members != nil else {
            throw Refusal(400, "Bad JSON")
        }
        let added = tree["add"] ?? .null
        let removed = tree["remove"] ?? .null
        addedChannels = try PrincipalUpdate.texts("admin_channels", of: added) ?? []
        addedRoles = try PrincipalUpdate.texts("admin_roles", of: added) ?? []
        removedChannels = try PrincipalUpdate.texts("admin_channels", of: removed) ?? []
        removedRoles = try PrincipalUpdate.texts("admin_roles", of: removed) ?? []
    }
}
