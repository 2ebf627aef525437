internal import Bytes
internal import ClusterService
internal import JSON
internal import Orchestration
internal import Seams

/// Certificates of nodes and of trusted authorities, under Couchbase's names.
extension AdminRoutes {
    static let certificates: [Route] = [
        // Without a login: a client needs the certificate before it can send one safely, and it is no secret.
        Route(.get, "/pools/default/certificate", access: .open, needsCluster: true) { call in
            guard let authority = call.state.secret.authorities.first else {
                return .text(
                    "The cluster has no certificate yet. Retry in a moment.\r\n",
                    status: 404
                )
            }
            let pem = String(decoding: authority.certificate, as: UTF8.self)
            guard call.request.query["extended"] == "true" else { return .text(pem, status: 200) }
            return .json(["cert": ["type": "generated", "pem": .string(pem)], "warnings": []])
        },
        Route(.get, "/pools/default/certificates", access: .securityRead) { call in
            let shown = await call.service.certificates.shownCertificates()
            return .json(.array(shown.map { json(of: $0, call) }))
        },
        Route(.get, "/pools/default/certificate/node/*", access: .securityRead) { call in
            guard let node = node(named: call.capture(0), call.state) else {
                return .json("Node is unknown to this cluster.", status: 404)
            }
            guard let shown = await call.service.certificates.shownCertificate(of: node) else {
                return .json("The node does not answer, or has no certificate.", status: 404)
            }
            return .json(json(of: shown, call))
        },
        Route(.get, "/pools/default/trustedCAs", access: .securityRead) { call in
            .json(.array(call.state.authorities.map { json(of: $0, call) }))
        },
        Route(.delete, "/pools/default/trustedCAs/*", access: .securityWrite) {
            call throws(AdministrationError) in
            guard let id = FormParameters.number(call.capture(0)), id > 0 else {
                return .json("Not found.", status: 404)
            }
            let isKnown = call.state.authorities.contains { $0.id == id }
            do throws(AdministrationError) {
                try await call.service.certificates.removeAuthority(id, by: call.identity.login)
                return .done
            } catch {
                return Reply(error, .string.with(\.refused, isKnown ? 400 : 404))
            }
        }.accepting(),
        Route(.post, "/node/controller/loadTrustedCAs", access: .securityWrite, body: .raw) {
            call throws(AdministrationError) in
            try await call.service.certificates.loadTrustedAuthorities(by: call.identity.login)
            let loaded = call.service.state.loadedAuthorities
            return .json(.array(loaded.map { json(of: $0, call) }))
        }.failing(as: .string),
        Route(
            .post,
            "/node/controller/reloadCertificate",
            access: .securityWrite,
            body: .raw,
            handler: reloadCertificate
        ).failing(as: .string),
        Route(
            .post,
            "/controller/regenerateCertificate",
            access: .securityWrite,
            needsCluster: true
        ) {
            call throws(AdministrationError) in
            try await call.service.certificates.regenerateCertificate(
                dropsSupplied: call.request.query["dropUploadedCertificates"] == "true",
                by: call.identity.login
            )
            guard let now = call.service.state.secret.authorities.first else { return .done }
            return .text(String(decoding: now.certificate, as: UTF8.self), status: 200)
        }.accepting(["dropUploadedCertificates"]).failing(as: .string),
    ]

    /// Reads `{"privateKeyPassphrase":{"type":"plain","password":"..."}}`, or nothing.
    private static func reloadCertificate(_ call: Call) async throws(AdministrationError) -> Reply {
        var passphrase: String?
        if !call.request.body.isEmpty {
            let value = call.request.body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
            guard let value, value.members != nil else {
                return .json("The body must be a JSON object, or empty.", status: 400)
            }
            if let given = value["privateKeyPassphrase"] {
                guard given["type"]?.string == "plain", let text = given["password"]?.string else {
                    let text =
                        "privateKeyPassphrase must have the type \"plain\" and a password: this server "
                        + "runs no script and asks no other server for it."
                    return .json(.string(text), status: 400)
                }
                passphrase = text
            }
        }
        try await call.service.certificates.reloadCertificate(
            passphrase: passphrase,
            by: call.identity.login
        )
        return .done
    }

    /// The node with a name as REST shows it, with or without the port.
    private static func node(named name: String, _ state: ClusterState) -> NodeRecord? {
        state.members.first { node in
            let hosts = [node.host.contains(":") ? "[\(node.host)]" : node.host, "localhost"]
            // Clients name the port that they use, which may be the one with TLS.
            let ports = [node.ports.admin, node.ports.adminTLS]
            let places = hosts.flatMap { host in ports.map { "\(host):\($0)" } }
            return ([node.otpNode, hosts[0], node.host] + places).contains(name)
        } ?? (state.members.count == 1 && name == "localhost" ? state.members[0] : nil)
    }

    // MARK: JSON

    private static func json(of shown: ShownCertificate, _ call: Call) -> JSONText {
        let facts = shown.facts
        let node = NodeJSON(call: call, node: shown.node)
        return [
            "node": .string(node.hostname),
            "type": shown.isSupplied ? "uploaded" : "generated",
            "subject": .string(facts.subject),
            "issuer": .string(facts.issuer),
            "notBefore": .string(PoolJSON.time(seconds: facts.notBefore)),
            "expires": .string(PoolJSON.time(seconds: facts.notAfter)),
            "fingerprint": .string(facts.fingerprint),
            "pem": .string(String(decoding: shown.chain, as: UTF8.self)),
            "warnings": .array(warnings(of: facts, call)),
        ]
    }

    private static func json(of authority: AuthorityRecord, _ call: Call) -> JSONText {
        var members: [(String, JSONText)] = [
            ("id", .number(authority.id)),
            ("type", authority.isGenerated ? "generated" : "uploaded"),
            ("pem", .string(String(decoding: authority.certificate, as: UTF8.self))),
            ("loadTimestamp", .string(PoolJSON.time(authority.addedAt))),
        ]
        if !authority.isGenerated {
            members.append(("loadHost", .string(authority.host)))
            members.append(("loadFile", .string(authority.file)))
        }
        var warnings: [JSONText] = []
        if let facts = call.service.certificates.facts(of: authority) {
            members += [
                ("subject", .string(facts.subject)),
                ("notBefore", .string(PoolJSON.time(seconds: facts.notBefore))),
                ("notAfter", .string(PoolJSON.time(seconds: facts.notAfter))),
                ("fingerprint", .string(facts.fingerprint)),
            ]
            warnings = self.warnings(of: facts, call)
        }
        if authority.replacedAt != 0 {
            let text =
                "The cluster issues no certificates from it any more: give the newest CA to all clients."
            warnings.append(["name": "replaced", "message": .string(text)])
        }
        return .object(members + [("warnings", .array(warnings))])
    }

    private static func warnings(of facts: CertificateFacts, _ call: Call) -> [JSONText] {
        let now = Int64(call.service.cluster.wallMilliseconds / 1_000)
        let rest = facts.notAfter - now
        if rest < 0 { return [["name": "expired", "message": "The certificate has expired."]] }
        if facts.notBefore > now {
            return [["name": "not_yet_valid", "message": "The certificate is not valid yet."]]
        }
        guard rest < 30 * 86_400 else { return [] }
        return [["name": "expires_soon", "message": "The certificate expires within 30 days."]]
    }
}
