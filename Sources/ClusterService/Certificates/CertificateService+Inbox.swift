internal import Bytes
internal import Orchestration
internal import Persistence
internal import Seams
internal import Vocabulary

/// Certificates that an operator supplies in the directory `inbox` of a node.
extension CertificateService {
    private var inbox: String { cluster.settings.directory + "/inbox" }

    /// The sentence for a node whose clients have no secured connections.
    private static let withoutTLS = AdministrationError.refused(
        "This node has no certificates for clients."
    )

    // MARK: This node's certificate

    /// Uses the certificate in `inbox` for new connections from now on; the former one stays if it is refused.
    ///
    /// - Parameters:
    ///   - passphrase: Of the private key; nil if it has none.
    ///   - login: Who orders it.
    /// - Throws: `refused` if the certificate cannot be used, or `failed`.
    package func reloadCertificate(
        passphrase: String?,
        by login: String
    ) async throws(AdministrationError) {
        guard let certificates else { throw Self.withoutTLS }
        let chain = try read(inbox + "/chain.pem", "the node's certificate chain")
        let pem = try read(inbox + "/pkey.key", "the private key")
        let state = cluster.state
        var supplied = SuppliedCertificate(chain: chain, key: pem, passphrase: passphrase)
        supplied.hosts = neededNames(in: state)
        supplied.authorities = state.authorities.flatMap(\.certificate)
        supplied.now = wallSeconds
        let key: [UInt8]
        do throws(CertificateError) {
            key = try certificates.tools.check(supplied)
        } catch {
            throw .refused(error.description)
        }
        try await use(.init(chain: chain, key: key), by: login)
    }

    /// Reads a file that an operator has to supply.
    private func read(_ path: String, _ content: String) throws(AdministrationError) -> [UInt8] {
        let bytes: [UInt8]?
        do throws(DiskError) {
            bytes = try cluster.environment.disk.read(path)
        } catch {
            throw .refused(error.description)
        }
        guard let bytes else { throw .refused("\(path) is missing: copy \(content) there.") }
        return bytes
    }

    /// The names that clients of other machines use, or of this one if the node has no others.
    private func neededNames(in state: ClusterState) -> [String] {
        guard let node = state.node(number: cluster.thisNode) else { return [] }
        return [node.host, node.alternate?.host].compactMap(\.self)
    }

    private func use(
        _ supplied: NodeCertificates.Supplied?,
        by login: String
    ) async throws(AdministrationError) {
        let stored = await withUnsafeContinuation { waiter in
            cluster.lane.post {
                let fact = (NodeCertificates.fact, supplied?.encoded)
                self.cluster.member.driver.keep([.fact(name: fact.0, fact.1)]) {
                    waiter.resume(returning: $0)
                }
            }
        }
        if case .failure(let error) = stored {
            throw .failed("The certificate could not be stored: \(error). Check the disk.")
        }
        certificates?.supply(supplied)
        await cluster.onControl { self.updateCertificates() }
        if let failure = certificates?.failure { throw .failed(failure) }
        let verb = supplied == nil ? "is issued by the cluster again" : "was replaced"
        cluster.logEvent(.info, .settings, "The certificate of this node \(verb), by \"\(login)\".")
    }

    // MARK: Authorities

    /// Adds the certificates in `inbox/CA` to the trusted authorities of the cluster.
    ///
    /// - Throws: `refused` or `failed`.
    package func loadTrustedAuthorities(by login: String) async throws(AdministrationError) {
        guard let tools = certificates?.tools else { throw Self.withoutTLS }
        let directory = inbox + "/CA"
        var change = AuthorityChange()
        let flaw: String?
        do throws(DiskError) {
            flaw = try add(filesOf: directory, to: &change, tools)
        } catch {
            flaw = error.description
        }
        if let flaw { throw .refused(flaw) }
        try await cluster.carryMembership(.changeAuthorities(change), by: login)
    }

    /// Why the files of a directory cannot be added; nil if they were.
    private func add(
        filesOf directory: String,
        to change: inout AuthorityChange,
        _ tools: any CertificateTools
    ) throws(DiskError) -> String? {
        let names = try cluster.environment.disk.list(directory).filter { !$0.hasPrefix(".") }
        if names.isEmpty {
            return "\(directory) has no files: copy certificates of trusted CAs there, as PEM."
        }
        for name in names {
            let path = directory + "/" + name
            guard let bytes = try cluster.environment.disk.read(path) else { continue }
            do throws(CertificateError) {
                change.added += try tools.read(bytes).map { record(of: $0, file: path) }
            } catch {
                return "\(path): \(error)"
            }
        }
        return nil
    }

    private func record(of facts: CertificateFacts, file: String) -> AuthorityRecord {
        var record = AuthorityRecord()
        record.certificate = facts.pem
        record.addedAt = cluster.wallMilliseconds
        record.host = cluster.state.node(number: cluster.thisNode)?.host ?? ""
        record.file = file
        return record
    }

