package import Bytes

/// The client's side of one SCRAM exchange, for Divan's client and for tests of the server's side.
package struct SCRAMClient: Sendable {
    package enum Answer: Sendable {
        /// Send this, then check the server's last message with `isGenuine`.
        case send(SCRAMClient, clientFinal: [UInt8])
        /// The server's message is malformed, or asks for too many rounds.
        case malformed
    }

    /// Rounds of PBKDF2 a client accepts; more would let a server exhaust the client's processor.
    private static let iterationsMax = 1_000_000

    private let mechanism: SCRAMMechanism
    private let nonce: [UInt8]
    private let bare: [UInt8]
    private var serverSignature: [UInt8] = []

    /// The first message of the exchange.
    package var clientFirst: [UInt8] { Array("n,,".utf8) + bare }

    /// An exchange for `user`; `nonce` is fresh random text without commas.
    package init(_ mechanism: SCRAMMechanism, user: String, nonce: [UInt8]) {
        self.mechanism = mechanism
        self.nonce = nonce
        bare = Array("n=".utf8) + SCRAMName.encode(user) + Array(",r=".utf8) + nonce
    }

    /// Answers the server's challenge with the proof; takes milliseconds if the salt is new.
    package func answer(serverFirst: ByteView, password: SCRAMPassword) -> Answer {
        let comma = UInt8(ascii: ",")
        let parts = serverFirst.bytes.split(separator: comma, omittingEmptySubsequences: false)
        guard parts.count == 3, let combined = parts[0].attribute("r"),
            combined.starts(with: nonce), combined.count > nonce.count,
            let saltText = parts[1].attribute("s"),
            let salt = Array(saltText).withUnsafeBytes({ Base64.decode(ByteView($0)) }),
            !salt.isEmpty, let rounds = parts[2].attribute("i"),
            let iterations = Int(String(decoding: rounds, as: UTF8.self)),
            (1...SCRAMClient.iterationsMax).contains(iterations)
        else { return .malformed }
        let keys = password.keys(mechanism, salt: salt, iterations: iterations)
        let withoutProof = Array("c=biws,r=".utf8) + combined
        let authMessage = bare + [comma] + serverFirst.bytes + [comma] + withoutProof
        let signature = mechanism.hmac(mechanism.hash(keys.client), authMessage)
        let proof = zip(keys.client, signature).map { $0 ^ $1 }
        let text = proof.withUnsafeBytes { Base64.encode(ByteView($0)) }
        var next = self
        next.serverSignature = mechanism.hmac(keys.server, authMessage)
        return .send(next, clientFinal: withoutProof + Array(",p=".utf8) + text)
    }

    /// Whether the server's last message proves that the server knows the password's keys.
    ///
    /// False before `answer`.
    package func isGenuine(serverFinal: ByteView) -> Bool {
        guard !serverSignature.isEmpty, let text = serverFinal.bytes[...].attribute("v"),
            let signature = Array(text).withUnsafeBytes({ Base64.decode(ByteView($0)) })
        else { return false }
        return areEqualInConstantTime(signature, serverSignature)
    }
}
