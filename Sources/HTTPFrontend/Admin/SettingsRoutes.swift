internal import ClusterService
internal import Orchestration

/// Settings of the whole cluster.
extension Routes {
    /// As many buckets as anybody has asked a node to bear.
    private static let bucketsMax: UInt64 = 10_000

    static let settings: [Route] = [
        Route(.get, "/settings/autoCompaction", .administrator("cluster.settings!read")) { call in
            let days = Double(call.state.settings.purgeIntervalHours) / 24
            return .json([
                "autoCompactionSettings": PoolJSON.autoCompaction(call.state.settings),
                "purgeInterval": .double(days),
            ])
        },
        Route(.get, "/internalSettings", .administrator("cluster.admin.settings!read")) { call in
            .json(["maxBucketCount": .number(call.state.settings.maxBucketCount)])
        },
        Route(
            .post,
            "/internalSettings",
            .administrator("cluster.admin.settings!write"),
            changeInternalSettings
        ),
        Route(.get, "/settings/stats", .administrator("cluster.settings!read")) { _ in
            .json(["sendStats": false])
        },
        Route(.post, "/settings/stats", .administrator("cluster.settings!write")) { call in
            // Nothing is ever sent to anybody; whoever wants that is told.
            switch call.request.form["sendStats"] {
            case "false": .done
            case "true": .refused([FieldError("sendStats", "This server sends no statistics")])
            default: .refused([FieldError("sendStats", "sendStats is true or false")])
            }
        },
    ]

    @Sendable private static func changeInternalSettings(_ call: Call) async -> Reply {
        let form = call.request.form
        let unknown = form.pairs.filter { $0.name != "maxBucketCount" }
        guard unknown.isEmpty else {
            return .refused(unknown.map { FieldError($0.name, "Unsupported key") })
        }
        guard let number = form["maxBucketCount"].flatMap(FormParameters.number),
            (1...bucketsMax).contains(number)
        else {
            let text = "maxBucketCount is a number from 1 to \(bucketsMax)"
            return .refused([FieldError("maxBucketCount", text)])
        }
        switch await call.service.change(maxBucketCount: UInt32(number)) {
        case .done: return .done
        case .overtaken: return .overtaken
        case .refused(let errors): return .refused(errors)
        case .failed(let text): return .failed(text)
        }
    }
}
