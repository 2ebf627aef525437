import Bytes
import Orchestration
import TestWorld
import Vocabulary

/// Roles, permissions and forms of users as clients send them: any text is parsed or refused, and
/// what is parsed keeps its meaning.
///
/// The input is lines. The first is a permission, the others are roles; or, if the first one begins
/// with `user `, it has a user's id, and the others are the fields of its form.
///
/// - What is parsed has a text that is parsed to the same value.
/// - A list of roles permits what one of them permits, and a role for one bucket permits nothing in
///   another.
/// - A form without errors makes a user, whose command and state survive their encoding.
enum AccessTarget {
    static func run(_ view: ByteView) {
        let lines = view.text.split(separator: "\n", omittingEmptySubsequences: false)
        if lines[0].hasPrefix("user ") {
            return UserFormCheck.run(id: String(lines[0].dropFirst(5)), lines.dropFirst())
        }
        let permission = Permission(String(lines[0]))
        if let permission {
            require(
                Permission(permission.text) == permission,
                "\(permission) is not parsed from its text \(permission.text)"
            )
        }
        let roles = lines.dropFirst().prefix(8).compactMap { role(String($0)) }
        let grants = Grants(roles)
        require(Set(grants.roles) == Set(roles), "a list of roles has all of them")
        if let permission { check(grants, roles, permission) }
        checkBuckets(grants, roles)
    }

    private static func role(_ text: String) -> RoleGrant? {
        guard let role = try? RoleGrant(parsing: text) else { return nil }
        require(role.role.isScoped || role.bucket == nil, "\(text) has a bucket")
        require(role.bucket != "" && role.bucket != "*", "\(text) names no bucket")
        let again = try? RoleGrant(parsing: role.text)
        require(again == role, "\(role) is not parsed from its text \(role.text)")
        return role
    }

    private static func check(_ grants: Grants, _ roles: [RoleGrant], _ permission: Permission) {
        require(
            grants.allows(permission) == roles.contains { $0.allows(permission) },
            "\(permission.text) is permitted by one role, or by none"
        )
        require(Grants.all.allows(permission), "an administrator is refused \(permission.text)")
        require(!Grants.none.allows(permission), "\(permission.text) needs no role")
        guard case .bucket(let name) = permission.owner else { return }
        // What is permitted in one bucket is permitted in some bucket.
        let some = Permission(.anyBucket, permission.path, operation: permission.operation)
        require(
            !grants.allows(permission) || grants.allows(some),
            "\(permission.text) is permitted, and \(some.text) is not"
        )
        let every = Permission(.everyBucket, permission.path, operation: permission.operation)
        require(
            !grants.allows(every) || grants.allows(permission),
            "\(every.text) is permitted, and \(permission.text) is not"
        )
        require(!name.isEmpty || permission.text.contains("[]"), "an empty name is written")
    }

    private static func checkBuckets(_ grants: Grants, _ roles: [RoleGrant]) {
        let other = "no-such-bucket"
        let privileges = grants.privileges(inBucket: other)
        require(privileges.isSubset(of: .all), "there are no other privileges")
        let areElsewhere = roles.allSatisfy { role in
            role.bucket.map { $0 != other } ?? false
        }
        require(
            !areElsewhere || privileges.isEmpty,
            "roles for other buckets have \(privileges) in \(other)"
        )
    }
}
