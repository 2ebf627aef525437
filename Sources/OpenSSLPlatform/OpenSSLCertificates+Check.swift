internal import COpenSSL
internal import Glibc
package import Seams

/// The checks of a certificate that an operator supplies: each flaw is one that clients would refuse.
extension OpenSSLCertificates {
    /// Returns the private key without a passphrase.
    ///
    /// - Throws: `CertificateError`, a sentence for the operator, if a client would refuse the certificate.
    package func check(_ supplied: SuppliedCertificate) throws(CertificateError) -> [UInt8] {
        let chain = try Self.chain(supplied.chain)
        let key = try Self.key(supplied)
        guard X509_check_private_key(chain[0].pointer, key.pointer) == 1 else {
            ERR_clear_error()
            throw CertificateError(
                "The private key is not that of the first certificate in the chain "
                    + "(\(Self.facts(chain[0]).subject)). Supply the key of the node's certificate, "
                    + "and put that certificate first."
            )
        }
        for certificate in chain { try Self.checkTime(of: certificate, at: supplied.now) }
        try Self.checkNames(of: chain[0], supplied.hosts)
        try Self.checkIssuer(of: chain, supplied)
        return PEM.text(of: key)
    }

    private static func chain(_ text: [UInt8]) throws(CertificateError) -> [Certificate] {
        do throws(TLSError) {
            return try PEM.certificates(text)
        } catch {
            throw CertificateError(
                "The chain is not a list of certificates in PEM: \(error). Begin it with the node's "
                    + "certificate, then the intermediate ones."
            )
        }
    }

    private static func key(_ supplied: SuppliedCertificate) throws(CertificateError) -> PrivateKey
    {
        do throws(TLSError) {
            return try PEM.key(supplied.key, passphrase: supplied.passphrase)
        } catch {
            guard error.isAboutPassphrase else {
                throw CertificateError("The private key is not one in PEM: \(error).")
            }
            throw CertificateError(
                supplied.passphrase == nil
                    ? "The private key has a passphrase. Supply it as privateKeyPassphrase."
                    : "The passphrase of the private key is wrong."
            )
        }
    }

    private static func checkTime(
        of certificate: Certificate,
        at now: Int64
    ) throws(CertificateError) {
        let facts = facts(certificate)
        if facts.notAfter < now {
            throw CertificateError(
                "The certificate \(facts.subject) expired at \(text(ofTime: facts.notAfter)). "
                    + "Supply a current one, or correct this node's clock "
                    + "(it is \(text(ofTime: now)))."
            )
        }
        if facts.notBefore > now {
            throw CertificateError(
                "The certificate \(facts.subject) is not valid before "
                    + "\(text(ofTime: facts.notBefore)). Wait, or correct this node's clock "
                    + "(it is \(text(ofTime: now)))."
            )
        }
    }

    /// Clients compare the name or address to which they connect.
    private static func checkNames(
        of certificate: Certificate,
        _ hosts: [String]
    ) throws(CertificateError) {
        let missing = hosts.filter { host in
            let isAddress = a2i_IPADDRESS(host)
            defer { ASN1_OCTET_STRING_free(isAddress) }
            return isAddress != nil
                ? X509_check_ip_asc(certificate.pointer, host, 0) != 1
                : X509_check_host(certificate.pointer, host, host.utf8.count, 0, nil) != 1
        }
        guard !missing.isEmpty else { return }
        throw CertificateError(
            "The certificate \(facts(certificate).subject) does not have this node's name "
                + "\(missing.joined(separator: " and ")) as a subject alternative name. Supply one "
                + "that has it, or rename the node."
        )
    }

    /// Clients need a chain that ends at an authority which they trust.
    private static func checkIssuer(
        of chain: [Certificate],
        _ supplied: SuppliedCertificate
    ) throws(CertificateError) {
        guard let store = X509_STORE_new() else {
            preconditionFailure("there is memory for a list of authorities")
        }
        defer { X509_STORE_free(store) }
        if !supplied.authorities.isEmpty {
            for authority in try Self.chain(supplied.authorities) {
                X509_STORE_add_cert(store, authority.pointer)
            }
        }
        var depth: Int32 = 0
        let pointers = chain.map { Optional($0.pointer) }
        let code = divan_x509_verify(
            store,
            pointers,
            Int32(pointers.count),
            supplied.now,
            &depth
        )
        ERR_clear_error()
        guard code != X509_V_OK else { return }
        let last = facts(chain[min(Int(depth), chain.count - 1)])
        switch code {
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
            throw CertificateError(
                "The chain ends at \(last.issuer), which is no trusted CA of the cluster. Copy its "
                    + "certificate to inbox/CA and send POST /node/controller/loadTrustedCAs, and "
                    + "add missing intermediate certificates to the chain."
            )
        default:
            let reason = String(cString: X509_verify_cert_error_string(Int(code)))
            throw CertificateError(
                "Clients would refuse the certificate \(last.subject): \(reason)."
            )
        }
    }

    private static func text(ofTime seconds: Int64) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        var buffer = [CChar](repeating: 0, count: 32)
        strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M:%S UTC", &parts)
        return String(
            decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
            as: UTF8.self
        )
    }
}
