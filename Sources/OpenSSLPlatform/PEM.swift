internal import COpenSSL

/// A certificate of OpenSSL.
final class Certificate {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { X509_free(pointer) }
}

/// A private key of OpenSSL.
final class PrivateKey {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { EVP_PKEY_free(pointer) }
}

/// Certificates and keys as text (RFC 7468).
enum PEM {
    /// The certificates of a text, at least one.
    ///
    /// - Throws: `TLSError` if there is none, or one cannot be read.
    static func certificates(_ text: [UInt8]) throws(TLSError) -> [Certificate] {
        ERR_clear_error()
        var found: [Certificate] = []
        let isWhole = withReader(of: text) { reader in
            while let certificate = PEM_read_bio_X509(reader, nil, nil, nil) {
                found.append(Certificate(certificate))
            }
            // The end of the text is reported as the lack of another begin.
            return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE
        }
        guard isWhole else { throw TLSError("certificate \(found.count + 1) cannot be read") }
        ERR_clear_error()
        guard !found.isEmpty else { throw TLSError("there is no certificate") }
        return found
    }

    /// A private key, which may have a passphrase.
    ///
    /// - Throws: `TLSError` if it cannot be read.
    static func key(_ text: [UInt8], passphrase: String?) throws(TLSError) -> PrivateKey {
        ERR_clear_error()
        let found = withReader(of: text) { reader in
            var passphrase = Array((passphrase ?? "").utf8) + [0]
            return passphrase.withUnsafeMutableBytes {
                PEM_read_bio_PrivateKey(reader, nil, divan_passphrase, $0.baseAddress)
            }
        }
        guard let found else { throw TLSError("the private key cannot be read") }
        return PrivateKey(found)
    }

    static func text(of certificate: Certificate) -> [UInt8] {
        written { PEM_write_bio_X509($0, certificate.pointer) }
    }

    static func text(of key: PrivateKey) -> [UInt8] {
        written { PEM_write_bio_PKCS8PrivateKey($0, key.pointer, nil, nil, 0, nil, nil) }
    }

    private static func withReader<Result>(
        of text: [UInt8],
        _ body: (OpaquePointer) -> Result
    ) -> Result {
        text.withUnsafeBytes { bytes in
            guard let reader = divan_bio_of(bytes.baseAddress, bytes.count) else {
                preconditionFailure("there is memory for a reader")
            }
            defer { BIO_free(reader) }
            return body(reader)
        }
    }

    private static func written(_ write: (OpaquePointer) -> Int32) -> [UInt8] {
        guard let writer = BIO_new(BIO_s_secmem()) else {
            preconditionFailure("there is memory for a writer")
        }
        defer { BIO_free(writer) }
        guard write(writer) == 1 else { preconditionFailure("there is memory for a text") }
        var start: UnsafePointer<CChar>?
        let count = divan_bio_content(writer, &start)
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}
