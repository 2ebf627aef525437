import Testing
import Vocabulary

@Suite struct RoleTests {
    @Test(arguments: [
        ("admin", RoleGrant(.admin)),
        ("ro_admin", RoleGrant(.readOnlyAdmin)),
        ("data_reader[b]", RoleGrant(.dataReader, bucket: "b")),
        ("data_dcp_reader[*]", RoleGrant(.dataDCPReader)),
        ("bucket_admin[a.b-c%d]", RoleGrant(.bucketAdmin, bucket: "a.b-c%d")),
    ])
    func grantIsParsedAndWrittenAgain(_ text: String, _ grant: RoleGrant) throws {
        let parsed = try RoleGrant(parsing: text)
        #expect(parsed == grant)
        #expect(grant.text == text)
    }

    @Test(arguments: [
        ("views_admin[b:*:*]", "views_admin[b]"), ("data_writer[b:*]", "data_writer[b]"),
        ("data_writer[*:*:*]", "data_writer[*]"),
    ])
    func everyScopeAndCollectionStandsForTheBucket(_ text: String, _ short: String) throws {
        let grant = try RoleGrant(parsing: text)
        #expect(grant.text == short)
    }

    @Test(arguments: [
        "", "root", "Admin", "admin[b]", "admin[*]", "cluster_admin[]", "data_reader",
        "data_reader[]",
        "data_reader[b", "data_reader[b]x", "data_reader[b][c]", "data_reader[:*:*]",
        "data_reader[b:*:*:*]", "data_reader[b:]", "[b]", "query_select[b]",
    ])
    func malformedGrantIsRefused(_ text: String) {
        #expect(throws: RoleGrant.TextError.malformed) { try RoleGrant(parsing: text) }
    }

    @Test(arguments: ["data_reader[b:s:c]", "data_reader[b:s]", "bucket_admin[b:s:*]"])
    func grantForCollectionsIsRefused(_ text: String) {
        #expect(throws: RoleGrant.TextError.collections) { try RoleGrant(parsing: text) }
    }

    /// Each row: a permission, and the roles of `demo` that permit it.
    @Test(arguments: [
        (
            "cluster.bucket[demo].data.docs!read",
            "admin bucket_full_access data_dcp_reader data_reader views_admin views_reader"
        ),
        ("cluster.bucket[demo].data.docs!upsert", "admin bucket_full_access data_writer"),
        ("cluster.bucket[demo].data.docs!delete", "admin bucket_full_access data_writer"),
        (
            "cluster.bucket[demo].data.meta!read",
            "admin bucket_full_access data_dcp_reader data_reader views_admin"
        ),
        ("cluster.bucket[demo].data.meta!write", "admin bucket_full_access"),
        (
            "cluster.bucket[demo].data.dcp!read",
            "admin bucket_full_access data_dcp_reader views_admin"
        ),
        (
            "cluster.bucket[demo].stats!read",
            "admin bucket_admin bucket_full_access cluster_admin ro_admin views_admin"
        ),
        (
            "cluster.bucket[demo].views!read",
            "admin bucket_full_access ro_admin views_admin views_reader"
        ),
        ("cluster.bucket[demo].views!write", "admin bucket_full_access views_admin"),
        (
            "cluster.bucket[demo].settings!read",
            """
            admin bucket_admin bucket_full_access cluster_admin data_dcp_reader data_reader \
            data_writer ro_admin views_admin
            """
        ),
        ("cluster.bucket[demo].settings!write", "admin bucket_admin cluster_admin"),
        ("cluster.bucket[demo]!flush", "admin bucket_admin bucket_full_access cluster_admin"),
        ("cluster.bucket[demo]!delete", "admin bucket_admin cluster_admin"),
        ("cluster.bucket[demo].password!read", "admin bucket_full_access"),
        ("cluster.bucket[other].data.docs!read", "admin"),
        ("cluster.bucket[other].views!read", "admin ro_admin"),
        (
            "cluster.bucket[other].settings!read",
            "admin bucket_admin cluster_admin ro_admin views_admin"
        ),
        (
            "cluster.bucket[.].data.docs!read",
            "admin bucket_full_access data_dcp_reader data_reader views_admin views_reader"
        ),
        ("cluster.bucket[*].data.docs!read", "admin"),
        ("cluster.buckets!create", "admin cluster_admin"),
        (
            "cluster.pools!read",
            """
            admin bucket_admin bucket_full_access cluster_admin data_dcp_reader data_reader \
            data_writer ro_admin views_admin views_reader
            """
        ),
        ("cluster.pools!write", "admin cluster_admin"),
        ("cluster.settings!read", "admin bucket_admin cluster_admin ro_admin views_admin"),
        ("cluster.settings!write", "admin cluster_admin"),
        ("cluster.tasks!read", "admin bucket_admin cluster_admin ro_admin views_admin"),
        ("cluster.admin.security!read", "admin ro_admin"),
        ("cluster.admin.security!write", "admin"),
        ("cluster.admin.settings!read", "admin cluster_admin"),
        ("cluster.admin.stats_export!read", "admin cluster_admin external_stats_reader"),
        ("cluster.admin.diag!write", "admin"),
        ("cluster!admin", "admin cluster_admin"),
    ])
    func roleDecidesAsCouchbaseServerDoes(_ permission: String, _ roles: String) throws {
        let wanted = try #require(Permission(permission))
        let allowing = Role.allCases.filter {
            RoleGrant($0, bucket: $0.isScoped ? "demo" : nil).allows(wanted)
        }
        #expect(allowing.map(\.rawValue).sorted().joined(separator: " ") == roles)
    }

    @Test func roleForEveryBucketHoldsForEachOne() throws {
        let grant = RoleGrant(.dataReader)
        for text in ["bucket[b]", "bucket[.]", "bucket[*]"] {
            let permission = try #require(Permission("cluster.\(text).data.docs!read"))
            #expect(grant.allows(permission))
        }
    }
}
