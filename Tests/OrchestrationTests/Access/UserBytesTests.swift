import Orchestration
import Testing
import Vocabulary

/// The bytes of local users in logs and states, as the first release with them wrote them.
@Suite struct UserBytesTests {
    private static let head = "02 01 0000000000000001 01"
    private static let ann = "03 616e6e 05 416e6e2042"
    private static let roles = "02 0b 646174615f726561646572 01 62 08 726f5f61646d696e 00"
    private static let keys = "02 0908 ac02"

    private static let password = UserChange.Password(credentials: [9, 8], changedSeconds: 300)
    private static let change = UserChange(
        id: "ann",
        name: "Ann B",
        roles: Grants([RoleGrant(.dataReader, bucket: "b"), RoleGrant(.readOnlyAdmin)]),
        password: password
    )

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.filter { $0 != " " && $0 != "\n" }.map { UInt8($0.hexDigitValue ?? 0) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    private static func envelope(_ command: ClusterCommand) -> ClusterEnvelope {
        ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
    }

    @Test func recordedCommandsAreReadAndWritten() {
        var kept = Self.change
        kept.password = nil
        let recordings: [(command: ClusterCommand, hex: String)] = [
            (.putUser(Self.change), "\(Self.head) 0a \(Self.ann) \(Self.roles) 01 \(Self.keys)"),
            (.putUser(kept), "\(Self.head) 0a \(Self.ann) \(Self.roles) 00"),
            (.deleteUser(id: "ann"), "\(Self.head) 0b 03 616e6e"),
            (
                .changePassword(PasswordChange(id: "ann", password: Self.password, was: [7])),
                "\(Self.head) 0c 03 616e6e \(Self.keys) 01 07"
            ),
        ]
        for (command, hex) in recordings {
            let envelope = Self.envelope(command)
            #expect(envelope.encoded() == Self.bytes(hex))
            #expect(ClusterEnvelope.decode(Self.bytes(hex)) == envelope)
        }
    }

    /// No two encodings mean the same user, so that equal states have equal bytes.
    @Test(arguments: [
        // A role that does not exist.
        "01 0b 646174615f726561646573 01 62",
        // A role of the cluster with a bucket.
        "01 08 726f5f61646d696e 01 62",
        // Roles out of order, and a role twice.
        "02 08 726f5f61646d696e 00 0b 646174615f726561646572 01 62",
        "02 08 726f5f61646d696e 00 08 726f5f61646d696e 00",
    ])
    func otherRolesAreDamage(_ roles: String) {
        let hex = "\(Self.head) 0a \(Self.ann) \(roles) 00"
        #expect(ClusterEnvelope.decode(Self.bytes(hex)) == nil)
    }

    @Test func commandsAreReadOnlyAsAWhole() {
        let password = PasswordChange(id: "\u{e9}", password: Self.password, was: [7])
        let commands: [ClusterCommand] = [
            .putUser(Self.change), .deleteUser(id: "ann"), .changePassword(password),
        ]
        for command in commands {
            let envelope = Self.envelope(command)
            let bytes = envelope.encoded()
            #expect(ClusterEnvelope.decode(bytes) == envelope)
            #expect(ClusterEnvelope.decode(bytes + [0]) == nil)
            for length in 0..<bytes.count {
                #expect(ClusterEnvelope.decode(Array(bytes.prefix(length))) == nil)
            }
        }
    }

    /// One node of level 4 with bucket `b`, its documents `dev_x` and `x`, port 8092 for views, and
    /// the user `ann`: schema 9.
    private static let schemaNine =
        """
        444956414e434c5500090a0109000000000000000702636300010d41646d696e6973747261746f72
        03010203808080f4031e48e80701050100780400020101027531093132372e302e302e3123322333
        0000000023340747726f7570203101026b76020000010747726f75702031013001016206622d7575
        6964076d656d626173650976616c75654f6e6c798080803200010001000770617373697665090000
        0100100a00010100000000000b00000000000000000000000000ac02010001000004010004080205
        6465765f7801027b7d0178020c7b227669657773223a7b7d7d1f9c882788278827041e000103616e
        6e05416e6e2042020b646174615f726561646572016208726f5f61646d696e00020908ac02285c10
        f7
        """

    private static func world() -> ClusterWorld {
        var world = ClusterWorld.withUsers()
        for (name, text) in [("x", "{}"), ("dev_x", "{}"), ("x", #"{"views":{}}"#)] {
            let body = Array(text.utf8)
            world.apply(.putDesignDocument(.init(bucket: "b-uuid", name: name, body: body)))
        }
        world.apply(.setViewsPort(.init(number: n(1), port: 8_092)))
        world.apply(.putUser(change))
        return world
    }

    @Test func recordedStateIsReadAndWritten() {
        let state = Self.world().state
        let encoded = state.encoded()
        let digits = encoded.map { String($0, radix: 16) }.map { $0.count < 2 ? "0" + $0 : $0 }
        #expect(encoded == Self.bytes(Self.schemaNine), Comment(rawValue: digits.joined()))
        guard case .state(let decoded) = ClusterState.decode(Self.bytes(Self.schemaNine)) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == state)
        #expect(decoded.user("ann")?.grants == Self.change.roles.roles)
    }

    /// A state of schema 8 continues with users once the level permits them.
    @Test func stateOfSchemaEightGetsUsersLater() {
        let before = ClusterWorld.withUsers(level: .designDocuments).state
        #expect(Array(before.encoded().prefix(10).suffix(2)) == [0, 8])
        guard case .state(let state) = ClusterState.decode(before.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(state == before && state.users.isEmpty)
        var world = ClusterWorld()
        (world.state, world.index) = (state, state.index)
        world.raise(to: .localUsers)
        #expect(Array(world.state.encoded().prefix(10).suffix(2)) == [0, 9])
        #expect(world.apply(.putUser(Self.change)) == .applied([.usersChanged(["ann"])]))
    }
}
