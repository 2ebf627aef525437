package import Bytes

/// An Ed25519 key pair: the public key is a node's identity.
package struct KeyPair: Hashable, Sendable {
    /// Bytes of each half.
    package static let byteCount = 32

    package let publicKey: [UInt8]
    /// The seed of RFC 8032, section 5.1.5.
    package let privateKey: [UInt8]

    package init(publicKey: [UInt8], privateKey: [UInt8]) {
        precondition(
            publicKey.count == Self.byteCount && privateKey.count == Self.byteCount,
            "each half of a key pair has 32 bytes"
        )
        self.publicKey = publicKey
        self.privateKey = privateKey
    }
}

/// The private key is shown nowhere.
extension KeyPair: CustomStringConvertible, CustomReflectable {
    package var description: String { "a key pair" }
    package var customMirror: Mirror { Mirror(self, children: ["publicKey": publicKey]) }
}

/// Encrypts connections whose both sides prove a key: TLS on Linux, and in the simulator clear text
/// with the public key in front.
package protocol TransportSecurity: Sendable {
    /// Creates this side's identity for its connections; called once for a key pair.
    func identity(of keys: KeyPair) -> any SecurityIdentity
    /// The certificates by which clients know nodes; nil if clients have no secured connections.
    var certificates: (any CertificateTools)? { get }
}

extension TransportSecurity {
    package var certificates: (any CertificateTools)? { nil }
}

/// This side of all connections that are secured with one key pair.
package protocol SecurityIdentity: Sendable {
    func makeChannel(isInitiator: Bool) -> any SecureChannel
}

/// One secured connection, without its socket: bytes in, bytes out.
///
/// The channel of a `SecurityIdentity` accepts every key that the other side proves. Its user compares
/// `peerKey` with the key that it expects before it sends or believes anything.
package protocol SecureChannel: AnyObject {
    /// Whether the handshake is complete, so that content can be sent.
    var isOpen: Bool { get }
    /// The public key that the other side has proved; nil before the handshake is complete, and if it proves
    /// itself by the name of a certificate.
    var peerKey: [UInt8]? { get }

    /// Handles received bytes.
    ///
    /// Before the first call with input, the initiator calls it with none.
    ///
    /// - Parameters:
    ///   - input: All received bytes that were not consumed yet.
    ///   - content: Gets the other side's content.
    ///   - output: Gets what must be sent to the other side.
    /// - Returns: The number of consumed bytes, and what comes next.
    func receive(_ input: ByteView, content: ByteWriter, output: ByteWriter) -> SecureProgress

    /// Appends `content` to `output`, sealed; only once the channel is open.
    ///
    /// - Returns: False if it cannot be sealed, because of what the other side has sent: close the
    ///   connection.
    func send(_ content: ByteView, output: ByteWriter) -> Bool
}

/// The result of `SecureChannel.receive`.
package struct SecureProgress: Sendable {
    package enum Next: Sendable {
        /// Call again when more bytes have arrived.
        case receive
        /// Call again once the content was taken: there may be more, also without further input.
        case more
        /// Send the output and close the connection; with the reason if the other side broke the
        /// protocol.
        case close(String?)
    }

    package var consumed: Int
    package var next: Next

    package init(consumed: Int, next: Next) {
        self.consumed = consumed
        self.next = next
    }
}

/// The security of an environment that was given none.
package struct AbsentSecurity: TransportSecurity {
    package init() {}

    package func identity(of keys: KeyPair) -> any SecurityIdentity {
        preconditionFailure("an environment whose connections are secured has a security")
    }
}
