import Bytes
import ClusterService
import Foundation
import Testing
import Vocabulary

@Suite struct DiscoveryTests {
    @Test func unprovisionedNodeAcceptsEveryRequestAndHasNoPool() async throws {
        try await Site.with(provisioned: false) { site in
            let pools = try await site.ask("GET /pools", .basic("any", "one")).object
            #expect((pools["pools"] as? [Any])?.isEmpty == true)
            #expect((pools["settings"] as? [Any])?.isEmpty == true)
            #expect((pools["uuid"] as? [Any])?.isEmpty == true)
            #expect(pools["implementationVersion"] as? String == "7.6.2-0000-enterprise")
            let components = pools["componentsVersion"] as? [String: String]
            #expect(components?["ns_server"] == "7.6.2-0000-enterprise")
            #expect(pools["divanVersion"] as? String == Release.version)
            for path in ["/pools/default", "/pools/default/terseClusterInfo"] {
                let reply = try await site.ask("GET \(path)", .none)
                #expect(reply.status == 404)
                #expect(reply.json as? String == "unknown pool")
            }
            let quota = try await site.ask("POST /pools/default", .none, form: "memoryQuota=300")
            #expect(quota.status == 200)
            let services = try await site.ask(
                "POST /node/controller/setupServices",
                .none,
                form: "services=kv"
            )
            #expect(services.status == 200)
            let wrong = try await site.ask(
                "POST /node/controller/setupServices",
                .none,
                form: "services=kv%2Cn1ql"
            )
            #expect(wrong.status == 400)
            #expect((wrong.json as? [String])?.count == 1)
            let web = try await site.ask(
                "POST /settings/web",
                .none,
                form: "port=SAME&username=u&password=secret"
            )
            #expect(web.object["newBaseUri"] as? String == "http://127.0.0.1:\(site.port)/")
            #expect(try await site.ask("GET /pools/default", .none).status == 401)
            let pool = try await site.ask("GET /pools/default", .basic("u", "secret"))
            #expect(pool.object["memoryQuota"] as? Int == 300)
        }
    }

    @Test func requestWithoutThePasswordGetsOnlyAChallenge() async throws {
        try await Site.with { site in
            for login in [Site.Login.none, .basic("Administrator", "x"), .basic("x", "password")] {
                let reply = try await site.ask("GET /pools/default", login)
                #expect(reply.status == 401)
                let text = String(decoding: reply.body, as: UTF8.self)
                #expect(text.contains("needs the name and the password of a user"))
                let realm = "Basic realm=\"Couchbase Server Admin / REST\""
                #expect(reply.headers["www-authenticate"] == realm)
            }
            let quiet = try await site.ask(
                "GET /pools",
                .none,
                headers: ["invalid-auth-response: on"]
            )
            #expect(quiet.status == 401)
            #expect(quiet.headers["www-authenticate"] == nil)
            let again = try await site.ask(
                "POST /clusterInit",
                .none,
                form: "username=eve&password=evil66"
            )
            #expect(again.status == 401)
        }
    }

    @Test func everyReplyHasTheCommonHeaders() async throws {
        try await Site.with { site in
            for line in ["GET /pools", "GET /nothing", "DELETE /pools"] {
                let headers = try await site.ask(line).headers
                #expect(headers["server"] == "Couchbase Server")
                #expect(headers["cache-control"] == "no-cache,no-store,must-revalidate")
                #expect(headers["x-frame-options"] == "DENY")
                #expect(headers["x-content-type-options"] == "nosniff")
                #expect(headers["content-type"] != nil)
            }
        }
    }

    @Test func repeatedAndTrailingSlashesOfAPathAreIgnored() async throws {
        try await Site.with { site in
            for path in ["/pools/default/", "//pools///default", "/metrics/", "/pools%2fdefault"] {
                let reply = try await site.ask("GET \(path)")
                #expect(reply.status == (path.contains("%") ? 404 : 200), "\(path)")
            }
            let missing = try await site.ask("GET /nothing/here")
            #expect(missing.status == 404)
            #expect(missing.text == notFound)
            #expect(missing.headers["content-type"] == "text/plain")
            let method = try await site.ask("DELETE /pools")
            #expect(method.status == 405)
            #expect(method.headers["allow"] == "GET")
            let head = try await site.ask("HEAD /pools")
            #expect(head.status == 200)
            let uuid = String(repeating: "0", count: 32)
            let other = try await site.ask("GET /pools/default?uuid=\(uuid)", .none)
            #expect(other.status == 404)
            #expect(other.text == "Cluster uuid does not match the requested.\r\n")
        }
    }

