internal import Bytes
internal import Vocabulary

/// The client of a connection with TLS, as the handshake proved it.
final class SecuredConnection: Sendable {
    private let proved = Guarded<ClientCertificate?>(nil)

    /// The certificate that the client has proved; nil if it has none.
    var certificate: ClientCertificate? { proved.withLock { $0 } }

    func authenticate(by certificate: ClientCertificate) { proved.withLock { $0 = certificate } }
}
