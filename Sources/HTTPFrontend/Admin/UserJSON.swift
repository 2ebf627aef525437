internal import Orchestration
internal import Vocabulary

/// Users and roles as JSON.
///
/// Passwords and their keys are never in it.
enum UserJSON {
    /// The domain of the users that the cluster itself has.
    static let domain = "local"

    static func user(_ user: LocalUser) -> JSONText {
        [
            "id": .string(user.id),
            "domain": .string(domain),
            "roles": .array(user.grants.map(grant)),
            "groups": [],
            "external_groups": [],
            "name": .string(user.name),
            "password_change_date": .string(
                PoolJSON.time(user.passwordChangedSeconds * 1_000)
            ),
        ]
    }

    private static func grant(_ grant: RoleGrant) -> JSONText {
        .object(
            [("role", .string(grant.role.rawValue))]
                + parameters(of: grant.role, bucket: grant.bucket)
                + [("origins", [["type": "user"]])]
        )
    }

    /// The roles that can be granted, with `*` for each parameter that they need.
    ///
    /// - Parameters:
    ///   - permission: Only grants that include it; nil for all roles. If it names a bucket, grants for
    ///     this bucket are listed too.
    ///   - state: The state whose buckets can be granted.
    /// - Returns: The list.
    static func roles(including permission: Permission?, in state: ClusterState) -> JSONText {
        var bucket: String?
        if case .bucket(let name) = permission?.owner {
            bucket = state.bucket(named: name)?.settings.name
        }
        let grants = Role.allCases.flatMap { role in
            guard role.isScoped, let bucket else { return [RoleGrant(role)] }
            return [RoleGrant(role), RoleGrant(role, bucket: bucket)]
        }
        return .array(grants.filter { permission.map($0.allows) ?? true }.map(role))
    }

    private static func role(_ grant: RoleGrant) -> JSONText {
        let role = grant.role
        var members: [(String, JSONText)] = [("role", .string(role.rawValue))]
        members += parameters(of: role, bucket: grant.bucket)
        members.append(("name", .string(role.title)))
        members.append(("desc", .string(role.description)))
        if isOfEveryEdition(role) { members.append(("ce", true)) }
        return .object(members)
    }

    private static func parameters(of role: Role, bucket: String?) -> [(String, JSONText)] {
        guard role.isScoped else { return [] }
        let name: [(String, JSONText)] = [("bucket_name", .string(bucket ?? "*"))]
        guard hasCollections(role) else { return name }
        return name + [("scope_name", "*"), ("collection_name", "*")]
    }

    /// Couchbase Server can grant these roles for collections, so clients expect the parameters.
    private static func hasCollections(_ role: Role) -> Bool {
        switch role {
        case .dataReader, .dataWriter, .dataDCPReader: true
        case .admin, .readOnlyAdmin, .clusterAdmin, .bucketAdmin, .bucketFullAccess, .viewsAdmin,
            .viewsReader, .externalStatsReader:
            false
        }
    }

    /// The roles that both editions of Couchbase Server have.
    private static func isOfEveryEdition(_ role: Role) -> Bool {
        [.admin, .readOnlyAdmin, .bucketFullAccess].contains(role)
    }
}
