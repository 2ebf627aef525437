internal import OpenSSLPlatform

/// The certificate and the key of a TLS server.
///
/// They are read when this value is made: a confined gateway opens no files when it makes its ports.
package struct TLSCertificate: Sendable {
    let server: TLSServer

    /// - Parameters:
    ///   - certificate: The name of the PEM file with the certificate and its chain.
    ///   - key: That of its key, without a password.
    /// - Throws: `GatewayServerError` if a file cannot be used.
    package init(certificate: String, key: String) throws(GatewayServerError) {
        do throws(TLSError) {
            server = try TLSServer(certificateFile: certificate, keyFile: key)
        } catch {
            throw GatewayServerError(description: "TLS cannot be served: \(error)")
        }
    }
}
