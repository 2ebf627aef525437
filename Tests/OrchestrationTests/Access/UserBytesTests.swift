import Bytes
import Orchestration
import Testing
import Vocabulary

/// The bytes of commands about local users in logs.
@Suite struct UserBytesTests {
    private static let head = "01 0000000000000001 01 04 726f6f74"
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
        ClusterEnvelope(proposer: n(1), boot: 1, number: 1, login: "root", command: command)
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
            #expect(envelope.encoded == Self.bytes(hex))
            #expect((try? ClusterEnvelope(decoding: Self.bytes(hex))) == envelope)
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
    func invalidRolesOfStoredUserAreRefused(_ roles: String) {
        let hex = "\(Self.head) 0a \(Self.ann) \(roles) 00"
        #expect((try? ClusterEnvelope(decoding: Self.bytes(hex))) == nil)
    }

    @Test func commandsAreReadOnlyAsAWhole() {
        let password = PasswordChange(id: "\u{e9}", password: Self.password, was: [7])
        let commands: [ClusterCommand] = [
            .putUser(Self.change), .deleteUser(id: "ann"), .changePassword(password),
        ]
        for command in commands {
            let envelope = Self.envelope(command)
            let bytes = envelope.encoded
            #expect((try? ClusterEnvelope(decoding: bytes)) == envelope)
            #expect((try? ClusterEnvelope(decoding: bytes + [0])) == nil)
            for length in 0..<bytes.count {
                #expect((try? ClusterEnvelope(decoding: Array(bytes.prefix(length)))) == nil)
            }
        }
    }
}
