internal import Bytes
internal import ClusterService
internal import JSON
internal import Orchestration
internal import Vocabulary

/// How certificates of clients name users.
extension AdminRoutes {
    static let clientCertificates: [Route] = [
        Route(.get, "/settings/clientCertAuth", access: .securityRead) { call in
            .json(json(of: call.state.settings.security.clientCertificates))
        },
        Route(.post, "/settings/clientCertAuth", access: .securityWrite, body: .raw) {
            call throws(AdministrationError) in
            switch read(call.request.body) {
            case .failure(let flaw): return .refused([flaw.error])
            case .success(let certificates):
                var settings = call.state.settings
                guard settings.security.clientCertificates != certificates else { return .done }
                guard certificates.state == .disable || !call.state.loadedAuthorities.isEmpty else {
                    return .refused([withoutAuthority])
                }
                settings.security.clientCertificates = certificates
                let was = call.state.settings
                try await call.service.settings.change(settings: settings, was: was)
                return .empty(202)
            }
        },
    ]

    /// Of the cluster's own authorities no client can have a certificate.
    private static let withoutAuthority = FieldError(
        "state",
        "The cluster trusts no CA of clients: copy it to inbox/CA of a node and send POST "
            + "/node/controller/loadTrustedCAs there"
    )

    private struct Flaw: Error {
        let error: FieldError

        init(_ field: String, _ text: String) { error = FieldError(field, text) }
    }

    private static func json(of settings: ClientCertificateSettings) -> JSONText {
        [
            "state": .string(settings.state.name),
            "prefixes": .array(
                settings.rules.map { rule in
                    [
                        "path": .string(rule.path.rawValue),
                        "prefix": .string(rule.prefix),
                        "delimiter": .string(rule.delimiter),
                    ]
                }
            ),
        ]
    }

    private static func read(_ body: [UInt8]) -> Result<ClientCertificateSettings, Flaw> {
        let value = body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let value, value.members != nil else {
            return .failure(Flaw("_", "The body must be a JSON object with state and prefixes"))
        }
        let states = ClientCertificateState.allCases
        guard let state = states.first(where: { $0.name == value["state"]?.string }) else {
            let names = states.map(\.name).joined(separator: ", ")
            return .failure(Flaw("state", "The value must be one of \(names)"))
        }
        var settings = ClientCertificateSettings()
        settings.state = state
        for entry in value["prefixes"]?.array ?? [] {
            let paths = ClientCertificate.Path.allCases.map(\.rawValue).joined(separator: ", ")
            guard let path = entry["path"]?.string.flatMap(ClientCertificate.Path.init(rawValue:))
            else {
                return .failure(Flaw("prefixes", "A path must be one of \(paths)"))
            }
            guard let prefix = entry["prefix"]?.string, let delimiter = entry["delimiter"]?.string
            else {
                return .failure(Flaw("prefixes", "Each entry needs path, prefix and delimiter"))
            }
            let rule = ClientCertificateRule(path: path, prefix: prefix, delimiter: delimiter)
            settings.rules.append(rule)
        }
        if settings.rules.count > ClientCertificateSettings.rulesMax {
            let most = ClientCertificateSettings.rulesMax
            return .failure(Flaw("prefixes", "At most \(most) entries are possible"))
        }
        if settings.rules.isEmpty, state != .disable {
            return .failure(Flaw("prefixes", "At least one entry is needed to find users"))
        }
        return .success(settings)
    }
}
