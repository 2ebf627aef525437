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

extension StoredCredentials {
    /// One line of text for a file: `scram-1`, then for each mechanism with keys its name, rounds,
    /// salt and keys.
    package var text: String {
        let parts = SCRAMMechanism.allCases.compactMap { mechanism -> String? in
            guard let verifier = verifier(for: mechanism) else { return nil }
            let fields = [verifier.salt, verifier.storedKey, verifier.serverKey].map { bytes in
                bytes.withUnsafeBytes { bytes in
                    String(decoding: Base64.encode(ByteView(bytes)), as: UTF8.self)
                }
            }
            return "\(mechanism.rawValue),\(verifier.iterations),"
                + fields.joined(separator: ",")
        }
        return ([StoredCredentials.format] + parts).joined(separator: ";")
    }

    /// Parses such a line; nil if it is damaged or of another format.
    package init?(text: String) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false)
        guard (3...4).contains(parts.count), parts[0] == StoredCredentials.format,
            let sha512 = Verifier(.sha512, text: parts[1]),
            let sha256 = Verifier(.sha256, text: parts[2])
        else { return nil }
        let sha1 = parts.count == 4 ? Verifier(.sha1, text: parts[3]) : nil
        guard parts.count == 3 || sha1 != nil else { return nil }
        self.init(sha512: sha512, sha256: sha256, sha1: sha1)
    }

    private static let format = "scram-1"
}

extension StoredCredentials.Verifier {
    fileprivate init?(_ mechanism: SCRAMMechanism, text: Substring) {
        let fields = text.split(separator: ",", omittingEmptySubsequences: false)
        guard fields.count == 5, fields[0] == mechanism.rawValue,
            let iterations = Int(fields[1]), (1...1_000_000).contains(iterations)
        else { return nil }
        let bytes = fields[2...].compactMap { field in
            Array(field.utf8).withUnsafeBytes { Base64.decode(ByteView($0)) }
        }
        guard bytes.count == 3, !bytes[0].isEmpty, bytes[1].count == mechanism.byteCount,
            bytes[2].count == mechanism.byteCount
        else { return nil }
        self.init(
            salt: bytes[0],
            iterations: iterations,
            storedKey: bytes[1],
            serverKey: bytes[2]
        )
    }
}
