import Bytes
import ClusterService
import Foundation
import HTTPFrontend
import Indexing
import Orchestration
import ScriptProcesses
import Scripting
import Testing
import ViewService
import Vocabulary

/// What operators and authors see of indexes: tasks, figures and errors.
@Suite struct ViewOperationTests {
    private static let tasks = "GET /pools/default/tasks"
    private static let errors = "GET /pools/default/buckets/b/ddocs/_design%2Fd/errors"
    private static let body = Array("{\"views\":{\"v\":{\"map\":\"function (d) {}\"}}}".utf8)

    private func indexers(_ site: Site) async throws -> [[String: Any]] {
        let reply = try await site.ask(Self.tasks)
        let all = try JSONSerialization.jsonObject(with: Data(reply.text.utf8)) as? [[String: Any]]
        return (all ?? []).filter { $0["type"] as? String == "indexer" }
    }

    private func show(_ documents: [ViewStatistics.DesignDocument], on site: Site) {
        var bucket = ViewStatistics.Bucket(name: "b")
        (bucket.diskUsed, bucket.dataUsed, bucket.queries) = (8_192, 4_096, 6)
        bucket.designDocuments = documents
        var statistics = ViewStatistics()
        statistics.buckets = [bucket]
        let shown = statistics
        site.service.statistics.readViews { shown }
    }

    private func document(
        _ name: String,
        _ done: UInt64,
        of total: UInt64,
        isBuilding: Bool = true
    ) -> ViewStatistics.DesignDocument {
        var document = ViewStatistics.DesignDocument(name: name)
        document.isBuilding = isBuilding
        (document.changesDone, document.changesTotal) = (done, total)
        return document
    }

    /// The report of one index of the bucket `b` with two views that share it.
    private func report(_ site: Site) throws -> IndexReport {
        let uuid = try #require(site.service.state.bucket(named: "b")?.settings.uuid)
        let signature = try #require(IndexSignature([UInt8](repeating: 0xab, count: 16)))
        var report = IndexReport(bucket: uuid, signature: signature)
        report.bucketName = "b"
        report.views = ["d", "e"].map { IndexReport.View(designDocument: $0, view: "v \"1\"") }
        report.isOpen = true
        report.status.rows = 12
        report.status.progress = 0.25
        report.diskBytes = 8_192
        report.usedBytes = 4_096
        report.memoryBytes = 77
        for number in 1...21 {
            report.status.errors.record(
                ScriptErrors.Entry(
                    number == 21 ? .timedOut : .threw,
                    id: "doc\(number)",
                    line: UInt32(number),
                    text: "text \(number)"
                )
            )
        }
        return report
    }

    // MARK: Tasks

