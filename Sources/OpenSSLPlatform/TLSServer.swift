internal import COpenSSL

/// The server's side of connections with any client: it proves a certificate, and the client proves nothing.
///
/// TLS 1.2 is allowed, because old devices speak no later version.
package final class TLSServer:
    @unchecked Sendable  // tidy:allow OpenSSL counts references to contexts, which do not change
{
    private let context: OpaquePointer

    /// Reads the files.
    ///
    /// - Parameters:
    ///   - certificateFile: PEM: the server's certificate, then those that lead to its authority.
    ///   - keyFile: PEM, without a password.
    /// - Throws: `TLSError` if a file cannot be used, or the key is not the certificate's.
    package init(certificateFile: String, keyFile: String) throws(TLSError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(TLS_server_method()) else {
            throw TLSError("no TLS context can be made")
        }
        do throws(TLSError) {
            guard divan_ssl_use_tls12_or_later(context) == 1 else {
                throw TLSError("TLS 1.2 cannot be used")
            }
            guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
                throw TLSError("the certificate \(certificateFile) cannot be used")
            }
            guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1 else {
                throw TLSError("the key \(keyFile) cannot be used")
            }
        } catch {
            SSL_CTX_free(context)
            throw error
        }
        divan_ssl_keep_no_sessions(context)
        divan_ssl_bound_buffers(context, TLSChannel.inputBufferBytes)
        self.context = context
    }

    deinit { SSL_CTX_free(context) }

    /// One connection, whose client speaks first.
    package func makeChannel() -> TLSChannel {
        TLSChannel(context, isInitiator: false, TLSLimits(), proof: .none)
    }
}
