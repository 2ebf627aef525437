internal import ClusterService
internal import Orchestration

/// Settings of the cluster.
extension Routes {
    /// Upper bound of `maxBucketCount`: the most buckets that users have ever requested for a node.
    private static let bucketsMax: UInt64 = 10_000

    static let settings: [Route] = [
        Route(.get, "/settings/autoCompaction", .permission("cluster.settings!read")) { call in
            let days = Double(call.state.settings.purgeIntervalHours) / 24
            return .json([
                "autoCompactionSettings": PoolJSON.autoCompaction(call.state),
                "purgeInterval": .double(days),
            ])
        },
        Route(.get, "/internalSettings", .permission("cluster.admin.settings!read")) { call in
            let count = call.state.settings.maxBucketCount
            return .json(
                .object(
                    [("maxBucketCount", .number(count))] + fixed.map { ($0.name, $0.value) }
                )
            )
        },
        Route(
            .post,
            "/internalSettings",
            .permission("cluster.admin.settings!write"),
            validates: true,
            changeInternalSettings
        ),
        Route(.get, "/settings/stats", .permission("cluster.settings!read")) { _ in
            .json(["sendStats": false])
        },
        Route(
            .post,
            "/settings/stats",
            .permission("cluster.settings!write"),
            validates: true
        ) { call in
            // Accepted without effect: the server never sends statistics to a vendor.
            switch call.request.form["sendStats"] {
            case "true", "false": call.request.isValidationOnly ? .valid : .done
            default: .refused([FieldError("sendStats", "sendStats must be true or false")])
            }
        },
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

    @Sendable private static func changeInternalSettings(_ call: Call) async -> Reply {
        let form = call.request.form
        let others = form.pairs.filter { $0.name != "maxBucketCount" }
        let errors = others.compactMap { name, value -> FieldError? in
            guard let known = fixed.first(where: { $0.name == name }) else {
                return FieldError(name, "Unsupported key")
            }
            let text = String(decoding: known.value.bytes, as: UTF8.self)
            let reason = "The value is \(text) and cannot be changed"
            return value == text ? nil : FieldError(name, reason)
        }
        guard errors.isEmpty else { return .refused(errors) }
        if form["maxBucketCount"] == nil, !others.isEmpty {
            return call.request.isValidationOnly ? .valid : .done
        }
        guard let number = form["maxBucketCount"].flatMap(FormParameters.number),
            (1...bucketsMax).contains(number)
        else {
            let text = "maxBucketCount must be a number from 1 to \(bucketsMax)"
            return .refused([FieldError("maxBucketCount", text)])
        }
        if call.request.isValidationOnly { return .valid }
        switch await call.service.change(maxBucketCount: UInt32(number)) {
        case .done: return .done
        case .overtaken: return .overtaken
        case .refused(let errors): return .refused(errors)
        case .failed(let text): return .failed(text)
        }
    }
}
