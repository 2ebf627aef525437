import Bytes
import Credentials
import DataService
import TestWorld
import Vocabulary
import Wire

extension TestWorld {
    /// A user with the password "secret".
    func admit(
        _ user: String,
        password: String = "secret",
        salt: UInt8 = 7,
        _ roles: RoleGrant...
    ) {
        service.setCredentials(
            user: user,
            stored: TestWorld.keys(of: password, salt: salt),
            grants: Grants(roles)
        )
    }

    func remove(user: String) { service.setCredentials(user: user, stored: nil) }

    static func keys(of password: String, salt: UInt8 = 7) -> StoredCredentials {
        Array(password.utf8).withUnsafeBytes { password in
            StoredCredentials.derive(password: ByteView(password), iterations: 16, withSHA1: true) {
                _ in
                [UInt8](repeating: salt, count: StoredCredentials.saltByteCount)
            }
        }
    }

    /// A bucket that needs a login, with a password of its own unless it is empty.
    func open(_ name: String, password: String = "") throws {
        var settings = TestWorld.settings(name)
        settings.passwordless = .none
        if !password.isEmpty { settings.password = Array(TestWorld.keys(of: password).text.utf8) }
        try service.open(settings)
    }

    /// A client of a user with the password "secret", with the bucket selected.
    func client(as user: String, in bucket: String) -> Client {
        let client = Client(self)
        let statuses =
            client.ask(Ask.hello(Features.usual) + Ask.plain(user, "secret"))
            + client.ask(Ask.select(bucket))
        precondition(statuses.map(\.status) == [0, 0, 0], "\(user) was refused: \(statuses)")
        return client
    }
}

extension Ask {
    static func plain(_ user: String, _ password: String) -> [UInt8] {
        frame(.saslAuth, key: Array("PLAIN".utf8), value: [0] + Array("\(user)\0\(password)".utf8))
    }

    /// The first half of a login by SCRAM.
    static func scram(_ user: String) -> [UInt8] {
        frame(.saslAuth, key: Array("SCRAM-SHA512".utf8), value: Array("n,,n=\(user),r=nonce".utf8))
    }

    static func select(_ bucket: String) -> [UInt8] {
        frame(.selectBucket, key: Array(bucket.utf8))
    }

    /// DCP_OPEN as a producer.
    static let openProducer = frame(
        0x50,
        key: Array("stream".utf8),
        extras: big(UInt32(0)) + big(UInt32(1))
    )

    /// A stream from the start, without an end.
    static func stream(of key: String) -> [UInt8] {
        let numbers: [UInt64] = [0, (1 << 48) - 1, 0, 0, 0]
        return frame(
            0x53,
            extras: big(UInt64(0)) + numbers.flatMap { big($0) },
            vBucket: VBucketID(ofKey: Array(key.utf8), count: 64).number,
            opaque: 77
        )
    }
}

extension Client {
    /// Logs in by SCRAM; returns the last status.
    func logIn(_ mechanism: SCRAMMechanism, _ user: String, _ password: String) -> UInt16? {
        let client = SCRAMClient(mechanism, user: user, nonce: Array("a nonce of the test".utf8))
        let name = Array(mechanism.rawValue.utf8)
        let challenge = ask(frame(.saslAuth, key: name, value: client.clientFirst)).first
        guard let challenge, challenge.status == 0x21 else { return challenge?.status }
        let answer = challenge.value.withUnsafeBytes {
            client.answer(serverFirst: ByteView($0), password: SCRAMPassword(password))
        }
        guard case .send(let next, let proof) = answer else { return nil }
        guard let reply = ask(frame(.saslStep, key: name, value: proof)).first else { return nil }
        guard reply.status == 0 else { return reply.status }
        let isGenuine = reply.value.withUnsafeBytes { next.isGenuine(serverFinal: ByteView($0)) }
        return isGenuine ? 0 : nil
    }
}
