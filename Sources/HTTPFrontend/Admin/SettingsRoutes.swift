internal import ClusterService
internal import Orchestration

/// Settings of the cluster.
extension AdminRoutes {
    /// Upper bound of `maxBucketCount`: the most buckets that users have ever requested for a node.
    private static let bucketsMax: UInt64 = 10_000

    static let settings: [Route] = [
        Route(.get, "/settings/autoCompaction", access: .settingsRead) { call in
            let days = Double(call.state.settings.purgeIntervalHours) / 24
            return .json([
                "autoCompactionSettings": PoolJSON.autoCompaction(call.state),
                "purgeInterval": .double(days),
            ])
        },
        Route(.get, "/internalSettings", access: .permission("cluster.admin.settings!read")) {
            call in
            let changeable: [(String, JSONText)] = [
                ("maxBucketCount", .number(call.state.settings.maxBucketCount)),
                ("maxParallelIndexers", .number(call.state.indexing.parallelIndexersMax)),
            ]
            return .json(.object(changeable + fixed.map { ($0.name, $0.value) }))
        },
        Route(
            .post,
            "/internalSettings",
            access: .permission("cluster.admin.settings!write"),
            validates: true,
            handler: changeInternalSettings
        ),
        Route(.get, "/settings/stats", access: .settingsRead) { _ in
            .json(["sendStats": false])
        },
        Route(.post, "/settings/stats", access: .settingsWrite, validates: true) { call in
            // Accepted without effect: the server never sends statistics to a vendor.
            switch call.request.form["sendStats"] {
            case "true", "false": call.request.isValidationOnly ? .valid : .done
            default: .refused([FieldError("sendStats", "sendStats must be true or false")])
            }
        }.accepting(["sendStats"]),
    ]

    /// Couchbase settings that are fixed here: the same value is accepted, another one refused.
    private static let fixed: [(name: String, value: JSONText)] = [
        ("indexAwareRebalanceDisabled", false),
        ("rebalanceIndexWaitingDisabled", false),
        ("rebalanceIndexPausingDisabled", false),
        ("rebalanceIgnoreViewCompactions", false),
        ("rebalanceMovesBeforeCompaction", 64),
        ("maxDocsLimit", 1_000),
        ("maxDocsSkip", 1_000),
    ]

    private static let bucketCount = (name: "maxBucketCount", range: 1...bucketsMax)
    private static let indexerCount = (
        name: "maxParallelIndexers",
        range: UInt64(
            IndexingSettings.parallelIndexersRange.lowerBound
        )...UInt64(
            IndexingSettings.parallelIndexersRange.upperBound
        )
    )

    @Sendable private static func changeInternalSettings(
        _ call: Call
    ) async throws(AdministrationError) -> Reply {
        let form = call.request.form
        var errors = form.pairs.compactMap(flaw)
        if form.pairs.isEmpty { errors.append(FieldError("_", "Request should have parameters")) }
        guard errors.isEmpty else { return .refused(errors) }
        if call.request.isValidationOnly { return .valid }
        // If the second change is overtaken, the router repeats both; the first is then without effect.
        if let count = form[bucketCount.name].flatMap(FormParameters.number) {
            try await call.service.settings.change(maxBucketCount: UInt32(count))
        }
        guard let count = form[indexerCount.name].flatMap(FormParameters.number) else {
            return .done
        }
        var indexing = call.state.indexing
        indexing.parallelIndexersMax = UInt16(count)
        try await call.service.settings.change(indexing: indexing, was: call.state.indexing)
        return .done
    }

    /// The error of one field of `/internalSettings`; nil if its value is possible.
    private static func flaw(name: String, value: String) -> FieldError? {
        if let setting = [bucketCount, indexerCount].first(where: { $0.name == name }) {
            if let number = FormParameters.number(value), setting.range.contains(number) {
                return nil
            }
            let bounds = "\(setting.range.lowerBound) to \(setting.range.upperBound)"
            return FieldError(name, "\(name) must be a number from \(bounds)")
        }
        guard let known = fixed.first(where: { $0.name == name }) else {
            return FieldError(name, "Unsupported key")
        }
        let text = String(decoding: known.value.bytes, as: UTF8.self)
        return value == text
            ? nil : FieldError(name, "The value is \(text) and cannot be changed")
    }
}
