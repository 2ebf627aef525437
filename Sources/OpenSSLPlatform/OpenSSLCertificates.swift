internal import COpenSSL
internal import Glibc
package import Seams
internal import Vocabulary

/// Certificates by the system's OpenSSL: keys of P-256, which every client accepts.
///
/// An authority is valid from 2013 to 2049, whatever the clock of the node that makes it: a clock that is years
/// wrong must not make it useless for ever.
package struct OpenSSLCertificates: CertificateTools {
    private static let authorityBegin: Int64 = 1_356_998_400
    private static let authorityEnd: Int64 = 2_524_607_999
    private static let serialByteCount = 16

    package init() {}

    package func makeServer() -> any ClientSecurity { TLSServer() }

    package func isCipherSuite(_ name: String) -> Bool {
        CipherSuite.isKnown(name) || CipherSuite.ofOpenSSL(name) != nil
    }

    /// Makes the certificate of an authority with the key that follows from a seed.
    ///
    /// - Throws: `CertificateError` if OpenSSL cannot make it.
    package func makeAuthority(
        seed: [UInt8],
        name: String,
        signedBy signer: CertificateAuthority?
    ) throws(CertificateError) -> [UInt8] {
        do throws(TLSError) {
            let key = try Self.key(of: seed)
            var issuer: Certificate?
            if let signer { issuer = try PEM.certificates(signer.certificate)[0] }
            let draft = Draft(
                subject: name,
                issuer: issuer.map(Self.commonName) ?? name,
                notBefore: Self.authorityBegin,
                notAfter: Self.authorityEnd
            )
            let made = try Self.certificate(draft, of: key)
            try Self.extend(
                made,
                issuer: issuer ?? made,
                [
                    (NID_basic_constraints, "critical,CA:TRUE"),
                    (NID_key_usage, "critical,keyCertSign,cRLSign"),
                    (NID_subject_key_identifier, "hash"),
                ]
            )
            if let issuer {
                let identifier = [(NID_authority_key_identifier, "keyid:always")]
                try Self.extend(made, issuer: issuer, identifier)
            }
            var signing = key
            if let signer { signing = try Self.key(of: signer.seed) }
            try Self.sign(made, with: signing)
            return PEM.text(of: made)
        } catch {
            throw CertificateError("The cluster's authority cannot be made: \(error)")
        }
    }

    /// Makes a certificate for a server, and its key.
    ///
    /// - Throws: `CertificateError` if OpenSSL cannot make it.
    package func issue(
        _ request: CertificateRequest,
        by authority: CertificateAuthority
    ) throws(CertificateError) -> IssuedCertificate {
        do throws(TLSError) {
            let issuer = try PEM.certificates(authority.certificate)[0]
            guard let new = divan_new_p256_key() else {
                throw TLSError("no key can be made")
            }
            let key = PrivateKey(new)
            let draft = Draft(
                subject: request.commonName,
                issuer: Self.commonName(of: issuer),
                notBefore: request.notBefore,
                notAfter: min(request.notAfter, Self.authorityEnd)
            )
            let made = try Self.certificate(draft, of: key)
            try Self.extend(
                made,
                issuer: issuer,
                [
                    (NID_basic_constraints, "critical,CA:FALSE"),
                    (NID_key_usage, "critical,digitalSignature"),
                    (NID_ext_key_usage, "serverAuth"),
                    (NID_subject_key_identifier, "hash"),
                    (NID_authority_key_identifier, "keyid:always"),
                ]
            )
            try Self.add(request.hosts, to: made)
            try Self.sign(made, with: try Self.key(of: authority.seed))
            return IssuedCertificate(certificate: PEM.text(of: made), key: PEM.text(of: key))
        } catch {
            throw CertificateError("A certificate for this node cannot be made: \(error)")
        }
    }

    /// The certificates in a PEM text, in its order.
    ///
    /// - Throws: `CertificateError` if there is none, or one cannot be read.
    package func read(_ pem: [UInt8]) throws(CertificateError) -> [CertificateFacts] {
        do throws(TLSError) {
            return try PEM.certificates(pem).map(Self.facts)
        } catch {
            throw CertificateError("It is not a list of certificates in PEM: \(error)")
        }
    }

    package func isSigned(_ certificate: CertificateFacts, by authority: CertificateFacts) -> Bool {
        guard let certificate = try? PEM.certificates(certificate.pem).first,
            let authority = try? PEM.certificates(authority.pem).first
        else { return false }
        defer { ERR_clear_error() }
        return X509_verify(certificate.pointer, X509_get0_pubkey(authority.pointer)) == 1
    }

    // MARK: Making

    /// The fields of a certificate.
    private struct Draft {
        let subject: String
        let issuer: String
        let notBefore: Int64
        let notAfter: Int64
    }

    private static func key(of seed: [UInt8]) throws(TLSError) -> PrivateKey {
        guard let key = divan_p256_key(seed, seed.count) else {
            throw TLSError("the authority's key cannot be derived")
        }
        return PrivateKey(key)
    }

    private static func certificate(
        _ draft: Draft,
        of key: PrivateKey
    ) throws(TLSError) -> Certificate {
        guard let new = X509_new() else { throw TLSError("no certificate can be made") }
        let made = Certificate(new)
        var serial = [UInt8](repeating: 0, count: serialByteCount)
        guard RAND_bytes(&serial, Int32(serial.count)) == 1,
            let number = BN_bin2bn(serial, Int32(serial.count), nil)
        else { throw TLSError("no serial number can be made") }
        defer { BN_free(number) }
        let isMade =
            X509_set_version(new, 2) == 1
            && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(new)) != nil
            && ASN1_TIME_set(X509_getm_notBefore(new), time_t(draft.notBefore)) != nil
            && ASN1_TIME_set(X509_getm_notAfter(new), time_t(draft.notAfter)) != nil
            && X509_set_pubkey(new, key.pointer) == 1
            && setName(draft.subject, of: X509_get_subject_name(new))
            && setName(draft.issuer, of: X509_get_issuer_name(new))
        guard isMade else { throw TLSError("the certificate's fields cannot be set") }
        return made
    }

    private static func setName(_ text: String, of name: OpaquePointer?) -> Bool {
        let bytes = Array(text.utf8)
        return X509_NAME_add_entry_by_NID(
            name,
            NID_commonName,
            MBSTRING_UTF8,
            bytes,
            Int32(bytes.count),
            -1,
            0
        ) == 1
    }

    private static func commonName(of certificate: Certificate) -> String {
        let names = CertificateNames(of: certificate.pointer)
        return names.found[.commonName]?.first ?? ""
    }

    private static func extend(
        _ certificate: Certificate,
        issuer: Certificate,
        _ extensions: [(kind: Int32, value: String)]
    ) throws(TLSError) {
        for (kind, value) in extensions {
            let isAdded = divan_x509_extend(certificate.pointer, issuer.pointer, kind, value) == 1
            guard isAdded else { throw TLSError("the extension \(value) cannot be set") }
        }
    }

    private static func add(_ hosts: [String], to certificate: Certificate) throws(TLSError) {
        guard !hosts.isEmpty, let names = divan_names_new() else { return }
        defer { divan_names_free(names) }
        for host in hosts {
            guard divan_names_add_host(names, host) == 1 else {
                throw TLSError("the name \(host) cannot be set")
            }
        }
        guard divan_x509_set_names(certificate.pointer, names) == 1 else {
            throw TLSError("the names cannot be set")
        }
    }

    private static func sign(
        _ certificate: Certificate,
        with key: PrivateKey
    ) throws(TLSError) {
        guard X509_sign(certificate.pointer, key.pointer, EVP_sha256()) > 0 else {
            throw TLSError("the certificate cannot be signed")
        }
    }

    // MARK: Reading

    static func facts(_ certificate: Certificate) -> CertificateFacts {
        let pointer = certificate.pointer
        var facts = CertificateFacts()
        facts.subject = text(of: X509_get_subject_name(pointer))
        facts.issuer = text(of: X509_get_issuer_name(pointer))
        facts.notBefore = Int64(divan_asn1_seconds(X509_get0_notBefore(pointer)))
        facts.notAfter = Int64(divan_asn1_seconds(X509_get0_notAfter(pointer)))
        facts.isAuthority = X509_check_ca(pointer) >= 1
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        if X509_digest(pointer, EVP_sha256(), &digest, &count) == 1 {
            facts.fingerprint = digest.prefix(Int(count)).map(hex).joined()
        }
        facts.pem = PEM.text(of: certificate)
        return facts
    }

    private static func hex(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16)
        return byte < 16 ? "0" + digits : digits
    }

    /// A name as text, for example `CN=Divan, O=Example`.
    private static func text(of name: OpaquePointer?) -> String {
        guard let writer = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(writer) }
        guard divan_x509_print_name(writer, name) >= 0 else { return "" }
        var start: UnsafePointer<CChar>?
        let count = divan_bio_content(writer, &start)
        return String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
}
