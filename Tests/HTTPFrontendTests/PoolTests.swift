import Bytes
import ClusterService
import Foundation
import Testing
import Vocabulary

/// Long polls of the pool, alerts, random keys, and the links of a bucket's nodes.
@Suite struct PoolTests {
    private func wait(
        _ site: Site,
        _ etag: String,
        _ milliseconds: Int
    ) async throws -> (etag: String, buckets: Int, took: Duration) {
        let clock = ContinuousClock()
        let began = clock.now
        let pool = try await site.ask(
            "GET /pools/default?waitChange=\(milliseconds)&etag=\(etag)"
        ).object
        let names = pool["bucketNames"] as? [Any]
        #expect(pool["storageTotals"] != nil)
        return (
            try #require(pool["etag"] as? String), names?.count ?? -1,
            began.duration(to: clock.now)
        )
    }

    @Test func longPollReturnsAtAChangeOrAfterItsTimeout() async throws {
        try await Site.with { site in
            // Without a tag the reply is immediate.
            let first = try await wait(site, "", 20_000)
            #expect(first.took < .seconds(5))
            // Without a change the timeout elapses and the tag is the same.
            let same = try await wait(site, first.etag, 300)
            #expect(same.took >= .milliseconds(300))
            #expect(same.etag == first.etag)
            // A change ends the wait at once.
            async let changed = wait(site, first.etag, 20_000)
            try await Task.sleep(for: .milliseconds(100))
            try await site.createBucket("b")
            let reply = try await changed
            #expect(reply.took < .seconds(5))
            #expect(reply.etag != first.etag)
            #expect(reply.buckets == 1)
            let wrong = try await site.ask("GET /pools/default?waitChange=long")
            #expect(wrong.status == 400)
            #expect(try await site.ask("GET /pools/default").object["etag"] == nil)
        }
    }

    @Test func stoppingTheNodeEndsLongPolls() async throws {
        try await Site.with { site in
            let first = try await wait(site, "", 0)
            async let changed = wait(site, first.etag, 20_000)
            try await Task.sleep(for: .milliseconds(100))
            site.stop()
            #expect(try await changed.took < .seconds(5))
        }
    }

    @Test func alertOfAFailedBucketNamesTheBucket() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            site.plane.buckets.withLock { $0["b"]?.status = .failed("its files are gone") }
            site.plane.alarm.withLock { $0 = [Alert(id: "x", message: "Memory is short.")] }
            let alerts =
                try await site.ask("GET /pools/default").object["alerts"] as? [[String: Any]]
            let texts = alerts?.compactMap { $0["msg"] as? String } ?? []
            #expect(texts.contains("Memory is short."))
            #expect(texts.contains("Bucket b does not serve: its files are gone"))
        }
    }

    @Test func randomKeyOfABucketIsReturnedAndOfAnEmptyBucketIsNot() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let path = "GET /pools/default/buckets/b/localRandomKey"
            let none = try await site.ask(path)
            #expect(none.status == 404)
            #expect(none.object["error"] as? String == "fallback_to_all_docs")
            let stored = try await site.ask(
                "POST /pools/default/buckets/b/docs/k%2F1",
                form: "value=1"
            )
            #expect(stored.status == 200)
            let some = try await site.ask(path)
            #expect(some.status == 200)
            #expect(some.object["key"] as? String == "k/1")
            #expect(try await site.ask(path, .none).status == 401)
            let missing = try await site.ask("GET /pools/default/buckets/c/localRandomKey")
            #expect(missing.text == notFound)
        }
    }

    @Test func linksOfABucketsNodesCanBeRead() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let list = try await site.ask("GET /pools/default/buckets/b/nodes").object
            let server = try #require((list["servers"] as? [[String: Any]])?.first)
            let uri = try #require(server["uri"] as? String)
            let node = try await site.ask("GET \(uri)")
            #expect(node.object["hostname"] as? String == server["hostname"] as? String)
            #expect(node.object["replication"] != nil)
            let stats = try #require((server["stats"] as? [String: String])?["uri"])
            #expect(try await site.ask("GET \(stats)").status == 200)
            let other = try await site.ask("GET /pools/default/buckets/b/nodes/elsewhere:8091")
            #expect(other.status == 404)
        }
    }
}
