internal import Bytes
internal import COpenSSL
package import Seams
internal import Vocabulary

/// The server's side of connections with any client: it proves a certificate, and requests one of the client if
/// its settings say so.
///
/// TLS 1.2 is allowed unless the settings exclude it, because old devices and old clients speak no later version.
package final class TLSServer: ClientSecurity {
    /// The parameters of OpenSSL for new connections; OpenSSL counts the references of connections to it.
    private final class Context:
        @unchecked Sendable  // tidy:allow a finished context does not change
    {
        let pointer: OpaquePointer

        init() throws(TLSError) {
            guard let pointer = SSL_CTX_new(TLS_server_method()) else {
                throw TLSError("no TLS context can be made")
            }
            self.pointer = pointer
            divan_ssl_keep_no_sessions(pointer)
            // OpenSSL's own length of the input, one record, until the handshake is complete.
            divan_ssl_bound_buffers(pointer, 0, certificateBytesMax)
            divan_ssl_bound_handshake(pointer, TLSChannel.handshakeRecordBytesMax)
        }

        deinit { SSL_CTX_free(pointer) }
    }

    /// Bytes of the certificates that a client may send.
    private static let certificateBytesMax = 64 << 10

    /// Nil until there is a certificate.
    private let context: Guarded<Context?>
    /// The context of connections before there is a certificate: their handshakes fail.
    private let empty: Context

    /// A server without a certificate.
    package init() {
        do throws(TLSError) {
            empty = try Context()
        } catch {
            preconditionFailure("there is memory for a TLS context: \(error)")
        }
        context = Guarded(nil)
    }

    /// Reads the files.
    ///
    /// - Parameters:
    ///   - certificateFile: PEM: the server's certificate, then those that lead to its authority.
    ///   - keyFile: PEM, without a password.
    /// - Throws: `TLSError` if a file cannot be used, or the key is not the certificate's.
    package convenience init(certificateFile: String, keyFile: String) throws(TLSError) {
        self.init()
        ERR_clear_error()
        let next = try Context()
        guard divan_ssl_use_version(next.pointer, 0) == 1 else {
            throw TLSError("TLS 1.2 cannot be used")
        }
        guard SSL_CTX_use_certificate_chain_file(next.pointer, certificateFile) == 1 else {
            throw TLSError("the certificate \(certificateFile) cannot be used")
        }
        guard SSL_CTX_use_PrivateKey_file(next.pointer, keyFile, SSL_FILETYPE_PEM) == 1 else {
            throw TLSError("the key \(keyFile) cannot be used")
        }
        context.withLock { $0 = next }
    }

    /// Replaces certificate and demands for all later connections.
    ///
    /// - Throws: `CertificateError` if they cannot be used; the former ones stay.
    package func use(_ settings: ClientSecuritySettings) throws(CertificateError) {
        ERR_clear_error()
        do throws(TLSError) {
            let next = try Context()
            try Self.apply(settings, to: next.pointer)
            context.withLock { $0 = next }
        } catch {
            throw CertificateError("TLS cannot be served: \(error)")
        }
    }

    private static func apply(
        _ settings: ClientSecuritySettings,
        to context: OpaquePointer
    ) throws(TLSError) {
        guard divan_ssl_use_version(context, settings.lowestVersion == .tls13 ? 1 : 0) == 1 else {
            throw TLSError("the lowest version of TLS cannot be used")
        }
        let certificates = try PEM.certificates(settings.chain)
        let key = try PEM.key(settings.key, passphrase: nil)
        guard SSL_CTX_use_certificate(context, certificates[0].pointer) == 1 else {
            throw TLSError("the certificate cannot be used")
        }
        for certificate in certificates.dropFirst() {
            guard divan_ssl_add_chain(context, certificate.pointer) == 1 else {
                throw TLSError("the chain of the certificate cannot be used")
            }
        }
        guard SSL_CTX_use_PrivateKey(context, key.pointer) == 1 else {
            throw TLSError("the key cannot be used")
        }
        try use(cipherSuites: settings.cipherSuites, in: context)
        if settings.honorsCipherOrder { divan_ssl_prefer_own_order(context) }
        guard settings.clientCertificates != .disable else { return }
        guard let store = SSL_CTX_get_cert_store(context) else {
            throw TLSError("the authorities of clients cannot be used")
        }
        let trusted = settings.clientAuthorities
        for authority in trusted.isEmpty ? [] : try PEM.certificates(trusted) {
            // Sent to clients, so that one with several certificates finds the right one.
            guard X509_STORE_add_cert(store, authority.pointer) == 1,
                SSL_CTX_add_client_CA(context, authority.pointer) == 1
            else { throw TLSError("the authorities of clients cannot be used") }
        }
        let isMandatory = settings.clientCertificates == .mandatory
        SSL_CTX_set_verify(
            context,
            SSL_VERIFY_PEER | (isMandatory ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
            nil
        )
    }

    /// Names of TLS 1.3 begin with `TLS_AES` or `TLS_CHACHA20`, and OpenSSL has a list of its own for them.
    private static func use(
        cipherSuites names: [String],
        in context: OpaquePointer
    ) throws(TLSError) {
        guard !names.isEmpty else { return }
        let (newer, older) = CipherSuite.split(names)
        guard SSL_CTX_set_ciphersuites(context, newer.joined(separator: ":")) == 1,
            // Without a name every suite of TLS 1.2 is excluded.
            older.isEmpty || SSL_CTX_set_cipher_list(context, older.joined(separator: ":")) == 1
        else { throw TLSError("the cipher suites cannot be used") }
        if older.isEmpty, divan_ssl_use_version(context, 1) != 1 {
            throw TLSError("TLS 1.3 cannot be used")
        }
    }

    package func makeChannel() -> any ClientChannel {
        TLSChannel(current.pointer, isInitiator: false, TLSLimits(), proof: .certificate)
    }

    package func makeSocket(_ descriptor: Int32) -> any SecureSocket {
        TLSChannel(
            current.pointer,
            isInitiator: false,
            TLSLimits(),
            proof: .certificate,
            socket: descriptor
        )
    }

    private var current: Context { context.withLock { $0 } ?? empty }
}

/// Names of cipher suites, of the standard or of OpenSSL.
enum CipherSuite {
    /// The suites of TLS 1.3, and those of TLS 1.2 by OpenSSL's names.
    static func split(_ names: [String]) -> (newer: [String], older: [String]) {
        var (newer, older): ([String], [String]) = ([], [])
        for name in names {
            if name.hasPrefix("TLS_AES_") || name.hasPrefix("TLS_CHACHA20_") {
                newer.append(name)
            } else if let found = ofOpenSSL(name) {
                older.append(found)
            }
        }
        return (newer, older)
    }

    /// OpenSSL's name of a suite of TLS 1.2; nil if it has none.
    static func ofOpenSSL(_ name: String) -> String? {
        guard name.hasPrefix("TLS_") else { return isKnown(name) ? name : nil }
        guard let text = OPENSSL_cipher_name(name) else { return nil }
        let found = String(cString: text)
        return isKnown(found) ? found : nil
    }

    /// Whether this system's OpenSSL can use the suite.
    static func isKnown(_ name: String) -> Bool {
        // A list may have operators, which are not part of a name.
        let isName = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isName, !name.isEmpty, let context = SSL_CTX_new(TLS_server_method()) else {
            return false
        }
        defer {
            SSL_CTX_free(context)
            ERR_clear_error()
        }
        if name.hasPrefix("TLS_AES_") || name.hasPrefix("TLS_CHACHA20_") {
            return SSL_CTX_set_ciphersuites(context, name) == 1
        }
        return name.contains("-") && SSL_CTX_set_cipher_list(context, name) == 1
    }
}
