import Bytes
import HTTPFrontend
import Testing
import Vocabulary

/// Histograms in Prometheus's text format.
@Suite struct MetricsTextTests {
    @Test func histogramHasCumulativeBucketsSumAndCount() {
        var histogram = LatencyHistogram()
        for latency in [1_000, 3_000, 3_500, 100_000, 30_000_000_000] as [UInt64] {
            histogram.record(latency)
        }
        var page = MetricsText()
        page.add(
            .commands,
            [.init(.commands, [("bucket", "b"), ("opcode", "GET")], histogram: histogram)]
        )
        let lines = page.lines
        #expect(lines[1] == "# TYPE kv_cmd_duration_seconds histogram")
        let name = "kv_cmd_duration_seconds"
        let labels = "bucket=\"b\",opcode=\"GET\""
        #expect(lines[2] == "\(name)_bucket{\(labels),le=\"2.048e-06\"} 1")
        #expect(lines[3] == "\(name)_bucket{\(labels),le=\"4.096e-06\"} 3")
        #expect(lines.contains("\(name)_bucket{\(labels),le=\"17.179869184\"} 4"))
        #expect(lines.contains("\(name)_bucket{\(labels),le=\"+Inf\"} 5"))
        #expect(lines.contains("\(name)_sum{\(labels)} 30.0001075"))
        #expect(lines.contains("\(name)_count{\(labels)} 5"))
        let buckets = lines.filter { $0.hasPrefix("\(name)_bucket") }
            .compactMap { $0.split(separator: " ").last.flatMap { UInt64($0) } }
        #expect(buckets == buckets.sorted())
        #expect(lines.contains("# TYPE kv_cmd_duration_quantile_seconds gauge"))
        #expect(lines.count { $0.hasPrefix("kv_cmd_duration_quantile_seconds{") } == 2)
    }

    @Test func familyWithoutLatenciesIsLeftOut() {
        var page = MetricsText()
        for family in LatencyFamily.allCases { page.add(family, []) }
        #expect(page.lines == [])
    }

    @Test func everyFamilyIsInSecondsAndHasASentence() {
        for family in LatencyFamily.allCases {
            #expect(family.rawValue.hasSuffix("_seconds"))
            #expect(family.help.hasSuffix("."))
        }
    }
}

/// The classes of routes whose requests have one histogram.
@Suite struct RouteClassTests {
    private static let services = ViewServer.Services(
        designDocuments: MemoryDesignDocuments(),
        queries: ScriptedQueries(),
        trials: ScriptedTrials()
    )

    private static let classes: [String: String?] = Dictionary(
        (RouteCatalog.adminPort(services) + RouteCatalog.viewPort(services)).map {
            ("\($0.method) \($0.path)", $0.latencyClass)
        },
        uniquingKeysWith: { first, _ in first }
    )

    @Test(
        arguments: [
            ("GET /pools/default/buckets/*/docs/<key>", "documents"),
            ("POST /pools/default/buckets", "buckets"),
            ("GET /pools/default/buckets/*/stats", "statistics"), ("GET /metrics", "statistics"),
            ("GET /pools/default/buckets/*/ddocs", "views"),
            ("GET /pools/default", "pools"), ("POST /controller/rebalance", "nodes"),
            ("GET /settings/rbac/users", "users"), ("GET /settings/autoFailover", "settings"),
            ("GET /ui/**", "console"), ("POST /uilogin", "console"),
            ("GET /<bucket>/_design/*", "views"),
            ("GET /pools/default/bucketsStreaming/*", nil), ("GET /poolsStreaming/default", nil),
            ("GET /pools/default/buckets/*/changes", nil),
        ] as [(String, String?)]
    )
    func routeHasMetricsClassOfTable(_ route: String, _ expected: String?) throws {
        let found = try #require(Self.classes[route], "no such route")
        #expect(found == expected)
    }

    @Test func onlyStreamingRoutesHaveNoMetricsClass() {
        let streams = Self.classes.filter { $0.value == nil }.keys.sorted()
        #expect(
            streams == [
                "GET /pools/default/bs/*", "GET /pools/default/buckets/*/changes",
                "GET /pools/default/bucketsStreaming/*", "GET /pools/default/nodeServicesStreaming",
                "GET /pools/default/saslBucketsStreaming", "GET /poolsStreaming/default",
                "POST /pools/default/buckets/*/changes",
            ]
        )
    }
}
