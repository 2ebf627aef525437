import SyncFrontend
import SyncWire
import Testing

@Suite struct ServerRouteTests {
    @Test func everyPortAnswersPing() async throws {
        try await GatewayWorld.administered { world in
            for login in [GatewayWorld.Login.none, .administrator, .metrics] {
                let answer = try world.ask("GET /_ping", login)
                #expect(answer.status == 200 && answer.text == "OK")
                let head = try world.ask("HEAD /_ping", login)
                #expect(head.status == 200 && head.body.isEmpty)
            }
        }
    }

    @Test func statusHasDatabases() async throws {
        try await GatewayWorld.administered { world in
            _ = try world.administer("POST /db/_offline")
            let answer = try world.administer("GET /_status")
            let databases = answer.object["databases"] as? [String: [String: Any]]
            #expect(databases?["db"]?["state"] as? String == "Offline")
            #expect(databases?["db"]?["seq"] as? Int == 2)
            let tasks = try world.administer("GET /_active_tasks")
            #expect(tasks.text == "[]")
            let page = try world.administer("GET /_admin/")
            #expect(page.status == 404 && page.reason.contains("/_all_dbs"))
        }
    }

    @Test func logKeysAreReplacedByPutAndAddedByPost() async throws {
        let prepare: GatewayWorld.Preparation = { $0.logKeys = LogKeys(["*"]) }
        try await GatewayWorld.administered(prepare: prepare) { world in
            let first = try world.administer("GET /_logging")
            #expect(first.text == "{\"*\":true}")
            let replaced = try world.administer("PUT /_logging", body: "{\"HTTP\":true}")
            #expect(replaced.status == 200 && replaced.body.isEmpty)
            _ = try world.administer("POST /_logging", body: "{\"CRUD\":false,\"Access+\":true}")
            let after = try world.administer("GET /_logging")
            #expect(
                after.text == "{\"Access\":true,\"Access+\":true,\"CRUD\":false,\"HTTP\":true}"
            )
            for body in ["{\"HTTP\":1}", "x", "[]", ""] {
                let refused = try world.administer("PUT /_logging", body: body)
                #expect(refused.status == 400)
                #expect(refused.reason == "Invalid JSON or non-boolean values")
            }
            let level = try world.administer("PUT /_logging?level=2")
            #expect(level.status == 200)
            let gateway = world.gateway
            let found = await world.run { gateway.logKeys.level }
            #expect(found == 2)
        }
    }

    @Test func metricsCountRequestsAndDatabases() async throws {
        try await GatewayWorld.administered(
            GatewayWorld.file(sync: GatewayWorld.function)
        ) { world in
            _ = await world.put("a", "{\"channels\":[\"a\"]}")
            _ = try world.administer("GET /nowhere/_config")
            _ = try world.ask("GET /_ping", .metrics)
            let answer = try world.ask("GET /metrics", .metrics)
            #expect(answer.status == 200)
            let type = answer.headers["content-type"]
            #expect(type == "text/plain; version=0.0.4; charset=utf-8")
            for line in [
                "divan_gateway_requests_total{status=\"2xx\"} 1",
                "divan_gateway_requests_total{status=\"4xx\"} 1",
                "divan_gateway_memory_quota_bytes 268435456",
                "divan_gateway_documents{database=\"db\"} 1",
                "divan_gateway_feeds{database=\"db\"} 0",
                "divan_gateway_sync_calls_total{database=\"db\"} 1",
                "divan_gateway_sync_failures_total{database=\"db\"} 0",
                "# TYPE divan_gateway_sync_calls_total counter",
            ] {
                #expect(answer.text.contains(line + "\n"), "\(line)")
            }
            for line in ["GET /_stats", "GET /_expvar"] {
                let json = try world.administer(line)
                let databases = json.object["databases"] as? [String: [String: Any]]
                #expect(databases?["db"]?["documents"] as? Int == 1)
            }
        }
    }

    @Test func unsupportedRoutesNameTheirReplacement() async throws {
        try await GatewayWorld.administered { world in
            for line in [
                "GET /db/_blipsync", "GET /db/_design/d/_view/v",
            ] {
                let answer = try world.ask(line)
                #expect(answer.status == 501 && answer.reason.contains("use"), "\(line)")
                let stranger = try world.ask(line, .none)
                #expect(stranger.status == 401)
            }
            for line in [
                "GET /db/_view/v", "GET /db/_dump/v", "POST /_replicate", "GET /db/_replication/",
                "PUT /db/_replication/r", "GET /db/_replicationStatus/",
                "PUT /db/_replicationStatus/r",
            ] {
                let answer = try world.administer(line)
                #expect(answer.status == 501 && answer.reason.contains("use"), "\(line)")
                let outside = try world.ask(line)
                #expect(outside.status == 404, "\(line)")
            }
            for path in ["_facebook", "_google", "_persona"] {
                let answer = try world.ask("POST /db/\(path)", .none, body: "{}")
                #expect(answer.status == 404 && answer.reason == "unknown URL")
            }
            for path in ["_oidc", "_oidc_callback", "_oidc_refresh", "_oidc_challenge"] {
                let answer = try world.ask("GET /db/\(path)", .none)
                #expect(answer.status == 400)
                #expect(answer.reason == "OpenID Connect not configured for database db")
                let head = try world.ask("HEAD /db/\(path)", .none)
                #expect(head.status == 405 && head.headers["allow"] == "GET")
            }
        }
        try await GatewayWorld.administered(
            GatewayWorld.file("1.4", sync: nil, "\"facebook\": {\"Register\": true},")
        ) { world in
            let answer = try world.ask("POST /db/_facebook", .none, body: "{}")
            #expect(answer.status == 501 && answer.reason.contains("POST _session"))
        }
    }

    @Test func publicPortHasNoRoutesOfTheServer() async throws {
        try await GatewayWorld.administered { world in
            for path in [
                "_all_dbs", "_config", "_status", "_active_tasks", "_logging", "_stats", "_expvar",
                "_metrics", "_admin/", "_replicate",
            ] {
                let answer = try world.ask("GET /\(path)")
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(path)")
            }
        }
    }
}