    @Test func indexThatIsBuiltIsATaskOfItsDesignDocument() async throws {
        try await ViewSite.with { views in
            let site = views.site
            for name in ["d", "full"] {
                _ = try await site.service.designDocuments.putDesignDocument(
                    name,
                    body: Self.body,
                    inBucket: "b"
                )
            }
            #expect(try await indexers(site).isEmpty)
            // A document that was deleted meanwhile has no task.
            show(
                [
                    document("d", 250, of: 1_000), document("gone", 1, of: 2),
                    document("full", 9, of: 9, isBuilding: false),
                ],
                on: site
            )
            let found = try await indexers(site)
            try #require(found.count == 1)
            #expect(
                found[0] as NSDictionary == [
                    "type": "indexer", "recommendedRefreshPeriod": 2.0, "status": "running",
                    "bucket": "b", "designDocument": "_design/d", "changesDone": 250,
                    "totalChanges": 1_000, "progress": 25,
                ] as NSDictionary
            )
            show([document("d", 1_000, of: 1_000)], on: site)
            #expect(try await indexers(site).first?["progress"] as? Int == 99)
            show([document("d", 0, of: 0)], on: site)
            #expect(try await indexers(site).first?["progress"] as? Int == 0)
        }
    }

    // MARK: Figures

    @Test func sizesOfIndexesAreShownWithThoseOfDocuments() async throws {
        try await ViewSite.with { views in
            let site = views.site
            func sizes() async throws -> [Int?] {
                let nodes = try await site.ask("GET /pools/default").object["nodes"]
                let node = try #require((nodes as? [[String: Any]])?.first)
                let shown = node["interestingStats"] as? [String: Any]
                return ["couch_views_actual_disk_size", "couch_views_data_size"].map {
                    shown?[$0] as? Int
                }
            }
            #expect(try await sizes() == [0, 0])
            show([document("d", 1, of: 1, isBuilding: false)], on: site)
            #expect(try await sizes() == [8_192, 4_096])
            var disk: [Double] = []
            var queries: [Double] = []
            for _ in 0..<100 where disk.last != 8_192 {
                try await Task.sleep(for: .milliseconds(100))
                let op = try await site.ask("GET /pools/default/buckets/b/stats").object["op"]
                let samples = (op as? [String: Any])?["samples"] as? [String: [Double]]
                disk = samples?["couch_views_actual_disk_size"] ?? []
                queries = samples?["couch_views_ops"] ?? []
            }
            #expect(disk.last == 8_192)
            #expect(queries.count == disk.count)
        }
    }

    @Test func metricsHaveTheIndexesOfABucketInOneSeries() async throws {
        try await ViewSite.with { views in
            let before = try await views.site.ask("GET /metrics")
            #expect(!before.text.contains("view_"))
            var reading = ViewReading()
            // As of two indexes; the second one has stopped.
            reading.indexes = [try report(views.site), try report(views.site)]
            reading.indexes[1].fault = "its function runs away"
            reading.queries = [reading.indexes[0].bucket: 5]
            reading.scripts.processes = 2
            reading.scripts.residentBytes = 9_000
            let measured = reading
            views.reading.withLock { $0 = measured }
            let lines = try await views.site.ask("GET /metrics").text.split(separator: "\n")
            for line in [
                "couch_views_ops{bucket=\"b\"} 5",
                "view_indexes{bucket=\"b\"} 2",
                "view_indexes_building{bucket=\"b\"} 1",
                "view_indexes_stopped{bucket=\"b\"} 1",
                "view_index_rows{bucket=\"b\"} 24",
                "view_index_memory_bytes{bucket=\"b\"} 154",
                "view_index_disk_bytes{bucket=\"b\"} 16384",
                "view_index_data_bytes{bucket=\"b\"} 8192",
                "view_index_errors_total{bucket=\"b\",kind=\"threw\"} 40",
                "view_index_errors_total{bucket=\"b\",kind=\"timedOut\"} 2",
                "view_script_processes 2",
                "view_script_memory_bytes 9000",
            ] {
                #expect(lines.contains { $0 == line }, "\(line)")
            }
            // No series for a single index or view.
            #expect(lines.allSatisfy { !$0.contains("index=") && !$0.contains("view=") })
        }
    }

    // MARK: Errors

    @Test func errorsOfADesignDocumentNameDocumentsAndLinesTheNewestFirst() async throws {
        try await ViewSite.with { views in
            let site = views.site
            #expect(try await site.ask(Self.errors).status == 404)
            _ = try await views.ask("PUT /b/_design/d", json: "{\"views\":{}}")
            let node = "127.0.0.1:\(site.port)"
            let empty = try await site.ask(Self.errors)
            #expect(empty.text == "{\"node\":\"\(node)\",\"views\":{}}")
            var reading = ViewReading()
            reading.indexes = [try report(site)]
            let measured = reading
            views.reading.withLock { $0 = measured }
            let reply = try await site.ask(Self.errors).object
            #expect(reply["node"] as? String == node)
            let found = try #require(reply["views"] as? [String: [String: Any]])
            #expect(found.keys.sorted() == ["v \"1\""])
            let view = try #require(found.values.first)
            #expect(view["total"] as? Int == 21)
            #expect(view["counts"] as? [String: Int] == ["threw": 20, "timedOut": 1])
            #expect(view["fault"] == nil)
            let last = try #require(view["last"] as? [[String: Any]])
            #expect(last.count == 20)
            #expect(
                last[0] as NSDictionary == [
                    "kind": "timedOut", "id": "doc21", "line": 21, "text": "text 21",
                ] as NSDictionary
            )
            #expect(last[19]["id"] as? String == "doc2")
            var stopped = reading
            stopped.indexes[0].fault = "It runs away."
            let shown = stopped
            views.reading.withLock { $0 = shown }
            let faulty = try await site.ask(Self.errors).object["views"] as? [String: [String: Any]]
            #expect(faulty?.values.first?["fault"] as? String == "It runs away.")
        }
    }

    @Test func errorsAreForAdministratorsOnly() async throws {
        try await ViewSite.with { views in
            _ = try await views.ask("PUT /b/_design/d", json: "{\"views\":{}}")
            #expect(try await views.site.ask(Self.errors, .none).status == 401)
            let absent = Self.errors.replacingOccurrences(of: "buckets/b/", with: "buckets/c/")
            #expect(try await views.site.ask(absent).status == 404)
        }
    }

    // MARK: A whole node

    @Test func nodeShowsTheTaskOfItsIndexUntilTheDocumentIsDeleted() async throws {
        try await ViewNode.with { node in
            try await node.write((1...200).map { (id: "doc\($0)", json: "{\"n\":\($0)}") })
            let loop = "var x = 0; for (var i = 0; i < 1e7; i++) x += i % 7; emit(doc.n, x);"
            let slow = "{\"views\":{\"v\":{\"map\":\"function (doc) { \(loop) }\"}}}"
            #expect(try await node.put("d", slow).status == 201)
            func shown() async throws -> Bool {
                let text = try await node.ask(node.admin.port, Self.tasks).text
                return text.contains("\"indexer\"") && text.contains("\"_design/d\"")
            }
            #expect(try await within60Seconds { try await shown() })
            _ = try await node.ask(node.views.port, "DELETE /b/_design/d")
            #expect(try await within60Seconds { try await !shown() })
        }
    }

    @Test func nodeShowsTheErrorsOfItsFunctionAndTheRowsOfItsIndex() async throws {
        try await ViewNode.with { node in
            try await node.write([("good", "{\"n\":{}}"), ("bad", "{}")])
            let map = "function (doc) {\\n  doc.n.x = 1;\\n  emit(1, null);\\n}"
            _ = try await node.put("d", "{\"views\":{\"v\":{\"map\":\"\(map)\"}}}")
            #expect(try await node.query("stale=false").rows.count == 1)
            var last: [[String: Any]] = []
            let isShown = try await within60Seconds {
                let reply = try await node.ask(node.admin.port, Self.errors).object
                let view = (reply["views"] as? [String: [String: Any]])?["v"]
                last = view?["last"] as? [[String: Any]] ?? []
                return !last.isEmpty
            }
            #expect(isShown)
            #expect(last.first?["id"] as? String == "bad")
            #expect(last.first?["line"] as? Int == 2)
            #expect(last.first?["kind"] as? String == "threw")
            let metrics = try await node.ask(node.admin.port, "GET /metrics").text
            #expect(metrics.contains("view_index_rows{"))
            #expect(metrics.contains("kind=\"threw\"} 1\n"))
        }
    }

    private func within60Seconds(_ isSo: () async throws -> Bool) async throws -> Bool {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            if try await isSo() { return true }
            try await Task.sleep(for: .milliseconds(50))
        }
        return false
    }
}
