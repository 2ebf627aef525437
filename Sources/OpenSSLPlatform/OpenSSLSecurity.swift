internal import COpenSSL
package import Seams

/// TLS 1.3 by the system's OpenSSL: both sides prove Ed25519 keys, in certificates that they sign
/// themselves.
///
/// - The certificates have no name and do not expire: the user of a channel compares keys, so that trust
///   depends on no clock and no authority.
/// - Nothing is kept between connections: no tickets, no sessions.
package struct OpenSSLSecurity: TransportSecurity {
    private let limits: TLSLimits

    package init(limits: TLSLimits = TLSLimits()) {
        self.limits = limits
    }

    package func identity(of keys: KeyPair) -> any SecurityIdentity {
        do throws(TLSError) {
            return try TLSIdentity(keys, limits)
        } catch {
            // `check` has made one when the process started.
            preconditionFailure("OpenSSL has made a TLS identity before: \(error)")
        }
    }

    package var certificates: (any CertificateTools)? { OpenSSLCertificates() }

    /// Whether this system's OpenSSL can do all that a node needs.
    ///
    /// - Throws: `TLSError`: for example, if its configuration forbids Ed25519.
    package static func check() throws(TLSError) {
        let anyKeys = KeyPair(
            publicKey: [UInt8](repeating: 0, count: KeyPair.byteCount),
            privateKey: [UInt8](repeating: 1, count: KeyPair.byteCount)
        )
        _ = try TLSIdentity(anyKeys, TLSLimits())
    }
}

/// How much of a connection one key may protect.
package struct TLSLimits: Sendable {
    /// Bytes that are sealed with one key before it is replaced: 2^32 blocks of AES.
    ///
    /// RFC 8446, section 5.5 allows some 2^34 full blocks with the usual margin.
    package var bytesOfKeyMax: UInt64 = 1 << 36
    /// Records that are sealed with one key before it is replaced.
    package var recordsOfKeyMax: UInt64 = 1 << 22

    package init() {}
}

/// The certificate of a key pair, in a context for each side of a connection.
final class TLSIdentity: SecurityIdentity,
    @unchecked Sendable  // tidy:allow OpenSSL counts references to contexts, which do not change
{
    private let initiating: OpaquePointer
    private let accepting: OpaquePointer
    private let limits: TLSLimits

    init(_ keys: KeyPair, _ limits: TLSLimits) throws(TLSError) {
        let key = EVP_PKEY_new_raw_private_key(
            EVP_PKEY_ED25519,
            nil,
            keys.privateKey,
            keys.privateKey.count
        )
        guard let key else { throw TLSError("the node's private key cannot be used") }
        defer { EVP_PKEY_free(key) }
        let certificate = try TLSIdentity.certificate(of: key)
        defer { X509_free(certificate) }
        initiating = try TLSIdentity.context(TLS_client_method(), certificate, key: key)
        do throws(TLSError) {
            accepting = try TLSIdentity.context(TLS_server_method(), certificate, key: key)
        } catch {
            SSL_CTX_free(initiating)
            throw error
        }
        self.limits = limits
    }

    deinit {
        SSL_CTX_free(initiating)
        SSL_CTX_free(accepting)
    }

    func makeChannel(isInitiator: Bool) -> any SecureChannel {
        TLSChannel(isInitiator ? initiating : accepting, isInitiator: isInitiator, limits)
    }

    private static func certificate(of key: OpaquePointer) throws(TLSError) -> OpaquePointer {
        guard let certificate = X509_new() else { throw TLSError("no certificate can be made") }
        let isMade =
            X509_set_version(certificate, 2) == 1
            && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1
            && ASN1_TIME_set_string(X509_getm_notBefore(certificate), "19700101000000Z") == 1
            // RFC 5280, section 4.1.2.5: a certificate without an expiry.
            && ASN1_TIME_set_string(X509_getm_notAfter(certificate), "99991231235959Z") == 1
            && X509_set_pubkey(certificate, key) == 1 && X509_sign(certificate, key, nil) > 0
        guard isMade else {
            X509_free(certificate)
            throw TLSError("the node's certificate cannot be made")
        }
        return certificate
    }

    private static func context(
        _ method: OpaquePointer?,
        _ certificate: OpaquePointer,
        key: OpaquePointer
    ) throws(TLSError) -> OpaquePointer {
        guard let context = SSL_CTX_new(method) else {
            throw TLSError("no TLS context can be made")
        }
        // The shortest keys come first: all are strong enough, and it is the fastest.
        let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
        let isMade =
            divan_ssl_use_tls13_only(context) == 1
            && SSL_CTX_set_ciphersuites(context, suites) == 1
            && SSL_CTX_use_certificate(context, certificate) == 1
            && SSL_CTX_use_PrivateKey(context, key) == 1
        guard isMade else {
            SSL_CTX_free(context)
            throw TLSError("TLS 1.3 with Ed25519 cannot be used")
        }
        divan_ssl_keep_no_sessions(context)
        // A certificate of a node has some 250 bytes.
        divan_ssl_bound_buffers(context, TLSChannel.inputBufferBytes, 4_096)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        // The handshake proves that the other side has the certificate's key. The user of the channel
        // decides whether it accepts that key.
        SSL_CTX_set_cert_verify_callback(context, { _, _ in 1 }, nil)
        return context
    }
}
