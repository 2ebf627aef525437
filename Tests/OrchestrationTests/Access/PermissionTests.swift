import Testing
import Vocabulary

@Suite struct PermissionTests {
    @Test(arguments: [
        ("cluster!admin", Permission(.cluster, [], operation: "admin")),
        ("cluster.pools!read", Permission(.cluster, ["pools"], operation: "read")),
        (
            "cluster.admin.stats_export!read",
            Permission(.cluster, ["admin", "stats_export"], operation: "read")
        ),
        ("cluster.bucket[b]!flush", Permission(.bucket("b"), [], operation: "flush")),
        (
            "cluster.bucket[a.b%c].data.docs!read",
            Permission(.bucket("a.b%c"), ["data", "docs"], operation: "read")
        ),
        (
            "cluster.bucket[.].settings!read",
            Permission(.anyBucket, ["settings"], operation: "read")
        ),
        (
            "cluster.bucket[*].settings!write",
            Permission(.everyBucket, ["settings"], operation: "write")
        ),
        ("cluster.bucket[]!read", Permission(.bucket(""), [], operation: "read")),
        ("cluster.buckets!create", Permission(.cluster, ["buckets"], operation: "create")),
        ("cluster.x[y].z!read", Permission(.cluster, ["x[y]", "z"], operation: "read")),
    ])
    func textIsParsedAndWrittenAgain(_ text: String, _ permission: Permission) {
        #expect(Permission(text) == permission)
        #expect(permission.text == text)
    }

    @Test func collectionStandsForItsBucket() {
        let permission = Permission(.bucket("b"), ["data", "docs"], operation: "read")
        #expect(Permission("cluster.collection[b:s:c].data.docs!read") == permission)
        #expect(Permission("cluster.scope[b:s].data.docs!read") == permission)
    }

    @Test(arguments: [
        "", "cluster", "cluster!", "cluster.!read", "cluster.pools", "clusters!read",
        "Cluster!read",
        "cluster.bucket[b!read", "cluster.bucket]b[!read", "cluster.bucket[[b]]!read",
        "cluster.bucket[b]x!read", "cluster.pools!Read", "cluster.pools!read!read", "pools!read",
        "cluster .pools!read", "cluster..pools!read",
    ])
    func malformedTextIsRefused(_ text: String) {
        #expect(Permission(text) == nil)
    }
}
