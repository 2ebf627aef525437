import DataService
import TestWorld
import Testing
import Vocabulary

/// Every opcode with every role, and without a login.
///
/// The expected roles are written out here, not computed from the product.
@Suite struct CommandPrivilegeTests {
    struct Row: Sendable {
        let opcodes: [UInt8]
        var key: [UInt8] = []
        var extras: Int = 0
        var value: [UInt8] = []
        let roles: Set<Role>

        func request(_ opcode: UInt8) -> [UInt8] {
            frame(
                opcode,
                key: key,
                value: value,
                extras: [UInt8](repeating: 0, count: extras),
                opaque: 5
            )
        }
    }

    private static let key: [UInt8] = [0x6b]
    private static let reading: Set<Role> = [
        .admin, .bucketFullAccess, .viewsAdmin, .viewsReader, .dataReader, .dataDCPReader,
    ]
    private static let writing: Set<Role> = [.admin, .bucketFullAccess, .dataWriter]
    private static let both: Set<Role> = [.admin, .bucketFullAccess]
    private static let metadata: Set<Role> = [
        .admin, .bucketFullAccess, .viewsAdmin, .dataReader, .dataDCPReader,
    ]
    private static let changes: Set<Role> = [
        .admin, .bucketFullAccess, .viewsAdmin, .dataDCPReader,
    ]
    private static let statistics: Set<Role> = [
        .admin, .readOnlyAdmin, .clusterAdmin, .bucketAdmin, .bucketFullAccess, .viewsAdmin,
    ]
    private static let flushing: Set<Role> = [
        .admin, .clusterAdmin, .bucketAdmin, .bucketFullAccess,
    ]
    private static let every = Set(Role.allCases)

    /// Commands that need a selected bucket.
    static let bucketRows = [
        Row(opcodes: [0x00, 0x09, 0x0c, 0x0d], key: key, roles: reading),
        Row(opcodes: [0x83, 0x94, 0x95], key: key, roles: reading),
        Row(opcodes: [0x96, 0xb6], roles: reading),
        Row(opcodes: [0x01, 0x03, 0x11, 0x13], key: key, extras: 8, roles: writing),
        Row(opcodes: [0x02, 0x12], key: key, extras: 8, roles: writing),
        Row(opcodes: [0x0e, 0x0f, 0x19, 0x1a], key: key, value: [1], roles: writing),
        Row(opcodes: [0x1c], key: key, extras: 4, roles: writing),
        Row(opcodes: [0x04, 0x14], key: key, roles: writing),
        Row(opcodes: [0x05, 0x06, 0x15, 0x16], key: key, extras: 20, roles: both),
        Row(opcodes: [0x1d, 0x1e, 0x23, 0x24], key: key, extras: 4, roles: both),
        Row(opcodes: [0xa0, 0xa1], key: key, roles: metadata),
        Row(opcodes: [0xa2, 0xa3, 0xa4, 0xa5, 0xa8, 0xa9], key: key, extras: 24, roles: both),
        Row(opcodes: [0x91, 0x92], value: [0, 0, 0, 1, 0x6b], roles: metadata),
        Row(opcodes: [0x48], roles: metadata),
        Row(opcodes: [0x40], roles: changes),
        Row(opcodes: [0x50], key: key, extras: 8, roles: changes),
        Row(opcodes: [0x51], extras: 4, roles: changes),
        Row(opcodes: [0x52, 0x54], roles: changes),
        Row(opcodes: [0x53], extras: 48, roles: changes),
        Row(opcodes: [0x10], roles: statistics),
        Row(opcodes: [0x08, 0x18], roles: flushing),
        Row(
            opcodes: [0xc5, 0xc6, 0xd2],
            key: key,
            extras: 3,
            value: [0x61],
            roles: reading
        ),
        Row(opcodes: [0xd0], key: key, value: [0xc5, 0, 0, 1, 0x61], roles: reading),
        Row(
            opcodes: [0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xd3],
            key: key,
            extras: 3,
            value: [0x61],
            roles: writing
        ),
        Row(opcodes: [0xcf], key: key, extras: 3, value: [0x61], roles: both),
        Row(opcodes: [0xd1], key: key, value: [0xc9, 0, 0, 1, 0, 0, 0, 0, 0x61], roles: writing),
        // They act on a producer that this connection has not opened.
        Row(opcodes: [0x5c], roles: every),
        Row(opcodes: [0x5d], extras: 4, roles: every),
        Row(opcodes: [0x5e], key: key, roles: every),
    ]

