internal import Bytes
internal import Crypto

/// The hashes and keys of the handshake.
///
/// Each session key depends on a hash of all messages, and each use has its own label: a message
/// that was changed under way, or comes from another connection, results in different keys.
enum PeerKeys {
    /// Takes the place of a proof in a message that proves nothing.
    static let noProof = [UInt8](repeating: 0, count: 32)

    struct Session {
        let toResponder: PeerCipher.Direction
        let toInitiator: PeerCipher.Direction
        /// Key of the responder's proof.
        let responderProof: SymmetricKey
        /// Key of the initiator's proof.
        let initiatorProof: SymmetricKey
    }

    /// The key that proves a hello or a refusal, before there is a session key.
    static func early(_ secret: PeerSecret, _ use: StaticString) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret.bytes),
            salt: label("divan peer early"),
            info: label(use),
            outputByteCount: 32
        )
    }

    /// The keys of a connection; nil if the other side's public key is invalid or weak.
    static func session(
        own: Curve25519.KeyAgreement.PrivateKey,
        theirs: [UInt8],
        secret: PeerSecret?,
        transcript: [UInt8]
    ) -> Session? {
        guard let key = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: theirs),
            let shared = try? own.sharedSecretFromKeyAgreement(with: key)
        else { return nil }
        var material = shared.withUnsafeBytes { [UInt8]($0) }
        // Keys of a connection without a secret differ from those of any secret.
        material += secret?.bytes ?? label("divan peer without a secret")
        let derived = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: material),
            salt: Array(SHA256.hash(data: transcript)),
            info: label("divan peer session"),
            outputByteCount: 4 * 32 + 2 * PeerCipher.nonceCount
        )
        let bytes = derived.withUnsafeBytes { [UInt8]($0) }
        func part(_ number: Int) -> SymmetricKey {
            SymmetricKey(data: Array(bytes[32 * number..<32 * (number + 1)]))
        }
        let nonces = bytes[128...]
        return Session(
            toResponder: .init(key: part(0), nonce: Array(nonces.prefix(PeerCipher.nonceCount))),
            toInitiator: .init(key: part(1), nonce: Array(nonces.suffix(PeerCipher.nonceCount))),
            responderProof: part(2),
            initiatorProof: part(3)
        )
    }

    static func proof(_ message: [UInt8], _ key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: message, using: key))
    }

    static func isProof(_ proof: ByteView, of message: [UInt8], _ key: SymmetricKey) -> Bool {
        areEqualInConstantTime(PeerKeys.proof(message, key), proof.bytes)
    }

    private static func label(_ text: StaticString) -> [UInt8] {
        text.withUTF8Buffer { [UInt8]($0) }
    }
}
