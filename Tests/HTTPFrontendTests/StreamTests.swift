import Foundation
import Testing

@Suite struct StreamTests {
    /// The chunks of a stream, up to its end.
    func follow(
        _ path: String,
        of site: Site,
        _ login: Site.Login = .administrator
    ) -> AsyncThrowingStream<String, any Error> {
        let text = site.request("GET \(path)", login)
        let port = site.port
        return AsyncThrowingStream { chunks in
            Thread.detachNewThread {
                do {
                    let client = try RawClient(port: port)
                    try client.send(text)
                    guard try client.head().status == 200 else {
                        throw RawClient.Failure(what: "refused")
                    }
                    while let chunk = try client.chunk() {
                        chunks.yield(String(decoding: chunk, as: UTF8.self))
                    }
                    chunks.finish()
                } catch {
                    chunks.finish(throwing: error)
                }
            }
        }
    }

    func parse(_ chunk: String) throws -> [String: Any] {
        try #require(chunk.hasSuffix("}\n\n\n\n"))
        return try #require(JSONSerialization.jsonObject(with: Data(chunk.utf8)) as? [String: Any])
    }

    @Test(arguments: ["bs", "bucketsStreaming"])
    func bucketStreamSendsChangesAndEndsWithTheBucket(_ kind: String) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            var stream = follow("/pools/default/\(kind)/b", of: site).makeAsyncIterator()
            let first = try parse(try #require(try await stream.next()))
            #expect(first["name"] as? String == "b")
            _ = try await site.ask("POST /pools/default/buckets/b", form: "replicaNumber=3")
            let second = try parse(try #require(try await stream.next()))
            let map = second["vBucketServerMap"] as? [String: Any]
            #expect(map?["numReplicas"] as? Int == 3)
            if let rev = first["rev"] as? Int { #expect((second["rev"] as? Int ?? 0) > rev) }
            // Changes of another bucket are not sent.
            try await site.createBucket("other")
            _ = try await site.ask("DELETE /pools/default/buckets/b")
            let last = try await stream.next()
            #expect(last == nil)
        }
    }

    @Test func saslBucketsStreamHasAllBuckets() async throws {
        try await Site.with { site in
            try await site.createBucket("a")
            var stream = follow("/pools/default/saslBucketsStreaming", of: site)
                .makeAsyncIterator()
            let first = try parse(try #require(try await stream.next()))
            let buckets = try #require(first["buckets"] as? [[String: Any]])
            #expect(buckets.map { $0["name"] as? String } == ["a"])
            #expect(buckets[0]["vBucketServerMap"] is [String: Any])
            #expect(buckets[0]["nodes"] is [[String: Any]])
            try await site.createBucket("b")
            let second = try parse(try #require(try await stream.next()))
            #expect((second["buckets"] as? [Any])?.count == 2)
        }
    }

    @Test func heartbeatOfAStreamIsABareSeparator() async throws {
        try await Site.with { site in
            let path = "/pools/default/nodeServicesStreaming?heartbeat=1"
            var stream = follow(path, of: site).makeAsyncIterator()
            let first = try parse(try #require(try await stream.next()))
            #expect(first["nodesExt"] != nil)
            let second = try await stream.next()
            #expect(second == "\n\n\n\n")
        }
    }

    @Test func streamEndsWhenTheBucketIsNoLongerPasswordless() async throws {
        try await Site.with { site in
            try await site.createBucket("open", "&passwordless=1")
            var stream = follow("/pools/default/bs/open", of: site, .none).makeAsyncIterator()
            _ = try #require(try await stream.next())
            _ = try await site.ask("POST /pools/default/buckets/open", form: "passwordless=0")
            let last = try await stream.next()
            #expect(last == nil)
        }
    }

    /// This once crashed the process.
    @Test func clientThatDisconnectsFromAStreamDoesNotAffectOtherRequests() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let port = site.port
            for path in ["/poolsStreaming/default", "/pools/default/bs/b"] {
                let text = site.request("GET \(path)", .administrator)
                for round in 0..<10 {
                    try await apart {
                        let client = try RawClient(port: port)
                        try client.send(text)
                        // Odd rounds disconnect at once, even ones after the first document.
                        guard round % 2 == 0 else { return }
                        #expect(try client.head().headers["connection"] == "close")
                        _ = try client.chunk()
                    }
                }
                let renamed = try await site.ask("POST /pools/default", form: "clusterName=\(port)")
                #expect(renamed.status == 200)
            }
            try await Task.sleep(for: .milliseconds(300))
            #expect(try await site.ask("GET /pools/default").status == 200)
        }
    }

    @Test func stoppingTheServiceEndsEveryStream() async throws {
        try await Site.with { site in
            var streams: [AsyncThrowingStream<String, any Error>.Iterator] = []
            for _ in 0..<5 {
                var stream = follow("/poolsStreaming/default", of: site).makeAsyncIterator()
                _ = try #require(try await stream.next())
                streams.append(stream)
            }
            site.stop()
            for index in streams.indices {
                let last = try await streams[index].next()
                #expect(last == nil)
            }
        }
    }
}