    /// Commands that need a login.
    static let loginRows = [
        Row(opcodes: [0x1b], extras: 4, roles: every),
        Row(opcodes: [0x89], key: Array("demo".utf8), roles: every),
        Row(opcodes: [0xb5, 0xba], roles: every),
    ]

    /// Commands of every connection.
    static let openRows = [
        Row(opcodes: [0x07, 0x0a, 0x0b, 0x17, 0x20], roles: every),
        Row(opcodes: [0x1f], roles: every),
        Row(opcodes: [0x21, 0x22], key: Array("PLAIN".utf8), roles: every),
        Row(opcodes: [0xfe], value: [0, 1], roles: every),
    ]

    private func isRefused(_ request: [UInt8], by client: Client) -> Bool {
        client.send(request)
        client.settle()
        // TAP_CONNECT is followed by the server's requests.
        return client.messages().contains {
            $0.magic == 0x81 && $0.opaque == 5 && $0.status == 0x24
        }
    }

    @Test(arguments: Role.ofBuckets)
    func roleExecutesItsCommandsOnly(_ role: Role) throws {
        let world = TestWorld()
        try world.open("demo")
        world.admit("user", RoleGrant(role, bucket: role.isScoped ? "demo" : nil))
        for row in Self.bucketRows + Self.loginRows + Self.openRows {
            for opcode in row.opcodes {
                let client = world.client(as: "user", in: "demo")
                let isRefused = isRefused(row.request(opcode), by: client)
                #expect(isRefused == !row.roles.contains(role), "opcode \(opcode)")
                client.hangUp()
            }
        }
    }

    @Test func connectionWithoutLoginExecutesOpenCommandsOnly() throws {
        let world = TestWorld()
        try world.open("demo")
        for (rows, isOpen) in [
            (Self.bucketRows, false), (Self.loginRows, false), (Self.openRows, true),
        ] {
            for row in rows {
                for opcode in row.opcodes {
                    let isRefused = isRefused(row.request(opcode), by: Client(world))
                    #expect(isRefused != isOpen, "opcode \(opcode)")
                }
            }
        }
    }

    /// A new opcode needs a row here.
    @Test func otherOpcodesAreUnknown() throws {
        let world = TestWorld()
        try world.open("demo")
        world.admitAdministrator()
        let client = world.client(as: "Administrator", in: "demo")
        let rows = Self.bucketRows + Self.loginRows + Self.openRows
        let known = Set(rows.flatMap(\.opcodes))
        for opcode in UInt8.min...UInt8.max where !known.contains(opcode) {
            #expect(client.ask(frame(opcode)).map(\.status) == [0x81], "opcode \(opcode)")
        }
    }

    @Test(arguments: Role.ofBuckets)
    func roleOfOneBucketSelectsNoOther(_ role: Role) throws {
        let world = TestWorld()
        try world.open("demo")
        try world.open("other")
        world.admit("user", RoleGrant(role, bucket: role.isScoped ? "demo" : nil))
        let client = world.client(as: "user", in: "demo")
        let status: UInt16 = role.isScoped ? 0x24 : 0
        #expect(client.ask(Ask.select("other")).map(\.status) == [status])
        #expect(client.ask(Ask.select("none")).map(\.status) == [0x24])
        world.admit("everywhere", RoleGrant(role))
        _ = world.client(as: "everywhere", in: "other")
    }

    @Test func refusalNamesPrivilegeUserAndBucket() throws {
        let world = TestWorld()
        try world.open("demo")
        world.admit("reader", RoleGrant(.dataReader, bucket: "demo"))
        let client = world.client(as: "reader", in: "demo")
        let text = client.ask(Ask.counter(0x05, "k", delta: 1)).first?.text ?? ""
        for part in ["increment", "Read and Upsert", "reader", "demo"] {
            #expect(text.contains(part), "\(text)")
        }
    }
}

extension Role {
    /// The roles that may select a bucket: all but the reader of metrics.
    static let ofBuckets = allCases.filter { $0 != .externalStatsReader }
}
