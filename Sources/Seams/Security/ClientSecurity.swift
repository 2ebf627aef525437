package import Bytes
package import Vocabulary

/// The server's side of secured connections with clients: TLS on Linux.
///
/// Certificate and settings may be replaced at any time: a connection keeps those with which it began.
package protocol ClientSecurity: AnyObject, Sendable {
    /// Replaces certificate and settings for all later connections.
    ///
    /// - Throws: `CertificateError` if they cannot be used; the former ones stay.
    func use(_ settings: ClientSecuritySettings) throws(CertificateError)
    /// A connection as bytes in, bytes out.
    func makeChannel() -> any ClientChannel
    /// A connection that receives from a non-blocking socket.
    ///
    /// The socket stays the caller's, and is open longer than the result is used.
    func makeSocket(_ descriptor: Int32) -> any SecureSocket
}

/// The certificate of a server and the demands on its clients.
package struct ClientSecuritySettings: Hashable, Sendable {
    /// PEM: the server's certificate, then those that lead to its authority.
    package var chain: [UInt8]
    /// PEM, without a passphrase.
    package var key: [UInt8]
    /// PEM: the authorities of clients' certificates; empty if none is trusted.
    package var clientAuthorities: [UInt8] = []
    package var clientCertificates = ClientCertificateState.disable
    package var lowestVersion = TLSVersion.tls12
    /// Names of cipher suites, best first; empty for the library's choice.
    package var cipherSuites: [String] = []
    /// Whether the server's order of cipher suites decides, not the client's.
    package var honorsCipherOrder = true

    package init(chain: [UInt8], key: [UInt8]) {
        self.chain = chain
        self.key = key
    }
}

/// The private key is shown nowhere.
extension ClientSecuritySettings: CustomStringConvertible, CustomReflectable {
    package var description: String { "the certificate of a server" }
    package var customMirror: Mirror { Mirror(self, children: [:] as KeyValuePairs<String, Any>) }
}

/// One secured connection with a client, without its socket.
package protocol ClientChannel: SecureChannel {
    /// The certificate that the client has proved; nil without one, and before the handshake.
    var clientCertificate: ClientCertificate? { get }
    /// Appends the end of the content, which the other side can tell from a lost connection.
    func sendEnd(output: ByteWriter)
}

/// One secured connection that receives from its socket.
///
/// - Belongs to one thread at a time.
package protocol SecureSocket: ClientChannel {
    /// Receives from the socket until there is no more input, or `most` bytes of content are in `place`.
    ///
    /// - Parameters:
    ///   - place: Gets the content.
    ///   - most: Bytes of it at most; at least one.
    ///   - output: Gets what must be sent to the client.
    /// - Returns: How many bytes of content there are, or why there are none.
    func receive(
        into place: UnsafeMutableRawPointer,
        most: Int,
        output: ByteWriter
    ) -> SecureReceipt
}

/// The result of `SecureSocket.receive`.
package enum SecureReceipt: Hashable, Sendable {
    /// At least one byte of content; `hasMore` if there may be more without another event of the socket.
    case content(Int, hasMore: Bool)
    /// The socket has no more input now.
    case wait
    /// The connection ends; with the reason if the client broke the protocol. Output may have an alert.
    case end(String?)
}
