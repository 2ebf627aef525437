import Bytes
import Foundation
import Testing

@Suite struct BucketTests {
    @Test func bucketIsCreatedReadChangedFlushedAndDeleted() async throws {
        try await Site.with { site in
            let made = try await site.ask(
                "POST /pools/default/buckets",
                form: "&name=b%25&ramQuotaMB=100&flushEnabled=1&replicaNumber=2&authType=sasl"
            )
            #expect(made.status == 202)
            #expect(made.body.isEmpty)
            #expect(made.headers["location"] == "/pools/default/buckets/b%25")
            let bucket = try await site.ask("GET /pools/default/buckets/b%25").object
            #expect(bucket["name"] as? String == "b%")
            #expect((bucket["uuid"] as? String)?.count == 32)
            #expect(bucket["bucketType"] as? String == "membase")
            #expect(bucket["quota"] as? [String: Int] == ["ram": 100 << 20, "rawRAM": 100 << 20])
            #expect(bucket["replicaNumber"] as? Int == 2)
            #expect(bucket["replicaIndex"] as? Bool == false)
            #expect(bucket["evictionPolicy"] as? String == "valueOnly")
            #expect(bucket["conflictResolutionType"] as? String == "seqno")
            let node = try #require((bucket["nodes"] as? [[String: Any]])?.first)
            for key in ["status", "hostname", "version", "services", "ports"] {
                #expect(node[key] != nil, "\(key)")
            }
            #expect(node["replication"] as? Double == 0)
            let controllers = bucket["controllers"] as? [String: String]
            #expect(controllers?["flush"] == "/pools/default/buckets/b%25/controller/doFlush")
            let purge = try #require(controllers?["purgeDeletes"])
            #expect(purge == "/pools/default/buckets/b%25/controller/unsafePurgeBucket")
            #expect(try await site.ask("POST \(purge)").status == 200)
            let elsewhere = purge.replacing("b%25", with: "none")
            #expect(try await site.ask("POST \(elsewhere)").status == 404)
            for absent in ["ddocs", "collectionsManifestUid"] { #expect(bucket[absent] == nil) }
            let map = try #require(bucket["vBucketServerMap"] as? [String: Any])
            #expect((map["vBucketMap"] as? [[Int]])?.first == [0, -1, -1])

            #expect(
                try await site.ask("POST /pools/default/buckets/b%25/controller/doFlush").status
                    == 200
            )
            let changed = try await site.ask(
                "POST /pools/default/buckets/b%25",
                form: "&flushEnabled=0&ramQuotaMB=150"
            )
            #expect(changed.status == 200)
            let refused = try await site.ask("POST /pools/default/buckets/b%25/controller/doFlush")
            #expect(refused.status == 400)
            #expect(refused.json as? [String: String] == ["_": "Flush is disabled for the bucket"])
            #expect(try await site.ask("DELETE /pools/default/buckets/b%25").status == 200)
            let gone = try await site.ask("GET /pools/default/buckets/b%25")
            #expect(gone.status == 404)
            #expect(gone.text == notFound)
            let twice = try await site.ask("DELETE /pools/default/buckets/b%25")
            #expect(twice.status == 404 && twice.text == notFound)
        }
    }

    @Test func invalidBucketFormIsRefusedWithAnErrorForEachField() async throws {
        try await Site.with { site in
            try await site.createBucket("taken")
            let twin = try await site.ask(
                "POST /pools/default/buckets",
                form: "name=TAKEN&ramQuotaMB=5000"
            )
            #expect(twin.status == 400)
            let errors = try #require(twin.object["errors"] as? [String: String])
            #expect(errors["name"] == "Bucket with given name already exists")
            #expect(errors["ramQuota"]?.contains("does not fit") == true)
            let summaries = try #require(twin.object["summaries"] as? [String: [String: Any]])
            #expect(summaries["ramSummary"]?["total"] as? Int == 1_000 << 20)
            let trial = try await site.ask(
                "POST /pools/default/buckets?just_validate=1",
                form: "name=new&ramQuotaMB=200"
            )
            #expect(trial.status == 200)
            #expect((trial.object["errors"] as? [String: String])?.isEmpty == true)
            #expect(try await site.ask("GET /pools/default/buckets/new").status == 404)
            let few = try await site.ask("POST /internalSettings", form: "maxBucketCount=1")
            #expect(few.status == 200)
            let many = try await site.ask(
                "POST /pools/default/buckets",
                form: "name=new&ramQuotaMB=100"
            )
            #expect(many.json as? [String: String] == ["_": "Cannot create more than 1 buckets"])
        }
    }

