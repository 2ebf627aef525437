internal import ClusterService
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Recent statistics of buckets, Prometheus metrics, and the event log.
extension AdminRoutes {
    static let statistics: [Route] = [
        Route.ofBucket(.get, "/stats", permission: ".stats!read") { call in
            await samples(call, of: call.state.activeNodes.map(\.number))
        },
        Route.ofBucket(.get, "/stats/*", permission: ".stats!read", handler: oneStatistic),
        Route.ofBucket(.get, "/nodes/*/stats", permission: ".stats!read") { call in
            let name = call.capture(1)
            let node = call.state.nodes.first { NodeJSON(call: call, node: $0).hostname == name }
            guard let node else { return .notFound }
            return await samples(call, of: [node.number])
        },
        Route(.get, "/logs", access: .permission("cluster.logs!read")) { .json(await logs($0)) },
    ]

    /// The route of the metrics; `views` reads the figures of this node's indexes.
    static func metrics(_ views: ViewServer.Services.Reading?) -> Route {
        Route(.get, "/metrics", access: .permission("cluster.admin.stats_export!read")) { call in
            let text = Metrics(call, views: views?()).text
            var reply = Reply.text(text, status: 200)
            reply.contentType = "text/plain; version=0.0.4; charset=utf-8"
            return reply
        }
    }

    private static func zoom(_ call: Call) -> StatisticsSampler.Zoom? {
        guard let name = call.request.query["zoom"] else { return .minute }
        return StatisticsSampler.Zoom(rawValue: name)
    }

    /// The samples of a bucket, summed over these nodes; nodes that do not answer are left out.
    private static func samples(_ call: Call, of nodes: [NodeNumber]) async -> Reply {
        guard let bucket = call.bucket else { return .notFound }
        guard let zoom = zoom(call) else { return unknownZoom }
        let series = await call.service.statistics.series(
            ofBucket: bucket.settings.name,
            zoom,
            of: nodes
        )
        let stamps = series?.timestamps ?? []
        // `haveTStamp` is the newest sample that the client has; only newer ones are sent.
        let seen = call.request.query["haveTStamp"].flatMap(FormParameters.number) ?? 0
        let first = stamps.firstIndex { $0 > seen } ?? stamps.count
        var samples: [(String, JSONText)] = [
            ("timestamp", .array(stamps[first...].map { .number($0) }))
        ]
        for (name, statistic) in Statistic.samples {
            let values = series?.values(of: statistic)[first...].map { JSONText.double(Double($0)) }
            samples.append((name, .array(values ?? [])))
        }
        return .json([
            "op": [
                "samples": .object(samples),
                "samplesCount": .number(stamps.count - first),
                "isPersistent": .bool(bucket.settings.type == .persistent),
                "lastTStamp": .number(stamps.last ?? 0),
                "interval": .number(series?.intervalMilliseconds ?? 1_000),
            ],
            "hot_keys": [],
        ])
    }

    @Sendable private static func oneStatistic(_ call: Call) async -> Reply {
        guard let bucket = call.bucket,
            let statistic = Statistic.samples.first(where: { $0.name == call.capture(1) })?
                .statistic
        else { return .notFound }
        guard let zoom = zoom(call) else { return unknownZoom }
        let series = call.service.statistics.sampler.series(ofBucket: bucket.settings.name, zoom)
        let stamps = series?.timestamps ?? []
        var nodes: [(String, JSONText)] = []
        for node in call.state.activeNodes {
            let isHere = node.number == call.service.thisNode
            let found =
                isHere
                ? series
                : await call.service.statistics.series(
                    ofBucket: bucket.settings.name,
                    zoom,
                    of: node.number
                )
            // Align with this node's samples at the newest; before its first sample a node counts
            // 0.
            let values = (found?.values(of: statistic) ?? []).suffix(stamps.count)
            let numbers = [Float](repeating: 0, count: stamps.count - values.count) + values
            let shown = JSONText.array(numbers.map { .double(Double($0)) })
            nodes.append((NodeJSON(call: call, node: node).hostname, shown))
        }
        return .json([
            "samplesCount": .number(stamps.count),
            "isPersistent": .bool(bucket.settings.type == .persistent),
            "lastTStamp": .number(stamps.last ?? 0),
            "interval": .number(series?.intervalMilliseconds ?? 1_000),
            "timestamp": .array(stamps.map { .number($0) }),
            "nodeStats": .object(nodes),
        ])
    }

    private static var unknownZoom: Reply {
        let names = StatisticsSampler.Zoom.allCases.map(\.rawValue).joined(separator: ", ")
        return .refused([FieldError("zoom", "zoom is one of \(names)")])
    }

    private static func logs(_ call: Call) async -> JSONText {
        let query = call.request.query
        let since = query["sinceTime"].flatMap(FormParameters.number) ?? 0
        let limit = query["limit"].flatMap(FormParameters.number) ?? 250
        let found = await call.service.statistics.events(
            sinceMilliseconds: since,
            countMax: Int(min(limit, 3_000))
        )
        return [
            "list": .array(
                found.map { node, entry in
                    [
                        "node": .string(call.state.node(number: node)?.otpNode ?? ""),
                        "type": .string(type(of: entry)),
                        "code": 0,
                        "module": .string(entry.kind.rawValue),
                        "tstamp": .number(entry.milliseconds),
                        "shortText": "message",
                        "text": .string(entry.text),
                        "serverTime": .string(PoolJSON.time(entry.milliseconds)),
                    ]
                }
            )
        ]
    }

    private static func type(of entry: EventLog.Entry) -> String {
        switch entry.severity {
        case .debug, .info: "info"
        case .warning: "warning"
        case .error, .fault: "critical"
        }
    }
}
