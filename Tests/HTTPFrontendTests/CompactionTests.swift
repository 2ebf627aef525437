import Bytes
import Foundation
import Testing
import Vocabulary

/// Compaction of buckets: the routes, and the task while it runs.
@Suite struct CompactionTests {
    private static let controller = "POST /pools/default/buckets/b/controller"

    private func tasks(_ site: Site) async throws -> [[String: Any]] {
        let all = try await site.ask("GET /pools/default/tasks").json as? [[String: Any]]
        return (all ?? []).filter { $0["type"] as? String == "bucket_compaction" }
    }

    private func show(_ done: UInt64, of total: UInt64, on site: Site) {
        site.plane.buckets.withLock {
            $0["b"]?.compaction = CompactionWork(done: done, total: total)
        }
    }

    @Test func requestedCompactionIsATaskThatItsURICancels() async throws {
        try await Site.with { site in
            try await site.createBucket("a")
            try await site.createBucket("b")
            #expect(try await tasks(site).isEmpty)
            #expect(try await site.ask("\(Self.controller)/compactBucket").status == 200)
            show(10, of: 40, on: site)
            let task = try #require(try await tasks(site).first)
            let path = "/pools/default/buckets/b/controller/cancelBucketCompaction"
            let texts = ["status": "running", "bucket": "b", "cancelURI": path]
            for (name, text) in texts { #expect(task[name] as? String == text) }
            let numbers = ["changesDone": 10, "totalChanges": 40, "progress": 25]
            for (name, number) in numbers { #expect(task[name] as? Int == number) }
            #expect(task["recommendedRefreshPeriod"] as? Double == 2)
            #expect(task.count == 2 + texts.count + numbers.count)
            // Free pages return to the file system.
            show(40, of: 40, on: site)
            #expect(try await tasks(site).first?["progress"] as? Int == 99)
            show(0, of: 0, on: site)
            #expect(try await tasks(site).first?["progress"] as? Int == 0)
            #expect(try await site.ask("POST \(path)").status == 200)
            #expect(try await tasks(site).isEmpty)
            // As in Couchbase Server, a cancellation without a compaction succeeds.
            #expect(try await site.ask("POST \(path)").status == 200)
            #expect(try await site.ask("\(Self.controller)/compactDatabases").status == 200)
            #expect(try await tasks(site).map { $0["bucket"] as? String } == ["b"])
            let reply = try await site.ask("\(Self.controller)/cancelDatabasesCompaction")
            #expect(reply.status == 200 && reply.text.isEmpty)
            #expect(try await tasks(site).isEmpty)
        }
    }

    @Test func controllersOfAnUnknownBucketAnswer404AndNeedThePermission() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let user = "PUT /settings/rbac/users/local/eve"
            let form = "password=secret-1&roles=data_writer%5Bb%5D"
            #expect(try await site.ask(user, form: form).status == 200)
            for name in [
                "compactBucket", "compactDatabases", "cancelBucketCompaction",
                "cancelDatabasesCompaction",
            ] {
                let unknown = "POST /pools/default/buckets/c/controller/\(name)"
                #expect(try await site.ask(unknown).text == notFound, "\(name)")
                let eve = Site.Login.basic("eve", "secret-1")
                #expect(try await site.ask("\(Self.controller)/\(name)", eve).status == 403)
            }
            #expect(try await tasks(site).isEmpty)
        }
    }

    @Test func compactionThatNoNodeBeginsIsAnError() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            site.plane.refusesCompaction.withLock { $0 = true }
            for name in ["compactBucket", "compactDatabases"] {
                let reply = try await site.ask("\(Self.controller)/\(name)")
                #expect(reply.status == 500)
                #expect(reply.text.contains("No node has begun compaction"), "\(reply.text)")
                #expect(reply.text.contains("n_\(site.port)@127.0.0.1"), "\(reply.text)")
            }
            #expect(try await tasks(site).isEmpty)
        }
    }
}
