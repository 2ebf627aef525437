internal import Bytes
internal import Orchestration
package import Seams
internal import Vocabulary

/// The certificate by which clients know this node: issued by the cluster's authority, or supplied by an operator.
///
/// It is made anew if the authority, the node's names or the time require it, and at each start: only the key of
/// a supplied one is stored.
///
/// - New connections use a new certificate at once; open ones stay as they are.
/// - A node without a cluster has an authority of its own, which is made at each start.
package final class NodeCertificates: Sendable {
    /// The values that determine the certificate and the demands on clients.
    struct Inputs: Sendable {
        /// The cluster's newest authority; nil without one, or if this node cannot open its key.
        var authority: CertificateAuthority?
        /// PEM: the certificates by which clients that trust a replaced authority accept the newest one.
        var crossCertificates: [UInt8] = []
        /// The names of this node.
        var hosts: [String] = []
        var security = SecuritySettings()
        /// The authorities of clients' certificates, as PEM.
        var clientAuthorities: [UInt8] = []
        /// Seconds since 1970.
        var now: Int64 = 0
    }

    /// A certificate that an operator has supplied, as the node stores it.
    struct Supplied: CodedFields, Hashable {
        var chain: [UInt8] = []
        var key: [UInt8] = []

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&chain, "chain")
            try coder.field(&key, "key")
        }
    }

    private struct Issued {
        let content: IssuedCertificate
        let authority: CertificateAuthority
        /// Whether the cluster has no part in the authority.
        let isOwn: Bool
        let hosts: [String]
        let notBefore: Int64
        let renewedAt: Int64
    }

    private struct Core {
        var supplied: Supplied?
        var issued: Issued?
        var used: ClientSecuritySettings?
        /// Why the newest certificate cannot be used; nil if it is.
        var failure: String?
    }

    /// The certificate as others see it.
    struct Shown: Sendable {
        /// PEM: this node's certificate, then those that lead to its authority.
        let chain: [UInt8]
        let isSupplied: Bool
    }

    /// The name under which the supplied certificate is stored.
    static let fact = "certificate"
    private static let daySeconds: Int64 = 86_400
    /// How long an issued certificate is valid; some clients refuse more than 825 days.
    private static let validDays: Int64 = 397
    /// A certificate is replaced so long before its end.
    private static let renewalDays: Int64 = 90

    package let server: any ClientSecurity
    let tools: any CertificateTools
    private let entropy: any Entropy
    private let core: Guarded<Core>

    init(_ tools: any CertificateTools, supplied: Supplied?, _ entropy: any Entropy) {
        self.tools = tools
        self.entropy = entropy
        server = tools.makeServer()
        core = Guarded(Core(supplied: supplied))
    }

    /// The certificate as REST and other nodes show it; nil before the first one.
    var shown: Shown? {
        core.withLock { core in
            if let supplied = core.supplied {
                return Shown(chain: supplied.chain, isSupplied: true)
            }
            return core.issued.map { Shown(chain: $0.content.certificate, isSupplied: false) }
        }
    }

    var failure: String? { core.withLock { $0.failure } }

    /// Replaces the supplied certificate, or with nil issues one again.
    func supply(_ supplied: Supplied?) { core.withLock { $0.supplied = supplied } }

    /// Makes what the inputs require, and uses it for new connections.
    func update(_ inputs: Inputs) {
        core.withLock { core in
            do throws(CertificateError) {
                if core.supplied == nil { try issue(inputs, &core) }
                guard let next = settings(inputs, core) else { return }
                if next != core.used { try server.use(next) }
                core.used = next
                core.failure = nil
            } catch {
                core.failure = error.description
            }
        }
    }

    private func settings(_ inputs: Inputs, _ core: Core) -> ClientSecuritySettings? {
        var settings: ClientSecuritySettings
        if let supplied = core.supplied {
            settings = ClientSecuritySettings(chain: supplied.chain, key: supplied.key)
        } else if let issued = core.issued?.content {
            let chain = issued.certificate + inputs.crossCertificates
            settings = ClientSecuritySettings(chain: chain, key: issued.key)
        } else {
            return nil
        }
        let security = inputs.security
        settings.lowestVersion = security.lowestVersion
        settings.cipherSuites = security.cipherSuites
        settings.honorsCipherOrder = security.honorsCipherOrder
        settings.clientCertificates = security.clientCertificates.state
        settings.clientAuthorities = inputs.clientAuthorities
        return settings
    }

    private func issue(_ inputs: Inputs, _ core: inout Core) throws(CertificateError) {
        let known = core.issued
        if let known, known.hosts == inputs.hosts, inputs.now >= known.notBefore,
            inputs.now < known.renewedAt,
            inputs.authority.map({ $0 == known.authority }) ?? known.isOwn
        {
            return
        }
        let own = known?.isOwn == true ? known?.authority : nil
        let authority: CertificateAuthority
        if let given = inputs.authority ?? own {
            authority = given
        } else {
            authority = try ownAuthority()
        }
        let end = inputs.now + Self.validDays * Self.daySeconds
        // A day earlier, for clients whose clock is behind.
        let begin = max(inputs.now - Self.daySeconds, 0)
        let content = try tools.issue(
            CertificateRequest(
                commonName: "Divan node",
                hosts: inputs.hosts,
                notBefore: begin,
                notAfter: end
            ),
            by: authority
        )
        core.issued = Issued(
            content: content,
            authority: authority,
            isOwn: inputs.authority == nil,
            hosts: inputs.hosts,
            notBefore: begin,
            renewedAt: end - Self.renewalDays * Self.daySeconds
        )
    }

    private func ownAuthority() throws(CertificateError) -> CertificateAuthority {
        let seed = entropy.bytes(CertificateAuthority.seedByteCount)
        let certificate = try tools.makeAuthority(seed: seed, name: "Divan node without a cluster")
        return CertificateAuthority(certificate: certificate, seed: seed)
    }
}
