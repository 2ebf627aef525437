internal import ClusterService
internal import Orchestration

/// Settings of automatic failover.
extension AdminRoutes {
    /// Couchbase settings that are fixed here: field, value and the reason sent with a refusal.
    private static let fixed: [(field: String, value: Bool, reason: String)] = [
        ("disableMaxCount", false, "maxCount is always enforced. Set it to at most 100"),
        (
            "canAbortRebalance", true,
            "A node that fails during a rebalance is always failed over automatically"
        ),
        (
            "failoverPreserveDurabilityMajority", true,
            "Automatic failover never loses a durable write"
        ),
        (
            "failoverOnDataDiskNonResponsiveness[enabled]", false,
            "A node whose disk stalls is not failed over automatically; an alert reports it"
        ),
        (
            "allowFailoverEphemeralNoReplicas", false,
            "Automatic failover never discards vBuckets that no other node has a copy of"
        ),
    ]

    private static let known = Set(
        fixed.map(\.field) + [
            "enabled", "timeout", "maxCount", "failoverOnDataDiskIssues[enabled]",
            "failoverOnDataDiskIssues[timePeriod]",
            "failoverOnDataDiskNonResponsiveness[timePeriod]",
        ]
    )

    /// Couchbase's default for a setting that has no effect here, since tools expect the field.
    private static let stalledSeconds = 120

    static let autoFailover: [Route] = [
        Route(.get, "/settings/autoFailover", access: .settingsRead) { call in
            let settings = call.state.settings.autoFailover
            return .json([
                "enabled": .bool(settings.isEnabled),
                "timeout": .number(settings.timeoutSeconds),
                "count": .number(call.state.autoFailoverCount),
                "maxCount": .number(settings.countMax),
                "failoverOnDataDiskIssues": [
                    "enabled": .bool(settings.isForDiskIssues),
                    "timePeriod": .number(settings.diskIssueSeconds),
                ],
                "disableMaxCount": false,
                "canAbortRebalance": true,
                "failoverPreserveDurabilityMajority": true,
                "failoverOnDataDiskNonResponsiveness": [
                    "enabled": false, "timePeriod": .number(stalledSeconds),
                ],
                "allowFailoverEphemeralNoReplicas": false,
                "reasons": .array(
                    await call.service.statistics.failoverReasons().map { .string($0) }
                ),
            ])
        },
        Route.setting("/settings/autoFailover", .settingsWrite, handler: setAutoFailover),
        Route(
            .post,
            "/settings/autoFailover/resetCount",
            access: .settingsWrite,
            needsCluster: true
        ) { call throws(AdministrationError) in
            try await call.service.settings.resetAutoFailoverCount()
            return .done
        }.accepting(),
    ]

    private static func setAutoFailover(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.settings
        form.refuseUnknownFields(except: known)
        form.checkFixed(fixed)
        form.require("enabled")
        if let isEnabled = form.flag("enabled") {
            settings.autoFailover.isEnabled = isEnabled
            if isEnabled { form.require("timeout") }
        }
        for disk in ["failoverOnDataDiskNonResponsiveness", "failoverOnDataDiskIssues"] {
            let field = "\(disk)[timePeriod]"
            guard let period = form.number(field, 5...3_600), period != stalledSeconds else {
                continue
            }
            form.refuse(
                field,
                "A failing disk causes no failover. The only value is \(stalledSeconds)."
            )
        }
        let range = AutoFailoverSettings.timeoutSecondsRange
        if let timeout = form.number("timeout", range) {
            settings.autoFailover.timeoutSeconds = timeout
        }
        if let count = form.number("maxCount", 1...100) { settings.autoFailover.countMax = count }
        if let isForDisk = form.flag("failoverOnDataDiskIssues[enabled]") {
            settings.autoFailover.isForDiskIssues = isForDisk
            if isForDisk {
                form.refuse(
                    "failoverOnDataDiskIssues[enabled]",
                    "A node whose disk fails is not failed over automatically yet. Read its alert "
                        + "and fail the node over yourself."
                )
            }
        }
        return try await form.reply(to: call, setting: settings)
    }
}
