package import Bytes
internal import Crypto
internal import CryptoExtras

/// The three SCRAM mechanisms (RFC 5802, RFC 7677), with Couchbase's names.
package enum SCRAMMechanism: String, CaseIterable, Sendable {
    // Strongest first: a client that chooses uses the first one it knows.
    case sha512 = "SCRAM-SHA512"
    case sha256 = "SCRAM-SHA256"
    case sha1 = "SCRAM-SHA1"

    /// The mechanism of this name; nil if there is none.
    package init?(name: ByteView) {
        self.init(rawValue: name.text)
    }

    /// Size of a hash in bytes.
    var byteCount: Int {
        switch self {
        case .sha512: 64
        case .sha256: 32
        case .sha1: 20
        }
    }

    func hash(_ message: [UInt8]) -> [UInt8] {
        switch self {
        case .sha512: Array(SHA512.hash(data: message))
        case .sha256: Array(SHA256.hash(data: message))
        case .sha1: Array(Insecure.SHA1.hash(data: message))
        }
    }

    func hmac(_ key: [UInt8], _ message: [UInt8]) -> [UInt8] {
        let key = SymmetricKey(data: key)
        return switch self {
        case .sha512: Array(HMAC<SHA512>.authenticationCode(for: message, using: key))
        case .sha256: Array(HMAC<SHA256>.authenticationCode(for: message, using: key))
        case .sha1: Array(HMAC<Insecure.SHA1>.authenticationCode(for: message, using: key))
        }
    }

    /// PBKDF2 with this hash; takes milliseconds by design.
    func saltedPassword(_ password: [UInt8], salt: [UInt8], iterations: Int) -> [UInt8] {
        precondition(!salt.isEmpty && iterations > 0, "PBKDF2 needs a salt and at least one round")
        let hash: KDF.Insecure.PBKDF2.HashFunction =
            switch self {
            case .sha512: .sha512
            case .sha256: .sha256
            case .sha1: .insecureSHA1
            }
        do {
            let key = try KDF.Insecure.PBKDF2.deriveKey(
                // HMAC pads its key with zeros, so one zero is equivalent to the empty password.
                // The library would read from a nil address for an empty array.
                from: password.isEmpty ? [0] : password,
                salt: salt,
                using: hash,
                outputByteCount: byteCount,
                unsafeUncheckedRounds: iterations
            )
            return key.withUnsafeBytes { Array($0) }
        } catch {
            preconditionFailure("PBKDF2 failed on valid arguments: \(error)")
        }
    }
}

/// Whether two secrets are equal, in a time that does not depend on where they differ.
package func areEqualInConstantTime(_ one: [UInt8], _ other: [UInt8]) -> Bool {
    guard one.count == other.count else { return false }
    var difference: UInt8 = 0
    for place in one.indices { difference |= one[place] ^ other[place] }
    return difference == 0
}
