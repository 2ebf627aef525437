package import Bytes

/// The stored form of a user's password: enough to verify it, not enough to log in elsewhere with it.
///
/// For each mechanism a salt and two keys (RFC 5802, section 3). They are derived once, when the
/// password is set. A log-in by SCRAM then costs the server four hashes.
package struct StoredCredentials: Equatable, Sendable {
    package struct Verifier: Equatable, Sendable {
        package let salt: [UInt8]
        package let iterations: Int
        /// H(ClientKey): verifies that a client knows the password.
        package let storedKey: [UInt8]
        /// Proves to the client that the server has the password's keys.
        package let serverKey: [UInt8]
    }

    /// Size of a salt in bytes.
    package static let saltByteCount = 16

    package let sha512: Verifier
    package let sha256: Verifier
    /// Nil if SCRAM-SHA1 was not offered when the password was set.
    package let sha1: Verifier?

    /// Derives credentials for a new password; takes some hundred milliseconds by default.
    ///
    /// - Parameters:
    ///   - password: The bytes that clients will send: not normalised, since clients do not either.
    ///   - iterations: Rounds of PBKDF2.
    ///   - withSHA1: Whether to derive keys for SCRAM-SHA1.
    ///   - salt: Called once per mechanism for `saltByteCount` fresh random bytes.
    /// - Returns: What to store.
    package static func derive(
        password: ByteView,
        iterations: Int,
        withSHA1: Bool = false,
        salt: (SCRAMMechanism) -> [UInt8]
    ) -> StoredCredentials {
        func verifier(_ mechanism: SCRAMMechanism) -> Verifier {
            Verifier(mechanism, password: password.bytes, salt: salt(mechanism), iterations)
        }
        return StoredCredentials(
            sha512: verifier(.sha512),
            sha256: verifier(.sha256),
            sha1: withSHA1 ? verifier(.sha1) : nil
        )
    }

    /// Nil if the password has no keys for the mechanism.
    package func verifier(for mechanism: SCRAMMechanism) -> Verifier? {
        switch mechanism {
        case .sha512: sha512
        case .sha256: sha256
        case .sha1: sha1
        }
    }
}

extension StoredCredentials.Verifier {
    init(_ mechanism: SCRAMMechanism, password: [UInt8], salt: [UInt8], _ iterations: Int) {
        let salted = mechanism.saltedPassword(password, salt: salt, iterations: iterations)
        let clientKey = mechanism.hmac(salted, Array("Client Key".utf8))
        self.init(
            salt: salt,
            iterations: iterations,
            storedKey: mechanism.hash(clientKey),
            serverKey: mechanism.hmac(salted, Array("Server Key".utf8))
        )
    }

    /// A verifier for an unknown user: always the same salt, and keys that no password matches.
    static func decoy(
        _ mechanism: SCRAMMechanism,
        user: String,
        rules: PasswordRules
    ) -> StoredCredentials.Verifier {
        func derive(_ purpose: String) -> [UInt8] {
            mechanism.hmac(
                rules.decoySecret,
                Array("\(purpose) \(mechanism.rawValue) \(user)".utf8)
            )
        }
        return StoredCredentials.Verifier(
            salt: Array(derive("salt").prefix(StoredCredentials.saltByteCount)),
            iterations: rules.iterations,
            storedKey: derive("stored"),
            serverKey: derive("server")
        )
    }
}
