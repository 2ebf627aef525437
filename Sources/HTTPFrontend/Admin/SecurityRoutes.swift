internal import Bytes
internal import ClusterService
internal import JSON
internal import Orchestration
internal import Vocabulary

/// Settings of passwords and of connections with TLS, under Couchbase's names.
extension AdminRoutes {
    static let security: [Route] = [
        Route(.get, "/settings/security", access: .securityRead) { call in
            .json(.object(json(of: call.state.settings)))
        },
        Route(
            .post,
            "/settings/security",
            access: .securityWrite,
            validates: true,
            handler: setSecurity
        ),
    ]

    /// Couchbase settings that are fixed here: field, value and the reason sent with a refusal.
    private static let fixedSecurity: [(field: String, value: Bool, reason: String)] = [
        ("scramSha512Enabled", true, "Every password has keys for SCRAM-SHA512"),
        ("scramSha256Enabled", true, "Every password has keys for SCRAM-SHA256"),
        ("disableUIOverHttps", false, "The console is always served over TLS"),
        ("disableWWWAuthenticate", false, "Refusals for want of a login always have the challenge"),
    ]

    private static let strictTransport = "Strict-Transport-Security"

    private static func json(of settings: ClusterSettings) -> [(String, JSONText)] {
        let (passwords, security) = (settings.passwords, settings.security)
        var headers: [(String, JSONText)] = []
        if !security.strictTransport.isEmpty {
            headers = [(strictTransport, .string(security.strictTransport))]
        }
        return fixedSecurity.map { ($0.field, .bool($0.value)) } + [
            ("scramSha1Enabled", .bool(passwords.offersSHA1)),
            ("scramShaIterations", .number(passwords.iterations)),
            ("disableUIOverHttp", .bool(security.disablesConsoleOverHTTP)),
            ("tlsMinVersion", .string(security.lowestVersion.name)),
            ("cipherSuites", .array(security.cipherSuites.map(JSONText.string))),
            ("honorCipherOrder", .bool(security.honorsCipherOrder)),
            ("clusterEncryptionLevel", .string(security.encryptionLevel.name)),
            ("responseHeaders", .object(headers)),
            ("allowPlainWithoutTLS", .bool(security.allowsPlainWithoutTLS)),
        ]
    }

    private static func setSecurity(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.settings
        form.refuseUnknownFields(except: Set(json(of: settings).map(\.0)))
        form.checkFixed(fixedSecurity)
        if let offersSHA1 = form.flag("scramSha1Enabled") {
            settings.passwords.offersSHA1 = offersSHA1
        }
        let range = PasswordSettings.iterationsRange
        if let iterations = form.wholeNumber("scramShaIterations", range) {
            settings.passwords.iterations = UInt32(iterations)
        }
        setTransport(&settings.security, &form, for: call)
        return try await form.reply(to: call, setting: settings)
    }

    private static func setTransport(
        _ security: inout SecuritySettings,
        _ form: inout SettingsForm,
        for call: Call
    ) {
        if let value = form.flag("disableUIOverHttp") { security.disablesConsoleOverHTTP = value }
        if let value = form.flag("honorCipherOrder") { security.honorsCipherOrder = value }
        if let value = form.flag("allowPlainWithoutTLS") { security.allowsPlainWithoutTLS = value }
        let versions = TLSVersion.allCases.map { ($0.name, $0) }
        if let version = form.choice("tlsMinVersion", versions) { security.lowestVersion = version }
        let levels = SecuritySettings.EncryptionLevel.allCases.map { ($0.name, $0) }
        if let level = form.choice("clusterEncryptionLevel", levels) {
            security.encryptionLevel = level
        }
        if let text = call.request.form["cipherSuites"] {
            setCipherSuites(&security, text, in: &form, for: call)
        }
        if let text = call.request.form["responseHeaders"] {
            setHeaders(&security, text, in: &form)
        }
    }

    /// Reads a JSON list of names; the empty list is the choice of the TLS library.
    private static func setCipherSuites(
        _ security: inout SecuritySettings,
        _ text: String,
        in form: inout SettingsForm,
        for call: Call
    ) {
        let value = Array(text.utf8).withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let names = value?.array?.map(\.string), !names.contains(nil) else {
            return form.refuse("cipherSuites", "The value must be a JSON list of names")
        }
        let known = names.compactMap(\.self)
        let unknown = known.filter { !call.service.certificates.isCipherSuite($0) }
        guard unknown.isEmpty else {
            let list = unknown.joined(separator: ", ")
            return form.refuse("cipherSuites", "Unknown cipher suites: \(list)")
        }
        security.cipherSuites = known
    }

    /// Reads a JSON object with the one header that may be set.
    private static func setHeaders(
        _ security: inout SecuritySettings,
        _ text: String,
        in form: inout SettingsForm
    ) {
        let value = Array(text.utf8).withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let members = value?.members else {
            return form.refuse("responseHeaders", "The value must be a JSON object")
        }
        let isOther = members.contains { $0.name != strictTransport }
        let header = value?[strictTransport]?.string
        let isPrintable = header?.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f } ?? members.isEmpty
        guard !isOther, isPrintable, header?.utf8.count ?? 0 <= 256 else {
            return form.refuse("responseHeaders", "Only \(strictTransport) can be set, to a text")
        }
        security.strictTransport = header ?? ""
    }
}
