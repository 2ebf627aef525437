internal import ClusterService
internal import Orchestration

/// Settings of how passwords are stored, under Couchbase's names.
extension AdminRoutes {
    static let security: [Route] = [
        Route(.get, "/settings/security", .securityRead) { call in
            let passwords = call.state.settings.passwords
            let changeable: [(String, JSONText)] = [
                ("scramSha1Enabled", .bool(passwords.offersSHA1)),
                ("scramShaIterations", .number(passwords.iterations)),
            ]
            return .json(.object(fixedSecurity.map { ($0.field, .bool($0.value)) } + changeable))
        },
        Route(.post, "/settings/security", .securityWrite, validates: true, setSecurity),
    ]

    /// Couchbase settings that are fixed here: field, value and the reason sent with a refusal.
    private static let fixedSecurity: [(field: String, value: Bool, reason: String)] = [
        ("scramSha512Enabled", true, "Every password has keys for SCRAM-SHA512"),
        ("scramSha256Enabled", true, "Every password has keys for SCRAM-SHA256"),
        ("disableUIOverHttp", false, "The console is served over HTTP only"),
    ]

    @Sendable private static func setSecurity(_ call: Call) async -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.settings
        form.refuseUnknownFields(
            except: Set(fixedSecurity.map(\.field) + ["scramSha1Enabled", "scramShaIterations"])
        )
        form.checkFixed(fixedSecurity)
        if let offersSHA1 = form.flag("scramSha1Enabled") {
            settings.passwords.offersSHA1 = offersSHA1
        }
        let range = PasswordSettings.iterationsRange
        if let iterations = form.wholeNumber("scramShaIterations", range) {
            settings.passwords.iterations = UInt32(iterations)
        }
        return await form.reply(to: call, setting: settings)
    }
}
