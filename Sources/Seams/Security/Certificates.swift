/// Makes, reads and checks certificates: X.509 by OpenSSL on Linux.
package protocol CertificateTools: Sendable {
    /// The certificate of an authority whose private key is derived from a seed, so that each holder of the seed
    /// has the key.
    ///
    /// - Parameters:
    ///   - seed: `CertificateAuthority.seedByteCount` unpredictable bytes.
    ///   - name: The common name.
    ///   - signer: The authority that signs it, so that a client which trusts only that one accepts a
    ///     certificate of this one; nil for its own key.
    /// - Returns: The certificate, as PEM.
    /// - Throws: `CertificateError` if it cannot be made.
    func makeAuthority(
        seed: [UInt8],
        name: String,
        signedBy signer: CertificateAuthority?
    ) throws(CertificateError) -> [UInt8]
    /// A certificate for a server, with a new key.
    ///
    /// - Throws: `CertificateError` if it cannot be made.
    func issue(
        _ request: CertificateRequest,
        by authority: CertificateAuthority
    ) throws(CertificateError) -> IssuedCertificate
    /// The certificates in a PEM text, in its order.
    ///
    /// - Throws: `CertificateError` if there is none, or one cannot be read.
    func read(_ pem: [UInt8]) throws(CertificateError) -> [CertificateFacts]
    /// Checks a certificate that an operator supplies.
    ///
    /// - Returns: Its private key as PEM, without a passphrase.
    /// - Throws: `CertificateError`, a sentence for the operator, if a client would refuse it.
    func check(_ supplied: SuppliedCertificate) throws(CertificateError) -> [UInt8]
    /// Whether a certificate was signed with the key of another one, or of itself.
    func isSigned(_ certificate: CertificateFacts, by authority: CertificateFacts) -> Bool
    /// Whether a name is one of a cipher suite.
    func isCipherSuite(_ name: String) -> Bool
    /// The server's side of connections with clients; it refuses handshakes until it has a certificate.
    func makeServer() -> any ClientSecurity
}

extension CertificateTools {
    /// An authority that signs its own certificate.
    ///
    /// - Throws: `CertificateError` if it cannot be made.
    package func makeAuthority(
        seed: [UInt8],
        name: String
    ) throws(CertificateError) -> [UInt8] {
        try makeAuthority(seed: seed, name: name, signedBy: nil)
    }
}

/// An authority that can issue certificates.
package struct CertificateAuthority: Hashable, Sendable {
    package static let seedByteCount = 32

    /// PEM.
    package let certificate: [UInt8]
    let seedBytes: [UInt8]

    package init(certificate: [UInt8], seed: [UInt8]) {
        self.certificate = certificate
        seedBytes = seed
    }

    /// The seed of its private key.
    package var seed: [UInt8] { seedBytes }
}

/// The private key is shown nowhere.
extension CertificateAuthority: CustomStringConvertible, CustomReflectable {
    package var description: String { "a certificate authority" }
    package var customMirror: Mirror { Mirror(self, children: [:] as KeyValuePairs<String, Any>) }
}

/// The content of a server's certificate.
package struct CertificateRequest: Hashable, Sendable {
    package var commonName: String
    /// Host names, and IP addresses in digits.
    package var hosts: [String]
    /// Seconds since 1970.
    package var notBefore: Int64
    package var notAfter: Int64

    package init(commonName: String, hosts: [String], notBefore: Int64, notAfter: Int64) {
        self.commonName = commonName
        self.hosts = hosts
        self.notBefore = notBefore
        self.notAfter = notAfter
    }
}

/// A new certificate and its key, as PEM.
package struct IssuedCertificate: Sendable {
    package let certificate: [UInt8]
    package let key: [UInt8]

    package init(certificate: [UInt8], key: [UInt8]) {
        self.certificate = certificate
        self.key = key
    }
}

/// The content of a certificate that operators see.
package struct CertificateFacts: Hashable, Sendable {
    /// For example "CN=Divan".
    package var subject = ""
    package var issuer = ""
    /// Seconds since 1970.
    package var notBefore: Int64 = 0
    package var notAfter: Int64 = 0
    package var isAuthority = false
    /// SHA-256 of the certificate, in hexadecimal digits.
    package var fingerprint = ""
    /// The certificate alone.
    package var pem: [UInt8] = []

    package init() {}
}

/// A certificate that an operator supplies for a node.
package struct SuppliedCertificate: Sendable {
    /// PEM: the node's certificate, then those that lead to its authority.
    package var chain: [UInt8]
    /// PEM.
    package var key: [UInt8]
    /// Nil if the key has none.
    package var passphrase: String?
    /// Host names and addresses that the certificate must have: clients compare them.
    package var hosts: [String] = []
    /// PEM: the authorities that clients trust.
    package var authorities: [UInt8] = []
    /// Seconds since 1970.
    package var now: Int64 = 0

    package init(chain: [UInt8], key: [UInt8], passphrase: String?) {
        self.chain = chain
        self.key = key
        self.passphrase = passphrase
    }
}

/// Why a certificate cannot be made or used: a sentence for an operator, with the cure.
package struct CertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
