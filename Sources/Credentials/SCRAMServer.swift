package import Bytes

/// The server's side of one SCRAM exchange (RFC 5802): two messages in, two out.
///
/// The client proves that it knows the password without sending it, and the server proves to the
/// client that it has the password's keys. There is no channel binding: it needs a TLS channel, and
/// no client requires it.
///
/// - An unknown user gets a challenge like any other, the same each time, and is refused only at
///   the end, so that a client cannot find out which users exist. Its challenge takes the same
///   time: the keys of an unknown user are derived for every user.
/// - Attributes are split only at commas: the nonces of the C++ client contain spaces.
package struct SCRAMServer: Sendable {
    package enum Challenge: Sendable {
        /// Answer "continue" (0x21) with `serverFirst`, and keep the exchange for the next step.
        case answer(SCRAMServer, serverFirst: [UInt8])
        /// Answer "invalid" (0x04).
        case malformed
    }

    package enum Decision: Equatable, Sendable {
        /// Answer success with `serverFinal`.
        case authenticated(user: String, serverFinal: [UInt8])
        /// Answer "authentication error" (0x20).
        case refused
        /// Answer "invalid" (0x04).
        case malformed
    }

    private let mechanism: SCRAMMechanism
    private let user: String
    private let isKnown: Bool
    private let verifier: StoredCredentials.Verifier
    /// The client's `c=` attribute: its header, in Base64.
    private let binding: [UInt8]
    private let nonce: [UInt8]
    /// client-first-bare "," server-first ",": what both sides sign, without the last message.
    private let transcript: [UInt8]

    /// Parses the client's first message and makes the challenge.
    ///
    /// - Parameters:
    ///   - mechanism: The client's choice.
    ///   - clientFirst: The client's message.
    ///   - serverNonce: Fresh random text without commas, 18 characters or more.
    ///   - rules: The cluster's rules; the keys of unknown users are derived from their secret.
    ///   - lookup: Returns the credentials of a user, nil if unknown.
    /// - Returns: The challenge.
    package static func start(
        _ mechanism: SCRAMMechanism,
        clientFirst: ByteView,
        serverNonce: [UInt8],
        rules: PasswordRules,
        lookup: (String) -> StoredCredentials?
    ) -> Challenge {
        precondition(
            serverNonce.count >= 18 && !serverNonce.contains(UInt8(ascii: ",")),
            "a nonce has 18 characters or more and no comma"
        )
        guard let message = SCRAMClientFirst(clientFirst) else { return .malformed }
        let known = lookup(message.user)?.verifier(for: mechanism)
        let decoy = StoredCredentials.Verifier.decoy(mechanism, user: message.user, rules: rules)
        let verifier = known ?? decoy
        let nonce = message.nonce + serverNonce
        let salt = verifier.salt.withUnsafeBytes { Base64.encode(ByteView($0)) }
        let serverFirst =
            Array("r=".utf8) + nonce + Array(",s=".utf8) + salt
            + Array(",i=\(verifier.iterations)".utf8)
        let comma = [UInt8(ascii: ",")]
        let exchange = SCRAMServer(
            mechanism: mechanism,
            user: message.user,
            isKnown: known != nil,
            verifier: verifier,
            binding: message.header.withUnsafeBytes { Base64.encode(ByteView($0)) },
            nonce: nonce,
            transcript: message.bare + comma + serverFirst + comma
        )
        return .answer(exchange, serverFirst: serverFirst)
    }

    /// Parses the client's last message and verifies its proof.
    package func finish(clientFinal: ByteView) -> Decision {
        guard let message = SCRAMClientFinal(clientFinal) else { return .malformed }
        guard message.proof.count == mechanism.byteCount else { return .malformed }
        let authMessage = transcript + message.withoutProof
        let signature = mechanism.hmac(verifier.storedKey, authMessage)
        let clientKey = zip(message.proof, signature).map { $0 ^ $1 }
        let isProven = areEqualInConstantTime(mechanism.hash(clientKey), verifier.storedKey)
        guard message.binding == binding, message.nonce == nonce, isProven, isKnown else {
            return .refused
        }
        let serverSignature = mechanism.hmac(verifier.serverKey, authMessage)
        let text = serverSignature.withUnsafeBytes { Base64.encode(ByteView($0)) }
        return .authenticated(user: user, serverFinal: Array("v=".utf8) + text)
    }
}
