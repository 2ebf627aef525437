package import Bytes

/// The roles of one user: an operation is permitted if one of them permits it.
package struct Grants: Hashable, Sendable {
    /// Without duplicates, in the order of their texts.
    package let roles: [RoleGrant]

    package init(_ roles: some Sequence<RoleGrant>) {
        self.roles = Set(roles).sorted { $0.text < $1.text }
    }

    /// The administrator's.
    package static let all = Grants(CollectionOfOne(RoleGrant(.admin)))
    package static let none = Grants(EmptyCollection())

    package func allows(_ permission: Permission) -> Bool {
        roles.contains { $0.allows(permission) }
    }

    /// The privileges of a connection of this user in one bucket over the memcached protocol.
    package func privileges(inBucket name: String) -> Privileges {
        var found: Privileges = []
        for (privilege, path, operation) in Privileges.permissions
        where allows(Permission(.bucket(name), path, operation: operation)) {
            found.insert(privilege)
        }
        return found
    }
}

/// Only grants in the order of `roles` and without duplicates are valid: equal grants have one
/// encoding.
extension Grants: Coded {
    package func write(to writer: inout FieldWriter) { roles.write(to: &writer) }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let grants: [RoleGrant] = try reader.payload()
        self.init(grants)
        guard roles == grants else { throw reader.failure(.invalid) }
    }
}
