internal import Crypto
package import Vocabulary

/// The private half of a node's keys, all derived from 32 random bytes.
package struct NodeSecrets: Hashable, Sendable {
    package static let seedByteCount = 32

    /// The 32 bytes that the node stores; also the private key of its identity.
    package let seed: [UInt8]
    package let publicKeys: NodeKeys

    /// - Parameter seed: 32 random bytes, which only this node has.
    package init(seed: [UInt8]) {
        guard let identity = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed),
            let keys = NodeKeys(
                identity: Array(identity.publicKey.rawRepresentation),
                sealing: Array(NodeSecrets.sealing(seed).publicKey.rawRepresentation)
            )
        else { preconditionFailure("any 32 bytes are a private key") }
        self.seed = seed
        publicKeys = keys
    }

    /// The private key to which others seal.
    private static func sealing(_ seed: [UInt8]) -> Curve25519.KeyAgreement.PrivateKey {
        let bytes = derive(from: seed, "divan node sealing key", count: 32)
        guard let key = try? Curve25519.KeyAgreement.PrivateKey(rawRepresentation: bytes) else {
            preconditionFailure("any 32 bytes are a private key")
        }
        return key
    }

    /// A secret for the salts of names without a user, while the node shares none with others.
    package var ownDecoySecret: [UInt8] { Self.derive(from: seed, "divan names without a user") }

    // MARK: Sealing

    private static let nonce = [UInt8](repeating: 0, count: 12)

    /// Seals `content` so that only the node with a sealing key can open it: X25519, HKDF-SHA256 and
    /// AES-256-GCM, as in RFC 9180, with a key pair made for this one use.
    ///
    /// - Parameters:
    ///   - content: The secret.
    ///   - key: The node's public sealing key.
    ///   - seed: 32 random bytes, never used before.
    /// - Returns: The public key of this use, and the sealed content; nil if `key` is no key.
    package static func seal(_ content: [UInt8], to key: [UInt8], seed: [UInt8]) -> [UInt8]? {
        guard let own = try? Curve25519.KeyAgreement.PrivateKey(rawRepresentation: seed),
            let theirs = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: key),
            let shared = try? own.sharedSecretFromKeyAgreement(with: theirs),
            // RFC 7748, section 6.1: the key is a point of small order.
            bytes(shared).contains(where: { $0 != 0 })
        else { return nil }
        let used = Array(own.publicKey.rawRepresentation)
        let once = SymmetricKey(data: derive(from: bytes(shared), used + key))
        // The key seals nothing else, so the nonce need not differ.
        guard let nonce = try? AES.GCM.Nonce(data: nonce),
            let box = try? AES.GCM.seal(content, using: once, nonce: nonce)
        else { return nil }
        return used + Array(box.ciphertext) + Array(box.tag)
    }

    /// The content that was sealed to this node; nil if it was not, or was changed since.
    package func open(_ sealed: [UInt8]) -> [UInt8]? {
        let (used, rest) = (Array(sealed.prefix(32)), sealed.dropFirst(32))
        guard rest.count >= 16,
            let theirs = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: used),
            let shared = try? Self.sealing(seed).sharedSecretFromKeyAgreement(with: theirs)
        else { return nil }
        let info = used + publicKeys.sealing
        let once = SymmetricKey(data: Self.derive(from: Self.bytes(shared), info))
        guard let nonce = try? AES.GCM.Nonce(data: Self.nonce),
            let box = try? AES.GCM.SealedBox(
                nonce: nonce,
                ciphertext: Array(rest.dropLast(16)),
                tag: Array(rest.suffix(16))
            )
        else { return nil }
        return (try? AES.GCM.open(box, using: once)).map { Array($0) }
    }

    private static func bytes(_ shared: SharedSecret) -> [UInt8] {
        shared.withUnsafeBytes { Array($0) }
    }

    private static func derive(
        from secret: [UInt8],
        _ info: StaticString,
        count: Int = 32
    ) -> [UInt8] {
        derive(from: secret, info.withUTF8Buffer { Array($0) }, count: count)
    }

    private static func derive(from secret: [UInt8], _ info: [UInt8], count: Int = 32) -> [UInt8] {
        let key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret),
            info: info,
            outputByteCount: count
        )
        return key.withUnsafeBytes { Array($0) }
    }
}

extension NodeSecrets: CustomStringConvertible, CustomReflectable {
    package var description: String { "the private keys of \(publicKeys.fingerprint)" }
    package var customMirror: Mirror { Mirror(self, children: ["publicKeys": publicKeys]) }
}

extension NodeKeys {
    /// The text that an operator compares: SHA-256 of the identity key, as 64 hexadecimal digits.
    package var fingerprint: String { NodeKeys.fingerprint(of: identity) }

    package static func fingerprint(of identity: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        var text = ""
        for byte in SHA256.hash(data: identity) {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return text
    }
}

/// Proves to the other side of a secured connection that this side has a token, which is not sent.
///
/// The proof covers the public keys of both sides, so one that a third machine receives proves nothing
/// on a connection of its own.
package enum TokenProof {
    package enum Side: UInt8, Sendable {
        /// The node that adds.
        case adding = 1
        /// The node that is added.
        case waiting = 2
    }

    /// - Parameters:
    ///   - token: Has too much randomness to be guessed from a proof.
    ///   - side: The side that proves.
    ///   - adding: The identity key of the node that adds.
    ///   - waiting: The identity key of the node that is added.
    /// - Returns: The proof, 32 bytes.
    package static func make(
        _ token: String,
        by side: Side,
        adding: [UInt8],
        waiting: [UInt8]
    ) -> [UInt8] {
        let message = Array("divan join".utf8) + [side.rawValue] + adding + waiting
        let key = SymmetricKey(data: Array(token.utf8))
        return Array(HMAC<SHA256>.authenticationCode(for: message, using: key))
    }
}
