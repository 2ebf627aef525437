internal import Bytes
internal import Vocabulary

/// What is known of the client of a connection with TLS.
final class SecuredConnection: Sendable {
    private let proved = Guarded<ClientCertificate?>(nil)

    /// The certificate that the client has proved; nil if it has none.
    var certificate: ClientCertificate? { proved.withLock { $0 } }

    func authenticate(by certificate: ClientCertificate) { proved.withLock { $0 = certificate } }
}
