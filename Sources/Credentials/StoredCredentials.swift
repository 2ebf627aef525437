package import Bytes

/// What is kept of a user's password: enough to check it, not enough to log in elsewhere with it.
///
/// For each mechanism a salt and two keys (RFC 5802, section 3). They are derived once, when the
/// password is set; a log-in by SCRAM then costs the server four hashes.
package struct StoredCredentials: Equatable, Sendable {
    package struct Verifier: Equatable, Sendable {
        package let salt: [UInt8]
        package let iterations: Int
        /// H(ClientKey): proves that a client knew the password.
        package let storedKey: [UInt8]
        /// Proves to the client that this server knows it.
        package let serverKey: [UInt8]
    }

    /// What a client must compute at each connection, and a thief for each guess.
    ///
    /// 10 000 rounds cost a client 3 to 10 ms, which a script that connects for each of its runs
    /// bears and the 2.5 s after which clients give up hardly notice. Twice as many would buy one
    /// bit, and whoever has the file guesses against SHA-1 anyway.
    package static let iterationsDefault = 10_000

    /// Bytes of a salt.
    package static let saltByteCount = 16

    package let sha512: Verifier
    package let sha256: Verifier
    package let sha1: Verifier

    /// Derives credentials for a new password; takes some ten milliseconds.
    ///
    /// - Parameters:
    ///   - password: As the client will type it: no normalisation, as clients do none.
    ///   - iterations: Rounds of PBKDF2.
    ///   - salt: Called once per mechanism for `saltByteCount` fresh random bytes.
    /// - Returns: What to store.
    package static func derive(
        password: ByteView,
        iterations: Int = iterationsDefault,
        salt: (SCRAMMechanism) -> [UInt8]
    ) -> StoredCredentials {
        func verifier(_ mechanism: SCRAMMechanism) -> Verifier {
            Verifier(mechanism, password: password.bytes, salt: salt(mechanism), iterations)
        }
        return StoredCredentials(
            sha512: verifier(.sha512),
            sha256: verifier(.sha256),
            sha1: verifier(.sha1)
        )
    }

    package func verifier(for mechanism: SCRAMMechanism) -> Verifier {
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

    /// For a user that does not exist: always the same salt, keys that nothing matches.
    static func decoy(
        _ mechanism: SCRAMMechanism,
        user: String,
        secret: [UInt8]
    ) -> StoredCredentials.Verifier {
        func derive(_ purpose: String) -> [UInt8] {
            mechanism.hmac(secret, Array("\(purpose) \(mechanism.rawValue) \(user)".utf8))
        }
        return StoredCredentials.Verifier(
            salt: Array(derive("salt").prefix(StoredCredentials.saltByteCount)),
            iterations: StoredCredentials.iterationsDefault,
            storedKey: derive("stored"),
            serverKey: derive("server")
        )
    }
}
