import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary

/// Who may read and write extended attributes that begin with `_`.
@Suite struct SystemAttributeTests {
    private static let reading: Set<Role> = [
        .admin, .bucketFullAccess, .viewsAdmin, .dataDCPReader,
    ]
    private static let writing: Set<Role> = [.admin, .bucketFullAccess]
    private static let readsDocuments: Set<Role> = reading.union([.dataReader, .viewsReader])
    private static let writesDocuments: Set<Role> = writing.union([.dataWriter])

    /// A document with attributes, too large to be used under the lock if it `isLarge`.
    private static func document(isLarge: Bool) -> [UInt8] {
        let count = isLarge ? Limits.lockedTransformBytesMax : 1
        let filler = "\"\(String(repeating: "x", count: count))\""
        return [
            Ask.path(0xc8, 4, "_sync", "1"), Ask.path(0xc8, 4, "user", "2"),
            Ask.path(0x01, 0, "", filler),
        ].flatMap { $0 }
    }

    /// A client of a user with the role, beside a document `k`.
    private func open(_ role: Role, isLarge: Bool, in world: TestWorld) throws -> Client {
        try world.open("demo")
        world.admitAdministrator()
        world.admit("user", RoleGrant(role, bucket: role.isScoped ? "demo" : nil))
        let features = Ask.hello(Features.usual + [0x06])
        let owner = world.client(as: "Administrator", in: "demo")
        let stored =
            owner.ask(features)
            + owner.ask(
                Ask.on(0xd1, "k", Self.document(isLarge: isLarge), extras: [2])
            )
        #expect(stored.map(\.status) == [0, 0])
        let client = world.client(as: "user", in: "demo")
        #expect(client.ask(features).map(\.status) == [0])
        return client
    }

    @Test(arguments: Role.ofBuckets, [false, true])
    func roleReadsSystemAttributesOnlyWithTheirPrivilege(_ role: Role, _ isLarge: Bool) throws {
        let world = TestWorld()
        let client = try open(role, isLarge: isLarge, in: world)
        // The count needs a scan of the body, which defers a lookup of a large document.
        let paths = [
            Ask.path(0xc5, 4, "user"), Ask.path(0xc5, 4, "_sync"), Ask.path(0xc5, 4, "$XTOC"),
            Ask.path(0xc6, 0, "x"),
        ]
        let reply = try #require(
            client.ask(Ask.on(0xd0, "k", paths.flatMap { $0 })).first
        )
        guard Self.readsDocuments.contains(role) else {
            #expect(reply.status == 0x24)
            return
        }
        let mayRead = Self.reading.contains(role)
        let expected =
            mayRead ? ["2", "1", #"["_sync","user"]"#, "c1"] : ["2", "24", #"["user"]"#, "c1"]
        #expect(reply.lookupResults == expected)
        let single = Ask.on(0xc5, "k", Array("_sync".utf8), extras: [0, 5, 4])
        #expect(client.ask(single).map(\.status) == [mayRead ? 0 : 0x24])
    }

    @Test(arguments: Role.ofBuckets, [false, true])
    func roleWritesSystemAttributesOnlyWithTheirPrivilege(_ role: Role, _ isLarge: Bool) throws {
        let world = TestWorld()
        let client = try open(role, isLarge: isLarge, in: world)
        let paths = [Ask.path(0xc8, 4, "user", "3"), Ask.path(0xc8, 4, "_sync.a", "4")]
        let creating: [UInt8] = [1]
        let reply = try #require(
            client.ask(Ask.on(0xd1, "new", paths.flatMap { $0 }, extras: creating)).first
        )
        guard Self.writesDocuments.contains(role) else {
            #expect(reply.status == 0x24 && reply.value != [1, 0, 0x24])
            return
        }
        let mayWrite = Self.writing.contains(role)
        #expect(reply.status == (mayWrite ? 0 : 0xcc))
        #expect(reply.value == (mayWrite ? [] : [1, 0, 0x24]))
        let user = Ask.on(0xd1, "k", paths[0])
        #expect(client.ask(user).map(\.status) == [0])
        let single = Ask.on(0xc9, "k", Array("_sync".utf8), extras: [0, 5, 4])
        #expect(client.ask(single).map(\.status) == [mayWrite ? 0 : 0x24])
    }

    /// DCP and `*_WITH_META` show and store whole values: the privileges that they need come with
    /// those of system attributes, as in Couchbase Server.
    @Test func roleOfWholeVersionsHasThePrivilegesOfSystemAttributes() {
        for role in Role.ofBuckets {
            let privileges = Grants([RoleGrant(role, bucket: role.isScoped ? "demo" : nil)])
                .privileges(inBucket: "demo")
            if privileges.contains(.metaWrite) {
                #expect(privileges.contains(.systemXattrWrite), "\(role)")
            }
            if privileges.contains(.dcpProducer) {
                #expect(privileges.contains(.systemXattrRead), "\(role)")
            }
        }
    }
}
