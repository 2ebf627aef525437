package import Bytes
package import Vocabulary

/// The demands of the cluster on connections of clients; `/settings/security` shows them.
package struct SecuritySettings: Hashable, Sendable, CodedFields {
    /// The clients that the ports without TLS serve.
    ///
    /// Links between nodes are always encrypted.
    package enum EncryptionLevel: UInt8, CaseIterable, Sendable {
        case control = 0
        case all = 1
        /// Those that connect over loopback.
        case strict = 2

        /// The name in `/settings/security`.
        package var name: String {
            switch self {
            case .control: "control"
            case .all: "all"
            case .strict: "strict"
            }
        }
    }

    package var lowestVersion = TLSVersion.tls12
    /// Best first; empty for the choice of the TLS library.
    package var cipherSuites: [String] = []
    package var honorsCipherOrder = true
    /// Whether the console is served over TLS only.
    package var disablesConsoleOverHTTP = false
    /// The value of `Strict-Transport-Security` of answers over TLS; empty for none.
    package var strictTransport = ""
    package var encryptionLevel = EncryptionLevel.control
    /// Whether a client on another machine may send its password without TLS (SASL PLAIN).
    ///
    /// Sync Gateway up to 3.0.8 needs it.
    package var allowsPlainWithoutTLS = true
    package var clientCertificates = ClientCertificateSettings()

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&lowestVersion, "version of TLS")
        try coder.field(&cipherSuites, "cipher suites")
        try coder.field(&honorsCipherOrder, "order of cipher suites")
        try coder.field(&disablesConsoleOverHTTP, "console over HTTP")
        try coder.field(&strictTransport, "strict transport")
        try coder.choice(&encryptionLevel, "level of encryption")
        try coder.field(&allowsPlainWithoutTLS, "PLAIN without TLS")
        try coder.field(&clientCertificates, "certificates of clients")
    }
}
