import OpenSSLPlatform
import Seams
import Testing

/// Certificates of authorities and nodes, and the refusals of those that operators supply.
@Suite struct CertificateTests {
    private let tools = OpenSSLCertificates()
    /// 2026-11-30.
    private let now: Int64 = 1_796_000_000
    private let day: Int64 = 86_400

    private func authority(_ byte: UInt8) throws -> CertificateAuthority {
        let seed = [UInt8](repeating: byte, count: CertificateAuthority.seedByteCount)
        let certificate = try tools.makeAuthority(seed: seed, name: "Authority \(byte)")
        return CertificateAuthority(certificate: certificate, seed: seed)
    }

    private func issue(
        _ hosts: [String],
        by authority: CertificateAuthority
    ) throws -> IssuedCertificate {
        let request = CertificateRequest(
            commonName: "node",
            hosts: hosts,
            notBefore: now - day,
            notAfter: now + 10 * day
        )
        return try tools.issue(request, by: authority)
    }

    private func supplied(
        _ issued: IssuedCertificate,
        trusting authority: CertificateAuthority,
        hosts: [String] = ["10.0.0.1"]
    ) -> SuppliedCertificate {
        var supplied = SuppliedCertificate(
            chain: issued.certificate,
            key: issued.key,
            passphrase: nil
        )
        supplied.hosts = hosts
        supplied.authorities = authority.certificate
        supplied.now = now
        return supplied
    }

    /// The sentence with which a certificate is refused; empty if it is not.
    private func refusal(_ supplied: SuppliedCertificate) -> String {
        do throws(CertificateError) {
            _ = try tools.check(supplied)
            return ""
        } catch {
            return error.description
        }
    }

    @Test func authorityCertificateIsValidFrom2013To2049() throws {
        let facts = try tools.read(try authority(1).certificate)
        #expect(facts.count == 1 && facts[0].isAuthority)
        #expect(facts[0].subject == "CN=Authority 1" && facts[0].issuer == facts[0].subject)
        // 2013-01-01 and 2049-12-31.
        #expect(facts[0].notBefore == 1_356_998_400 && facts[0].notAfter == 2_524_607_999)
    }

    @Test func eachHolderOfTheSeedSignsForTheSameAuthority() throws {
        let first = try authority(1)
        // Another certificate of the same key, as another process would make it.
        let again = try authority(1)
        #expect(first.certificate != again.certificate)
        let signer = CertificateAuthority(certificate: first.certificate, seed: again.seed)
        let issued = try issue(["10.0.0.1"], by: signer)
        #expect(refusal(supplied(issued, trusting: first)) == "")
    }

    @Test func certificateSignedWithAnotherSeedIsNotTrusted() throws {
        let first = try authority(1)
        let forger = CertificateAuthority(
            certificate: first.certificate,
            seed: try authority(2).seed
        )
        let issued = try issue(["10.0.0.1"], by: forger)
        #expect(refusal(supplied(issued, trusting: first)) != "")
        let other = try issue(["10.0.0.1"], by: try authority(2))
        #expect(refusal(supplied(other, trusting: first)).contains("no trusted CA"))
    }

    @Test func certificateIsReadWithNamesAndTimes() throws {
        let issued = try issue(["10.0.0.1", "node.example", "::1"], by: try authority(1))
        let facts = try #require(try tools.read(issued.certificate).first)
        #expect(facts.subject == "CN=node" && facts.issuer == "CN=Authority 1")
        #expect(facts.notBefore == now - day && facts.notAfter == now + 10 * day)
        #expect(!facts.isAuthority && facts.fingerprint.count == 64)
        #expect(facts.pem == issued.certificate)
    }

    @Test func certificateOutsideItsTimeIsRefusedWithTheClock() throws {
        let authority = try authority(1)
        var supplied = supplied(try issue(["10.0.0.1"], by: authority), trusting: authority)
        supplied.now = now + 11 * day
        #expect(refusal(supplied).contains("expired at 20"))
        supplied.now = now - 2 * day
        #expect(refusal(supplied).contains("is not valid before 20"))
        #expect(refusal(supplied).contains("correct this node's clock"))
    }

    @Test(arguments: ["10.0.0.2", "other.example", "::2"])
    func certificateWithoutTheNameOfTheNodeIsRefused(host: String) throws {
        let authority = try authority(1)
        let issued = try issue(["10.0.0.1", "node.example", "::1"], by: authority)
        let hosts = ["10.0.0.1", "node.example", "::1"]
        #expect(refusal(supplied(issued, trusting: authority, hosts: hosts)) == "")
        let flaw = refusal(supplied(issued, trusting: authority, hosts: hosts + [host]))
        #expect(flaw.contains("this node's name \(host) "), "\(flaw)")
    }

    @Test func keyOfAnotherCertificateIsRefused() throws {
        let authority = try authority(1)
        var supplied = supplied(try issue(["10.0.0.1"], by: authority), trusting: authority)
        supplied.key = try issue(["10.0.0.1"], by: authority).key
        #expect(refusal(supplied).contains("not that of the first certificate"))
        supplied.key = Array("-----BEGIN PRIVATE KEY-----\nAAAA\n".utf8)
        #expect(refusal(supplied).contains("not one in PEM"))
        supplied.chain = []
        #expect(refusal(supplied).contains("not a list of certificates in PEM"))
    }

    @Test func damagedCertificateAfterGoodOnesIsRefused() throws {
        let good = try authority(1).certificate
        let damaged = Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
        #expect(throws: CertificateError.self) { try tools.read(good + damaged) }
        #expect(throws: CertificateError.self) { try tools.read(Array("text".utf8)) }
        #expect(try tools.read(good + Array("text\n".utf8) + good).count == 2)
    }

    @Test func cipherSuitesHaveNamesOfTheStandardAndOfOpenSSL() {
        for name in [
            "TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ] {
            #expect(tools.isCipherSuite(name), "\(name)")
        }
        for name in ["ALL", "ALL:!NULL", "", "TLS_AES_1_GCM_SHA256", "HIGH", "@SECLEVEL=0"] {
            #expect(!tools.isCipherSuite(name), "\(name)")
        }
    }

    @Test func serverRefusesACertificateWithAnotherKeyAndKeepsTheFormerOne() throws {
        let authority = try authority(1)
        let (one, other) = (
            try issue(["10.0.0.1"], by: authority), try issue(["10.0.0.1"], by: authority)
        )
        let server = tools.makeServer()
        try server.use(ClientSecuritySettings(chain: one.certificate, key: one.key))
        #expect(throws: CertificateError.self) {
            try server.use(ClientSecuritySettings(chain: one.certificate, key: other.key))
        }
    }
}
