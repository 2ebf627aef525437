internal import Bytes
internal import Credentials
package import Orchestration
internal import Persistence
package import Seams
internal import Vocabulary

/// The certificate of a node, as REST shows it.
package struct ShownCertificate: Sendable {
    package let node: NodeRecord
    package let facts: CertificateFacts
    /// PEM: the node's certificate, then those that lead to its authority.
    package let chain: [UInt8]
    /// Whether an operator supplied it.
    package let isSupplied: Bool
}

/// Keeps this node's certificate as the state requires, and tells those of all nodes.
package final class CertificateService: Sendable {
    let cluster: Cluster
    /// Nil if the environment has no certificates.
    let certificates: NodeCertificates?

    /// - Throws: `ClusterError` if the certificate that an operator supplied before cannot be read.
    init(_ cluster: Cluster) throws(ClusterError) {
        self.cluster = cluster
        let supplied = try Self.storedCertificate(in: cluster.member.store)
        certificates = cluster.environment.security.certificates.map {
            NodeCertificates($0, supplied: supplied, cluster.environment.entropy)
        }
    }

    /// A clock that was corrected must not keep a certificate for long that is not valid.
    private static var certificateCheckNanoseconds: UInt64 { 60_000_000_000 }
    private static var certificateTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// The certificate of this node; nil if clients have no secured connections.
    package var clientSecurity: (any ClientSecurity)? { certificates?.server }

    /// Reads the certificate that an operator has supplied before; on the thread of the start.
    ///
    /// - Throws: `ClusterError` if it cannot be read.
    static func storedCertificate(
        in store: ControlStore
    ) throws(ClusterError) -> NodeCertificates.Supplied? {
        do throws(StorageError) {
            guard let bytes = try store.fact(NodeCertificates.fact) else { return nil }
            guard let supplied = try? NodeCertificates.Supplied(decoding: bytes) else {
                throw StorageError(.damaged, "The stored certificate of this node is damaged")
            }
            return supplied
        } catch {
            throw ClusterError(error)
        }
    }

    /// Makes the certificate that the present state requires, if it has another one.
    func updateCertificates() {
        guard let certificates else { return }
        let (state, member) = cluster.core.withLock { ($0.state, $0.member) }
        var inputs = NodeCertificates.Inputs()
        let seed = member.identity.secrets.shared(in: state, by: member.node).authority
        if let authority = state.secret.authorities.first, !seed.isEmpty {
            inputs.authority = CertificateAuthority(
                certificate: authority.certificate,
                seed: seed
            )
        }
        inputs.crossCertificates = state.secret.authorities.flatMap(\.crossCertificate)
        inputs.hosts = hosts(of: state.node(number: member.node))
        inputs.security = state.settings.security
        // Not those of the cluster: a node that was removed knows the key of a replaced one, and could make a
        // certificate that names any user.
        inputs.clientAuthorities = state.loadedAuthorities.flatMap(\.certificate)
        inputs.now = wallSeconds
        let before = certificates.failure
        certificates.update(inputs)
        if let failure = certificates.failure, failure != before {
            cluster.logEvent(.error, .node, failure)
        }
    }

    /// Seconds since 1970.
    var wallSeconds: Int64 { Int64(clamping: cluster.wallMilliseconds / 1_000) }

    /// Checks from time to time whether the certificate has to be renewed.
    func watchCertificates() {
        guard certificates != nil else { return }
        updateCertificates()
        cluster.lane.post(after: Self.certificateCheckNanoseconds) { [weak self] in
            guard let self, !cluster.isStopped else { return }
            watchCertificates()
        }
    }

    /// The names under which clients reach this node: those of the cluster, of the operator, and of its machine.
    private func hosts(of node: NodeRecord?) -> [String] {
        let address = cluster.core.withLock { $0.address?.host }
        let named =
            [node?.host, node?.alternate?.host, address].compactMap(\.self)
            + cluster.settings.hostNames
        var hosts: [String] = []
        for host in named + ["localhost", "127.0.0.1", "::1"]
        where !hosts.contains(host) && !["0.0.0.0", "::", ""].contains(host) {
            hosts.append(host)
        }
        return hosts
    }

    // MARK: All nodes

    /// The certificates of all nodes that answer.
    package func shownCertificates() async -> [ShownCertificate] {
        let members = cluster.state.members
        return await withTaskGroup { group in
            for node in members {
                group.addTask { await self.shownCertificate(of: node) }  // tidy:allow a child
            }
            var shown: [ShownCertificate] = []
            for await certificate in group {
                if let certificate { shown.append(certificate) }
            }
            return shown.sorted { $0.node.number < $1.node.number }
        }
    }

    /// The certificate of a node; nil if it does not answer, or has none.
    package func shownCertificate(of node: NodeRecord) async -> ShownCertificate? {
        guard let certificates else { return nil }
        var answer = CertificateAnswer(certificates.shown)
        if node.number != cluster.thisNode {
            guard let asked = await ask(CertificateCall(), of: node) else { return nil }
            answer = asked
        }
        guard let facts = try? certificates.tools.read(answer.chain).first else { return nil }
        return ShownCertificate(
            node: node,
            facts: facts,
            chain: answer.chain,
            isSupplied: answer.isSupplied
        )
    }

    func handleCertificates() {
        cluster.calls.handleCalls(PeerKind.certificate) { [weak self] _, payload, answer in
            guard let self, let call = try? CertificateCall(decoding: payload) else {
                return answer(CertificateAnswer(nil).encoded)
            }
            guard call.dropsSupplied else {
                return answer(CertificateAnswer(certificates?.shown).encoded)
            }
            cluster.executor.spawn {
                do throws(AdministrationError) {
                    try await self.dropSuppliedCertificate(by: call.login)
                } catch {
                    self.cluster.logEvent(.error, .node, error.description)
                }
                answer(CertificateAnswer(self.certificates?.shown).encoded)
            }
        }
    }

    /// Asks another node; nil if it does not answer.
    func ask(_ call: CertificateCall, of node: NodeRecord) async -> CertificateAnswer? {
        await cluster.calls.ask(
            PeerKind.certificate,
            call,
            to: node.number,
            timeoutNanoseconds: Self.certificateTimeoutNanoseconds
        )
    }

    /// The content of an authority's certificate; nil if it cannot be read.
    package func facts(of authority: AuthorityRecord) -> CertificateFacts? {
        try? certificates?.tools.read(authority.certificate).first
    }

    /// Whether a name is one of a cipher suite that this node can use.
    package func isCipherSuite(_ name: String) -> Bool {
        certificates?.tools.isCipherSuite(name) ?? false
    }
}

/// Asks a node for its certificate.
struct CertificateCall: ExtensibleFields, Hashable {
    /// Whether it first returns to a certificate that the cluster issues.
    var dropsSupplied = false
    /// Who orders that.
    var login = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&dropsSupplied, "order")
        try coder.field(&login, "login")
    }
}

/// The certificate of a node for clients; empty if it has none.
struct CertificateAnswer: ExtensibleFields, Hashable {
    var chain: [UInt8] = []
    var isSupplied = false

    init() {}

    init(_ shown: NodeCertificates.Shown?) {
        chain = shown?.chain ?? []
        isSupplied = shown?.isSupplied ?? false
    }

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&chain, "chain")
        try coder.field(&isSupplied, "origin")
    }
}