    @Test func scopesOfABucketAreTheDefaultOne() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let reply = try await site.ask("GET /pools/default/buckets/b/scopes")
            #expect(reply.status == 200)
            let collections = #"[{"name":"_default","uid":"0"}]"#
            let scopes = #"[{"name":"_default","uid":"0","collections":\#(collections)}]"#
            #expect(reply.text == #"{"uid":"0","scopes":\#(scopes)}"#)
            let absent = try await site.ask("GET /pools/default/buckets/c/scopes")
            #expect(absent.status == 404 && absent.text == notFound)
            #expect(try await site.ask("GET /pools/default/buckets/b/scopes", .none).status == 401)
        }
    }

    @Test func changeOfCollectionsIsRefusedDifferentlyFromAMissingBucket() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for line in ["POST", "PUT"].map({ "\($0) /pools/default/buckets/b/scopes" }) + [
                "DELETE /pools/default/buckets/b/scopes/s",
                "POST /pools/default/buckets/b/scopes/s/collections",
                "PATCH /pools/default/buckets/b/scopes/s/collections/c",
                "DELETE /pools/default/buckets/b/scopes/s/collections/c",
            ] {
                let reply = try await site.ask(line)
                #expect(reply.status == 400, "\(line)")
                let text = (reply.object["errors"] as? [String: String])?["_"]
                #expect(text?.contains("not available") == true)
            }
            #expect(try await site.ask("POST /pools/default/buckets/c/scopes").text == notFound)
        }
    }

    @Test func requestWithAnotherBucketUUIDIsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let reply = try await site.ask("GET /pools/default/buckets/b?bucket_uuid=00")
            #expect(reply.status == 404)
            #expect(reply.text.hasPrefix("Bucket uuid does not match"))
            let terse = try await site.ask("GET /pools/default/b/missing")
            #expect(terse.status == 404)
            #expect(terse.json as? String == "Bucket not found")
        }
    }

    @Test func requestWithoutPasswordAccessesOnlyPasswordlessBucket() async throws {
        try await Site.with { site in
            try await site.createBucket("closed")
            for path in ["/pools", "/pools/default", "/pools/default/buckets"] {
                #expect(try await site.ask("GET \(path)", .none).status == 401)
            }
            try await site.createBucket("open", "&passwordless=1")
            for login in [Site.Login.none, .basic("open", "")] {
                #expect(try await site.ask("GET /pools", login).status == 200)
                let pool = try await site.ask("GET /pools/default", login)
                #expect(pool.status == 200)
                #expect(!pool.text.contains("closed"))
                let list = try await site.ask("GET /pools/default/buckets", login)
                let names = (list.json as? [[String: Any]])?.map { $0["name"] as? String }
                #expect(names == ["open"])
                #expect(try await site.ask("GET /pools/default/buckets/open", login).status == 200)
                #expect(try await site.ask("GET /pools/default/b/open", login).status == 200)
            }
            for line in [
                "GET /pools/default/buckets/closed", "GET /pools/default/b/closed",
                "GET /pools/default/bs/closed", "GET /pools/default/buckets/closed/docs",
                "POST /pools/default/buckets", "DELETE /pools/default/buckets/open",
                "POST /pools/default/buckets/closed/controller/doFlush", "GET /logs",
                "GET /metrics", "POST /settings/web", "GET /nodes/self",
            ] {
                #expect(try await site.ask(line, .none).status == 401, "\(line)")
                let known = try await site.ask(line, .basic("open", ""))
                #expect(known.status == 403, "\(line)")
                #expect(known.object["permissions"] is [String])
            }
            // Its documents need a login, for which its name is enough.
            for line in [
                "GET /pools/default/buckets/open/docs",
                "POST /pools/default/buckets/open/controller/doFlush",
            ] {
                #expect(try await site.ask(line, .none).status == 401, "\(line)")
                let known = try await site.ask(line, .basic("open", ""))
                #expect(known.status != 401 && known.status != 403, "\(line)")
            }
            #expect(try await site.ask("GET /pools", .basic("closed", "")).status == 401)
            #expect(try await site.ask("GET /pools", .basic("open", "guess")).status == 401)
        }
    }

    /// The statistics of a bucket are read from all its vBuckets.
    @Test func listOfBucketsReadsTheStatisticsOfEachBucketOnce() async throws {
        try await Site.with { site in
            let count = 8
            for number in 0..<count { try await site.createBucket("b\(number)") }
            let before = site.plane.statisticsReadCount.withLock { $0 }
            let list = try await site.ask("GET /pools/default/buckets")
            let reads = site.plane.statisticsReadCount.withLock { $0 } - before
            #expect((list.json as? [[String: Any]])?.count == count)
            // The sampler reads the statistics of every bucket too, once a second.
            #expect(reads >= count)
            #expect(reads < count * count)
        }
    }
}
