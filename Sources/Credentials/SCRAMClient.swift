package import Bytes

/// The client's side of one SCRAM exchange, for our own client, and to test the server's.
package struct SCRAMClient: Sendable {
    package enum Answer: Sendable {
        /// Send this, then give the server's last message to `isGenuine`.
        case send(SCRAMClient, clientFinal: [UInt8])
        /// The server's message is none, or asks for more rounds than we would do.
        case malformed
    }

    /// A server that asks for more wants to keep us busy.
    private static let iterationsMax = 1_000_000

    private let mechanism: SCRAMMechanism
    private let nonce: [UInt8]
    private let bare: [UInt8]
    private var serverSignature: [UInt8] = []

    /// The message that opens the exchange.
    package var clientFirst: [UInt8] { Array("n,,".utf8) + bare }

    /// An exchange for `user`; `nonce` is fresh random text without commas.
    package init(_ mechanism: SCRAMMechanism, user: String, nonce: [UInt8]) {
        self.mechanism = mechanism
        self.nonce = nonce
        bare = Array("n=".utf8) + SCRAMName.encode(user) + Array(",r=".utf8) + nonce
    }

    /// Proves to know the password; takes milliseconds where the salt is new.
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

    /// Whether the server's last message proves that it knows the password as well.
    package func isGenuine(serverFinal: ByteView) -> Bool {
        guard !serverSignature.isEmpty, let text = serverFinal.bytes[...].attribute("v"),
            let signature = Array(text).withUnsafeBytes({ Base64.decode(ByteView($0)) })
        else { return false }
        return areEqualInConstantTime(signature, serverSignature)
    }
}