    /// Without these keys the Python client crashes.
    @Test func poolHasTheMembersThatClientsRequire() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            site.plane.alarm.withLock { $0 = [Alert(id: "full", message: "The disk is full.")] }
            let pool = try await site.ask("GET /pools/default").object
            #expect(pool["name"] as? String == "default")
            #expect((pool["bucketNames"] as? [[String: String]])?.first?["bucketName"] == "b")
            #expect(pool["maxBucketCount"] as? Int == 1_000)
            #expect(pool["rebalanceStatus"] as? String == "none")
            #expect(
                (pool["alerts"] as? [[String: Any]])?.first?["msg"] as? String
                    == "The disk is full."
            )
            let node = try #require((pool["nodes"] as? [[String: Any]])?.first)
            for key in ["hostname", "otpNode", "version", "os", "status", "nodeUUID", "uptime"] {
                #expect(node[key] is String, "\(key)")
            }
            #expect(node["hostname"] as? String == "127.0.0.1:\(site.port)")
            #expect(node["otpNode"] as? String == "n_\(site.port)@127.0.0.1")
            #expect(node["clusterCompatibility"] as? Int == 458_758)
            #expect(node["status"] as? String == "healthy")
            #expect(node["services"] as? [String] == ["kv"])
            #expect(node["couchApiBase"] == nil)
            let stats = try #require(node["systemStats"] as? [String: Any])
            #expect((stats["mem_total"] as? Int ?? 0) > 0)
            let totals = try #require(pool["storageTotals"] as? [String: [String: Any]])
            #expect(totals["ram"]?["quotaTotal"] as? Int == 1_000 << 20)
            #expect(totals["ram"]?["quotaUsed"] as? Int == 100 << 20)
            #expect((totals["hdd"]?["total"] as? Int ?? 0) > 0)
        }
    }

    @Test func warmupIsShownInTheNodesStatusAndInTheTasks() async throws {
        try await Site.with { site in
            try await site.createBucket("a")
            try await site.createBucket("b")
            site.plane.buckets.withLock { $0["b"]?.status = .warmingUp(0.25) }
            let node = try await site.ask("GET /nodes/self").object
            #expect(node["status"] as? String == "warmup")
            for (name, status) in [("a", "healthy"), ("b", "warmup")] {
                let bucket = try await site.ask("GET /pools/default/buckets/\(name)").object
                let nodes = bucket["nodes"] as? [[String: Any]]
                #expect(nodes?.first?["status"] as? String == status)
            }
            let tasks = try await site.ask("GET /pools/default/tasks").json as? [[String: Any]]
            #expect(tasks?.map { $0["type"] as? String } == ["rebalance", "warming_up"])
            #expect(tasks?.last?["progress"] as? Double == 25)
        }
    }

    @Test func checkPermissionsReturnsTheTextsOfTheRequest() async throws {
        try await Site.with { site in
            try await site.createBucket("open", "&passwordless=1")
            let asked = "cluster.bucket[b].data.docs!read,cluster!admin"
            let all = try await site.ask("POST /pools/default/checkPermissions", form: asked)
            #expect(
                all.json as? [String: Bool] == [
                    "cluster.bucket[b].data.docs!read": true, "cluster!admin": true,
                ]
            )
            for malformed in ["malformed", "cluster.bucket[!read", "cluster.x", ","] {
                let reply = try await site.ask(
                    "POST /pools/default/checkPermissions",
                    form: malformed
                )
                #expect(reply.status == 400, "\(malformed)")
            }
            let few = try await site.ask(
                "POST /pools/default/checkPermissions",
                .basic("open", ""),
                form: "cluster.bucket[open].data.docs!read,cluster.bucket[b].data!read,cluster!read"
            )
            #expect(
                few.json as? [String: Bool] == [
                    "cluster.bucket[open].data.docs!read": true,
                    "cluster.bucket[b].data!read": false, "cluster!read": false,
                ]
            )
        }
    }

    @Test func requestBeforeTheServiceStartsIsRefusedWith503() async throws {
        try await Site.with(serving: false) { site in
            let reply = try await site.ask("GET /pools", .none)
            #expect(reply.status == 503)
        }
    }
}
