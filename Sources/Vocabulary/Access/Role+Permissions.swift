/// The permissions of the roles, as Couchbase Server 7 defines them (`menelaus_roles.erl`), without the
/// services that do not exist here.
///
/// A role is a list of patterns. A pattern matches the objects of one subtree. The first pattern that
/// matches an object decides; an object that matches none is not permitted.
extension Role {
    struct Pattern {
        enum Owner {
            /// The cluster's own objects. With an empty path: every object, also of buckets.
            case cluster
            /// The bucket that the role is granted for.
            case grantedBucket
            case anyBucket
        }

        enum Operations {
            case all
            case none
            case only([String])
        }

        let owner: Owner
        let path: [String]
        let operations: Operations

        init(_ owner: Owner, _ path: String..., allow operations: Operations) {
            self.owner = owner
            self.path = path
            self.operations = operations
        }
    }

    /// In the order of precedence.
    var patterns: [Pattern] {
        switch self {
        case .admin: [Pattern(.cluster, allow: .all)]
        case .readOnlyAdmin: Self.readOnlyAdminPatterns
        case .clusterAdmin: Self.clusterAdminPatterns
        case .bucketAdmin: Self.bucketAdminPatterns
        case .bucketFullAccess: Self.bucketFullAccessPatterns
        case .viewsAdmin: Self.viewsAdminPatterns
        case .viewsReader: Self.viewsReaderPatterns
        case .dataReader: Self.dataReaderPatterns
        case .dataWriter: Self.dataWriterPatterns
        case .dataDCPReader: Self.dataDCPReaderPatterns
        case .externalStatsReader:
            [Pattern(.cluster, "admin", "stats_export", allow: .only(["read"]))]
        }
    }

    private static let readOnlyAdminPatterns = [
        Pattern(.anyBucket, "password", allow: .none),
        Pattern(.anyBucket, "data", allow: .none),
        Pattern(.cluster, "admin", "security", allow: .only(["read"])),
        Pattern(.cluster, "admin", allow: .none),
        Pattern(.cluster, allow: .only(["read", "list"])),
    ]

    private static let clusterAdminPatterns = [
        Pattern(.cluster, "admin", "internal", allow: .none),
        Pattern(.cluster, "admin", "security", allow: .none),
        Pattern(.cluster, "admin", "diag", allow: .only(["read"])),
        Pattern(.anyBucket, "data", allow: .none),
        Pattern(.anyBucket, "views", allow: .none),
        Pattern(.anyBucket, "password", allow: .none),
        Pattern(.cluster, allow: .all),
    ]

    private static let bucketAdminPatterns = [
        Pattern(.grantedBucket, "data", allow: .none),
        Pattern(.grantedBucket, "views", allow: .none),
        Pattern(.grantedBucket, "password", allow: .none),
        Pattern(.grantedBucket, allow: .all),
        Pattern(.anyBucket, "settings", allow: .only(["read"])),
        Pattern(.anyBucket, allow: .none),
        Pattern(.cluster, "admin", allow: .none),
        Pattern(.cluster, allow: .only(["read"])),
    ]

    private static let bucketFullAccessPatterns = [
        Pattern(.grantedBucket, "data", allow: .all),
        Pattern(.grantedBucket, "views", allow: .all),
        Pattern(.grantedBucket, allow: .only(["read", "flush"])),
        Pattern(.cluster, "pools", allow: .only(["read"])),
    ]

    private static let viewsAdminPatterns = [
        Pattern(.grantedBucket, "views", allow: .all),
        Pattern(.grantedBucket, "data", allow: .only(["read"])),
        Pattern(.grantedBucket, "stats", allow: .only(["read"])),
        Pattern(.anyBucket, "settings", allow: .only(["read"])),
        Pattern(.anyBucket, allow: .none),
        Pattern(.cluster, "admin", allow: .none),
        Pattern(.cluster, allow: .only(["read"])),
    ]

    private static let viewsReaderPatterns = [
        Pattern(.grantedBucket, "views", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "docs", allow: .only(["read"])),
        Pattern(.cluster, "pools", allow: .only(["read"])),
    ]

    private static let dataReaderPatterns = [
        Pattern(.grantedBucket, "data", "docs", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "meta", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "xattr", allow: .only(["read"])),
        Pattern(.grantedBucket, "settings", allow: .only(["read"])),
        Pattern(.cluster, "pools", allow: .only(["read"])),
    ]

    private static let dataWriterPatterns = [
        Pattern(.grantedBucket, "data", "docs", allow: .only(["insert", "upsert", "delete"])),
        Pattern(.grantedBucket, "data", "xattr", allow: .only(["write"])),
        Pattern(.grantedBucket, "settings", allow: .only(["read"])),
        Pattern(.cluster, "pools", allow: .only(["read"])),
    ]

    private static let dataDCPReaderPatterns = [
        Pattern(.grantedBucket, "data", "docs", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "meta", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "dcp", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "dcpstream", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "sxattr", allow: .only(["read"])),
        Pattern(.grantedBucket, "data", "xattr", allow: .only(["read"])),
        Pattern(.grantedBucket, "settings", allow: .only(["read"])),
        Pattern(.grantedBucket, "collections", allow: .only(["read"])),
        Pattern(.cluster, "admin", "memcached", "idle", allow: .only(["write"])),
        Pattern(.cluster, "pools", allow: .only(["read"])),
    ]
}
