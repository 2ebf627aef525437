import Bytes
import ClusterService
import Foundation
import HTTPFrontend
import Orchestration
import Testing
import Vocabulary

@Suite struct StatisticsTests {
    @Test func prometheusFindsTheAdminPortsOfAllNodes() async throws {
        try await Site.with { site in
            let path = "GET /prometheus_sd_config"
            let expected = #"[{"targets":["127.0.0.1:\#(site.port)"]}]"#
            let json = try await site.ask(path)
            #expect(json.text == expected)
            #expect(json.headers["content-type"] == "application/json")
            let yaml = try await site.ask("\(path)?type=yaml&port=insecure")
            #expect(yaml.text == expected && yaml.headers["content-type"] == "text/yaml")
            for (query, field) in [("port=secure", "port"), ("a=1", "a"), ("type=xml", "type")] {
                let reply = try await site.ask("\(path)?\(query)")
                #expect(reply.status == 400)
                #expect((reply.object["errors"] as? [String: String])?[field] != nil)
            }
            #expect(try await site.ask(path, .none).status == 401)
        }
    }

    @Test func reportedErrorOfAUserInterfaceIsNoEvent() async throws {
        try await Site.with { site in
            let report = "Uncaught error\n" + String(repeating: "x", count: 5_000)
            let reply = try await site.ask("POST /logClientError", json: report)
            #expect(reply.status == 200 && reply.text.isEmpty)
            #expect(try await site.ask("POST /logClientError").status == 200)
            #expect(try await site.ask("POST /logClientError", .none, json: report).status == 401)
            #expect(try await !site.ask("GET /logs").text.contains("Uncaught"))
        }
    }

    @Test func reportsBeyondThoseOfAMinuteAreRefused() async throws {
        try await Site.with { site in
            var replies: [RawClient.Response] = []
            for number in 0..<22 {
                replies.append(try await site.ask("POST /logClientError", json: "\"\(number)\""))
            }
            #expect(replies.prefix(20).allSatisfy { $0.status == 200 && $0.text.isEmpty })
            for reply in replies.suffix(2) {
                #expect(reply.status == 429)
                #expect(reply.text.contains("was not logged"))
                let seconds = reply.headers["retry-after"].flatMap { Int($0) }
                #expect((1...60).contains(seconds ?? 0))
            }
            // Without a login, a request is refused before it is counted.
            #expect(try await site.ask("POST /logClientError", .none, json: "\"\"").status == 401)
        }
    }

