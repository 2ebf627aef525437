internal import ClusterService
internal import Orchestration

/// How indexes of views are updated, built and compacted.
extension AdminRoutes {
    static let indexing: [Route] = [
        Route(.get, "/settings/viewUpdateDaemon", access: .settingsRead) { call in
            .json(updates(call.state.indexing))
        },
        Route.setting("/settings/viewUpdateDaemon", .settingsWrite, handler: setUpdates),
        Route(.get, "/settings/maxParallelIndexers", access: .settingsRead) { call in
            .json(indexers(call.state.indexing, call.state))
        },
        Route.setting("/settings/maxParallelIndexers", .settingsWrite, handler: setIndexers),
        Route.setting("/controller/setAutoCompaction", .settingsWrite, handler: setCompaction),
    ]

    private static func updates(_ settings: IndexingSettings) -> JSONText {
        [
            "updateInterval": .number(settings.updateIntervalMilliseconds),
            "updateMinChanges": .number(settings.updateMinChanges),
            "replicaUpdateMinChanges": .number(settings.replicaUpdateMinChanges),
        ]
    }

    private static func indexers(_ settings: IndexingSettings, _ state: ClusterState) -> JSONText {
        let count = JSONText.number(settings.parallelIndexersMax)
        return [
            "globalValue": count,
            "nodes": .object(state.nodes.map { ($0.otpNode, count) }),
        ]
    }

    private static func setUpdates(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.indexing
        form.refuseUnknownFields(except: [
            "updateInterval", "updateMinChanges", "replicaUpdateMinChanges",
        ])
        if let time = form.wholeNumber("updateInterval", 0...UInt64(UInt32.max)) {
            settings.updateIntervalMilliseconds = UInt32(time)
        }
        let counts = 0...UInt64(Int64.max)
        if let count = form.wholeNumber("updateMinChanges", counts) {
            settings.updateMinChanges = count
        }
        if let count = form.wholeNumber("replicaUpdateMinChanges", counts) {
            settings.replicaUpdateMinChanges = count
        }
        return try await set(settings, form, for: call, done: .json(updates(settings)))
    }

    private static func setIndexers(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.indexing
        form.refuseUnknownFields(except: ["globalValue"])
        form.require("globalValue")
        if let count = form.number("globalValue", IndexingSettings.parallelIndexersRange) {
            settings.parallelIndexersMax = count
        }
        return try await set(settings, form, for: call, done: .json(indexers(settings, call.state)))
    }

    /// As in Couchbase Server, a threshold that the form omits is not set afterwards.
    ///
    /// Settings of document compaction cannot be changed: another value than the present one is refused.
    private static func setCompaction(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        let (percent, size) = (
            "viewFragmentationThreshold[percentage]", "viewFragmentationThreshold[size]"
        )
        let cluster = call.state.settings
        let purgeDays = Double(cluster.purgeIntervalHours) / 24
        let fixed: [(field: String, texts: Set<String>)] = [
            (
                "databaseFragmentationThreshold[percentage]",
                ["\(cluster.fragmentationPercent)"]
            ),
            ("databaseFragmentationThreshold[size]", ["undefined", ""]),
            ("parallelDBAndViewCompaction", ["false"]),
            ("indexCompactionMode", ["circular"]),
            ("purgeInterval", ["\(purgeDays)", "\(Int(purgeDays))"]),
        ]
        form.refuseUnknownFields(except: Set(fixed.map(\.field) + [percent, size]))
        form.require("parallelDBAndViewCompaction")
        for (field, texts) in fixed {
            guard let text = call.request.form[field], !texts.contains(text) else { continue }
            form.refuse(field, "The value is \(texts.max() ?? "") and cannot be changed")
        }
        var settings = call.state.indexing
        settings.fragmentationPercent = nil
        settings.fragmentationBytes = nil
        if !isUndefined(call.request.form[percent]) {
            settings.fragmentationPercent =
                form.number(percent, IndexingSettings.fragmentationPercentRange)
        }
        if !isUndefined(call.request.form[size]) {
            settings.fragmentationBytes = form.wholeNumber(
                size,
                IndexingSettings.fragmentationBytesMin...UInt64(Int64.max)
            )
        }
        return try await set(settings, form, for: call)
    }

    private static func isUndefined(_ text: String?) -> Bool {
        text == nil || text == "undefined" || text == ""
    }

    private static func set(
        _ settings: IndexingSettings,
        _ form: SettingsForm,
        for call: Call,
        done: Reply = .done
    ) async throws(AdministrationError) -> Reply {
        try await form.reply(to: call, done: done) { () throws(AdministrationError) in
            try await call.service.settings.change(indexing: settings, was: call.state.indexing)
        }
    }
}