    /// Removes an authority that an operator loaded, unless a node's certificate needs it.
    ///
    /// - Throws: `refused` or `failed`.
    package func removeAuthority(_ id: UInt64, by login: String) async throws(AdministrationError) {
        if cluster.state.secret.authorities.contains(where: { $0.id == id }) {
            throw .refused(
                "The cluster made this CA, and needs it. POST /controller/regenerateCertificate "
                    + "replaces it, and drops those that were replaced."
            )
        }
        if let record = cluster.state.loadedAuthorities.first(where: { $0.id == id }),
            let authority = facts(of: record)
        {
            for shown in await shownCertificates() where shown.isSupplied {
                guard let tools = certificates?.tools, let chain = try? tools.read(shown.chain),
                    chain.contains(where: { tools.isSigned($0, by: authority) })
                else { continue }
                throw .refused(
                    "The certificate of node \(shown.node.otpNode) needs this CA. Supply another "
                        + "certificate there first."
                )
            }
        }
        var change = AuthorityChange()
        change.removed = id
        try await cluster.carryMembership(.changeAuthorities(change), by: login)
    }

    /// Makes another authority of the cluster, or, while a replaced one is still trusted, drops that.
    ///
    /// - Parameters:
    ///   - dropsSupplied: Whether the certificates of all nodes are issued by the cluster again.
    ///   - login: Who orders it.
    /// - Throws: `refused`, `busy` or `failed`.
    package func regenerateCertificate(
        dropsSupplied: Bool,
        by login: String
    ) async throws(AdministrationError) {
        guard certificates != nil else { throw Self.withoutTLS }
        if dropsSupplied { try await dropSuppliedCertificates(by: login) }
        let isEnd = cluster.state.secret.authorities.count > 1
        try await cluster.renewSecret(
            .regenerate,
            logging: isEnd
                ? "The replaced CAs of the cluster are no longer trusted, by \"\(login)\"."
                : "The cluster has another CA, by \"\(login)\". Give it to all clients, then send "
                    + "regenerateCertificate again."
        )
    }

    /// Has all nodes use certificates that the cluster issues.
    private func dropSuppliedCertificates(by login: String) async throws(AdministrationError) {
        var call = CertificateCall()
        call.dropsSupplied = true
        call.login = login
        for node in cluster.state.members {
            if node.number == cluster.thisNode {
                try await dropSuppliedCertificate(by: login)
            } else if let answer = await ask(call, of: node) {
                guard answer.isSupplied else { continue }
                throw .failed(
                    "Node \(node.otpNode) could not drop its certificate; its log has the reason."
                )
            } else {
                throw .failed(
                    "Node \(node.otpNode) does not answer, so it keeps its certificate. Retry when it runs."
                )
            }
        }
    }

    /// Has this node use a certificate that the cluster issues.
    func dropSuppliedCertificate(by login: String) async throws(AdministrationError) {
        guard certificates?.shown?.isSupplied == true else { return }
        try await use(nil, by: login)
    }

    // MARK: Alerts

    /// Certificates that end soon, and authorities that were replaced.
    var certificateAlerts: [Alert] {
        guard let tools = certificates?.tools else { return [] }
        let state = cluster.state
        var alerts: [Alert] = []
        if let failure = certificates?.failure {
            alerts.append(Alert(id: "certificate", message: failure))
        }
        if let shown = certificates?.shown, shown.isSupplied {
            for facts in (try? tools.read(shown.chain)) ?? [] {
                if let end = text(ofEnd: facts) {
                    let message =
                        "The certificate \(facts.subject) of this node \(end). Supply another one: "
                        + "POST /node/controller/reloadCertificate."
                    alerts.append(Alert(id: "certificate/\(facts.fingerprint)", message: message))
                }
            }
        }
        for record in state.authorities {
            guard let facts = facts(of: record), let end = text(ofEnd: facts) else { continue }
            let message = "The trusted CA \(facts.subject) (id \(record.id)) \(end)."
            alerts.append(Alert(id: "authority/\(record.id)", message: message))
        }
        if state.secret.authorities.count > 1 {
            let message =
                "The cluster has another CA, because a node was removed or by an order, and the replaced "
                + "one is trusted for 30 days. Give the new one (GET /pools/default/certificate) to "
                + "all clients, then send POST /controller/regenerateCertificate."
            alerts.append(Alert(id: "authorities", message: message))
        }
        return alerts
    }

    /// Why a certificate needs care; nil if it does not: it ends within 30 days, or within 7.
    private func text(ofEnd facts: CertificateFacts) -> String? {
        let rest = facts.notAfter - wallSeconds
        if rest < 0 { return "has expired" }
        if facts.notBefore > wallSeconds { return "is not valid yet by this node's clock" }
        let days = rest / 86_400
        if days < 7 { return "expires in less than 7 days (\(days))" }
        return days < 30 ? "expires in less than 30 days" : nil
    }
}