    @Test func bucketStatisticsAreSampledEverySecond() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            var op: [String: Any] = [:]
            for _ in 0..<100 where (op["samplesCount"] as? Int ?? 0) < 2 {
                try await Task.sleep(for: .milliseconds(100))
                op =
                    try await site.ask("GET /pools/default/buckets/b/stats?zoom=minute")
                    .object["op"] as? [String: Any] ?? [:]
            }
            let samples = try #require(op["samples"] as? [String: [Double]])
            let count = try #require(op["samplesCount"] as? Int)
            #expect(count >= 2)
            for name in [
                "timestamp", "ops", "cmd_get", "curr_items", "mem_used", "disk_write_queue",
            ] {
                #expect(samples[name]?.count == count, "\(name)")
            }
            let last = try #require(op["lastTStamp"] as? Int)
            let newer = try await site.ask("GET /pools/default/buckets/b/stats?haveTStamp=\(last)")
            let fresh = try #require(newer.object["op"] as? [String: Any])
            #expect((fresh["samplesCount"] as? Int ?? 9) < count)
            let one = try await site.ask("GET /pools/default/buckets/b/stats/ops").object
            #expect(
                (one["nodeStats"] as? [String: [Double]])?.keys.first
                    == "127.0.0.1:\(site.port)"
            )
            #expect(
                try await site.ask("GET /pools/default/buckets/b/stats?zoom=aeon").status == 400
            )
        }
    }

    @Test func metricsHaveUniqueSamplesWithHelpAndTypes() async throws {
        try await Site.with { site in
            for name in ["a", "b"] { try await site.createBucket(name) }
            let reply = try await site.ask("GET /metrics")
            #expect(reply.headers["content-type"]?.hasPrefix("text/plain") == true)
            var seen: Set<Substring> = []
            var typed: Set<Substring> = []
            var helped: Set<Substring> = []
            var isHistogram = false
            for line in reply.text.split(separator: "\n") {
                if line.hasPrefix("# HELP ") {
                    let words = line.split(separator: " ")
                    #expect(words.count > 3 && helped.insert(words[2]).inserted, "\(line)")
                    continue
                }
                if line.hasPrefix("# TYPE ") {
                    let words = line.split(separator: " ")
                    #expect(typed.insert(words[2]).inserted, "\(line)")
                    isHistogram = words.last == "histogram"
                    continue
                }
                let parts = line.split(separator: " ")
                try #require(parts.count == 2)
                #expect(Double(parts[1]) != nil)
                #expect(seen.insert(parts[0]).inserted, "\(line) twice")
                var name = parts[0].prefix { $0 != "{" }
                if isHistogram, let end = name.lastIndex(of: "_") {
                    #expect(["_bucket", "_sum", "_count"].contains(name[end...]), "\(line)")
                    name = name[..<end]
                }
                #expect(typed.contains(name), "\(line) without a type")
            }
            #expect(typed == helped)
            for name in [
                "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
                "process_max_fds", "cm_alerts", "cm_raft_term", "cm_raft_role{role=\"leader\"}",
                "kv_num_vbuckets{bucket=\"a\",state=\"active\"}",
                "kv_vb_curr_items{bucket=\"a\",state=\"replica\"}",
                "kv_ep_oldest_unpersisted_seconds{bucket=\"a\"}",
                "cm_lost_redundancy_vbuckets{bucket=\"a\"}",
                "cm_http_requests_seconds_count{class=\"buckets\"}",
            ] {
                #expect(seen.contains(Substring(name)), "\(name)")
            }
            #expect(seen.contains("kv_curr_items{bucket=\"a\"}"))
            #expect(seen.contains("kv_ops{bucket=\"b\",op=\"get\",result=\"hit\"}"))
        }
    }

    @Test func metricsOfThisNodeHaveTheBacklogOfEachNode() async throws {
        try await Site.with { site in
            try await site.createBucket("a")
            let own = site.service.thisNode
            // The second one is no node of the cluster any more.
            site.plane.backlog.withLock { $0 = [own: 7, NodeNumber(own.value + 1): 9] }
            let name = try #require(site.service.state.node(number: own)?.otpNode)
            let lines = try await site.ask("GET /metrics").text.split(separator: "\n")
            let found = lines.filter { $0.hasPrefix("kv_replication_backlog_items{") }
            #expect(
                found == ["kv_replication_backlog_items{bucket=\"a\",node=\"\(name)\"} 7"]
            )
        }
    }

    @Test func valuesOfLabelsAndHelpAreEscaped() {
        var page = MetricsText()
        page.add(
            "a",
            .gauge,
            help: "A \\ and \"b\".\nC",
            samples: [.init([("l", "x\\y\"z\n")], UInt64(1))]
        )
        page.add("none", .gauge, help: "Without a sample.", samples: [])
        #expect(
            page.lines == [
                "# HELP a A \\\\ and \"b\".\\nC", "# TYPE a gauge",
                "a{l=\"x\\\\y\\\"z\\n\"} 1",
            ]
        )
    }

    @Test func processorTimeAndMemoryAreReadBehindTheProgramsName() throws {
        let fields = (3...52).map { $0 == 14 ? "250" : $0 == 15 ? "50" : "\($0)" }
        let stat = "17 (a) b) " + fields.joined(separator: " ") + "\n"
        let reading = try #require(
            ProcessReading(stat: stat, ticksPerSecond: 100, pageBytes: 4_096)
        )
        #expect(reading.cpuSeconds == 3 && reading.residentBytes == 24 * 4_096)
        #expect(ProcessReading(stat: "17 (a) 3 4", ticksPerSecond: 100, pageBytes: 1) == nil)
    }

    @Test func logHasAnEventOfTheBucketsCreation() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let list = try await site.ask("GET /logs").object["list"] as? [[String: Any]]
            let entry = try #require(list?.last)
            #expect((entry["text"] as? String)?.contains("\"b\" was created") == true)
            #expect(entry["type"] as? String == "info")
            #expect((entry["serverTime"] as? String)?.hasSuffix("Z") == true)
            let none = try await site.ask("GET /logs?limit=0").object["list"] as? [Any]
            #expect(none?.isEmpty == true)
        }
    }
}
