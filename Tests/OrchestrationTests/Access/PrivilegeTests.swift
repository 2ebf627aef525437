import Testing
import Vocabulary

@Suite struct PrivilegeTests {
    private static let privileges: [(Role, Privileges)] = [
        (.admin, .all),
        (.readOnlyAdmin, [.stats]),
        (.clusterAdmin, [.stats, .flush]),
        (.bucketAdmin, [.stats, .flush]),
        (.bucketFullAccess, .all),
        (.viewsAdmin, [.read, .metaRead, .dcpProducer, .stats, .systemXattrRead]),
        (.viewsReader, [.read]),
        (.dataReader, [.read, .metaRead]),
        (.dataWriter, [.insert, .upsert, .delete]),
        (.dataDCPReader, [.read, .metaRead, .dcpProducer, .systemXattrRead]),
    ]

    @Test(arguments: privileges)
    func roleHasThePrivilegesOfItsPermissions(_ role: Role, _ privileges: Privileges) {
        let grants = Grants([RoleGrant(role, bucket: role.isScoped ? "demo" : nil)])
        #expect(grants.privileges(inBucket: "demo") == privileges)
        #expect(grants.privileges(inBucket: "other") == (role.isScoped ? [] : privileges))
    }

    @Test func privilegesOfSeveralRolesAreJoined() {
        let roles = [RoleGrant(.dataReader, bucket: "a"), RoleGrant(.dataWriter)]
        let grants = Grants(roles + roles)
        #expect(grants.roles == roles)
        #expect(
            grants.privileges(inBucket: "a") == [.read, .metaRead, .insert, .upsert, .delete]
        )
        #expect(grants.privileges(inBucket: "b") == [.insert, .upsert, .delete])
    }

    @Test func loginWithoutRolesHasNoPermissions() {
        #expect(Grants.none.privileges(inBucket: "a") == [])
        #expect(!Grants.none.allows(Permission(.cluster, ["pools"], operation: "read")))
    }
}
