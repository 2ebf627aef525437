internal import Bytes
internal import COpenSSL
package import Seams

/// The client's side of connections with servers, which it believes by their certificates.
package final class TLSClient: ServerTrust,
    @unchecked Sendable  // tidy:allow OpenSSL counts references to the context
{
    /// Bytes of the certificates that a server may send.
    private static let certificateBytesMax = 64 << 10

    private let context: OpaquePointer

    /// Trusts the servers whose certificates one of these authorities has signed.
    ///
    /// - Parameter authorities: PEM.
    /// - Throws: `TLSError` if they cannot be read.
    package init(authorities: [UInt8]) throws(TLSError) {
        let certificates = try PEM.certificates(authorities)
        guard let context = SSL_CTX_new(TLS_client_method()) else {
            throw TLSError("no TLS context can be made")
        }
        self.context = context
        guard divan_ssl_use_version(context, 0) == 1, let store = SSL_CTX_get_cert_store(context)
        else { throw TLSError("TLS 1.2 cannot be used") }
        for certificate in certificates {
            guard X509_STORE_add_cert(store, certificate.pointer) == 1 else {
                throw TLSError("a trusted CA cannot be used")
            }
        }
        divan_ssl_keep_no_sessions(context)
        divan_ssl_bound_buffers(context, TLSChannel.inputBufferBytes, Self.certificateBytesMax)
        // An intermediate certificate may be trusted without the one that has signed it.
        X509_VERIFY_PARAM_set_flags(
            SSL_CTX_get0_param(context),
            UInt(X509_V_FLAG_PARTIAL_CHAIN)
        )
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
    }

    deinit { SSL_CTX_free(context) }

    package func makeChannel(host: String) -> any SecureChannel {
        TLSChannel(context, isInitiator: true, TLSLimits(), proof: .server(host: host))
    }
}
