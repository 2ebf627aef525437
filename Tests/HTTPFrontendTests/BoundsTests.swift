import ClusterService
import Foundation
import HTTPFrontend
import Logging
import Orchestration
import Testing

@Suite struct BoundsTests {
    @Test func adminPortInUseIsNamedInTheError() async throws {
        try await Site.with { site in
            do {
                _ = try await AdminServer.start(
                    service: site.service,
                    host: "127.0.0.1",
                    port: site.port,
                    logger: Logger(label: "test")
                )
                Issue.record("two servers on one port")
            } catch let error as HTTPListenerError {
                #expect(error.description.contains("127.0.0.1:\(site.port) is in use"))
                #expect(error.description.contains("--admin-port"))
            }
        }
    }

    @Test func requestFromAnotherSitesPageIsRefusedBeforeProvisioning() async throws {
        try await Site.with(provisioned: false) { site in
            let form = "username=eve&password=secret"
            let reply = try await site.ask(
                "POST /clusterInit",
                .none,
                headers: ["Origin: http://evil.example"],
                form: form
            )
            #expect(reply.status == 403)
            #expect(!site.isProvisioned)
            let own = ["Origin: http://127.0.0.1:\(site.port)"]
            let same = try await site.ask("POST /clusterInit", .none, headers: own, form: form)
            #expect(same.status == 200)
        }
    }

    @Test func unauthorizedRequestIsRefusedBeforeItsBodyIsRead() async throws {
        try await Site.with { site in
            let port = site.port
            let (status, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(
                    "POST /pools/default/buckets HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
                )
                return (try client.response().status, client.isClosed())
            }
            #expect(status == 401)
            #expect(isOver)
        }
    }

    @Test func expectContinueIsAnsweredBeforeTheBody() async throws {
        try await Site.with { site in
            let port = site.port
            let form = "clusterName=later"
            let head = site.request(
                "POST /pools/default",
                .administrator,
                headers: ["Expect: 100-continue"],
                body: form
            ).dropLast(form.count)
            let statuses = try await apart {
                let client = try RawClient(port: port)
                try client.send(String(head))
                let first = try client.head().status
                try client.send(form)
                return [first, try client.response().status]
            }
            #expect(statuses == [100, 200])
            // An unauthorized client is refused at once.
            let unauthorized = try await apart {
                let client = try RawClient(port: port)
                try client.send(
                    "POST /pools/default HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
                        + "Expect: 100-continue\r\n\r\n"
                )
                return try client.response().status
            }
            #expect(unauthorized == 401)
        }
    }

    @Test func jsonBodyOfAFormRouteIsRefusedWithTheContentTypeToSend() async throws {
        try await Site.with { site in
            let body = "{\"name\": \"b\", \"ramQuotaMB\": 100}"
            let port = site.port
            let json = site.request(
                "POST /pools/default/buckets",
                .administrator,
                headers: ["Content-Type: application/json; charset=utf-8"],
                body: body
            )
            let reply = try await apart {
                let client = try RawClient(port: port)
                try client.send(json)
                return try client.response()
            }
            #expect(reply.status == 400)
            let text = (reply.object["errors"] as? [String: String])?["_"]
            #expect(text?.contains("application/x-www-form-urlencoded") == true)
            // A form with the content type of JSON is accepted, since tools send that.
            let form = site.request(
                "POST /pools/default",
                .administrator,
                headers: ["Content-Type: application/json"],
                body: "clusterName=x"
            )
            let accepted = try await apart {
                let client = try RawClient(port: port)
                try client.send(form)
                return try client.response().status
            }
            #expect(accepted == 200)
        }
    }

    @Test(arguments: [
        "POST /pools/default/buckets", "POST /pools/default/buckets/b", "POST /pools/default",
        "POST /settings/autoFailover", "POST /settings/rebalance", "POST /controller/addNode",
        "POST /controller/rebalance", "POST /settings/web", "POST /uilogin",
        "PUT /settings/rbac/users/local/a", "POST /pools/default/serverGroups",
        "PUT /pools/default/serverGroups", "POST /pools/default/buckets/b/docs/k",
    ])
    func multipartFormIsRefusedWithTheContentTypeToSend(line: String) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let body = "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nb\r\n--x--\r\n"
            let reply = try await site.ask(
                line,
                headers: ["Content-Type: multipart/form-data; boundary=x"],
                json: body
            )
            #expect(reply.status == 400)
            #expect(reply.text.contains("multipart/form-data is not supported"), "\(reply.text)")
            let isJSON = line == "PUT /pools/default/serverGroups"
            let remedy = isJSON ? "application/json" : "application/x-www-form-urlencoded"
            #expect(reply.text.contains(remedy), "\(reply.text)")
        }
    }

    @Test(arguments: ["", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"])
    func formIsAcceptedWithMissingTextAndFormContentTypes(type: String) async throws {
        try await Site.with { site in
            let headers = type.isEmpty ? [] : ["Content-Type: \(type)"]
            let form = "clusterName=x"
            let reply = try await site.ask("POST /pools/default", headers: headers, json: form)
            #expect(reply.status == 200, "\(reply.text)")
            #expect(site.service.state.name == "x")
            // A tool without a configured content type sends JSON under a form's type.
            let json = "{\"clusterName\":\"y\"}"
            let refused = try await site.ask("POST /pools/default", headers: headers, json: json)
            #expect(refused.status == 400)
            #expect(refused.text.contains("JSON"), "\(refused.text)")
            #expect(site.service.state.name == "x")
        }
    }

    @Test func bodyThatExceedsTheLimitIsRefused() async throws {
        try await Site.with { site in
            let body = "value=" + String(repeating: "x", count: 17 << 10)
            let reply = try await site.ask("POST /uilogin", .none, form: body)
            #expect(reply.status == 413)
        }
    }

    @Test func malformedRequestClosesOnlyItsConnection() async throws {
        try await Site.with { site in
            let port = site.port
            for garbage in [
                "\u{0}\u{1}\u{2}\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                "GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                "POST /uilogin HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                "GET /" + String(repeating: "a", count: 100_000) + " HTTP/1.1\r\n\r\n",
                "GET / HTTP/1.1\r\nX: " + String(repeating: "a", count: 100_000) + "\r\n\r\n",
            ] {
                let isOver = try await apart {
                    let client = try RawClient(port: port)
                    try? client.send(garbage)
                    return client.isClosed()
                }
                #expect(isOver, "\(garbage.prefix(40))")
                #expect(try await site.ask("GET /pools").status == 200)
            }
        }
    }

    /// A whole document is queued together with the end of its response.
    @Test(arguments: ["HTTP/1.0", "HTTP/1.1"])
    func largeLastResponseIsReadWholeAlsoSlowly(version: String) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            // More than the kernel buffers for the connection.
            await site.write("large", [UInt8](repeating: 0xff, count: 16 << 20))
            let text = site.request(
                "GET /pools/default/buckets/b/docs/large",
                .administrator,
                headers: version == "HTTP/1.1" ? ["Connection: close"] : []
            ).replacingOccurrences(of: " HTTP/1.1\r\n", with: " \(version)\r\n")
            let port = site.port
            let (count, declared) = try await apart {
                let client = try RawClient(
                    port: port,
                    timeoutSeconds: 60,
                    receiveBytes: 64 << 10
                )
                try client.send(text)
                let head = try client.head()
                // Longer than a connection stays open after its last response was read.
                Thread.sleep(forTimeInterval: 3)
                let declared = try #require(head.headers["content-length"].flatMap { Int($0) })
                return (try client.bytes(declared).count, declared)
            }
            #expect(count == declared)
            #expect(count > 16 << 20)
        }
    }

    @Test func requestsOnOneConnectionAreAnsweredInOrder() async throws {
        try await Site.with { site in
            let port = site.port
            let lines = ["GET /pools", "GET /nothing", "GET /whoami", "DELETE /pools"]
            let text = lines.map { site.request($0, .administrator) }.joined()
            let statuses = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return try lines.map { _ in try client.response().status }
            }
            #expect(statuses == [200, 404, 200, 405])
        }
    }

    @Test func requestIsServedBesideHundredsOfIdleConnections() async throws {
        try await Site.with { site in
            let port = site.port
            let silent = try await apart {
                try (0..<300).map { number in
                    let client = try RawClient(port: port)
                    if number % 2 == 0 { try client.send("GET /pools HTTP/1.1\r\nHost: ") }
                    return Silent(client: client)
                }
            }
            #expect(try await site.ask("GET /pools").status == 200)
            withExtendedLifetime(silent) {}
        }
    }

    /// Two unfinished bodies of almost 64 MiB use all memory for bodies.
    @Test func largeBodiesAreBoundedTogetherAndSmallOnesAreAccepted() async throws {
        try await Site.with { site in
            let port = site.port
            let line = "POST /pools/default/buckets/default/docs/large"
            let body = String(repeating: "a", count: (64 << 20) - 100)
            let request = site.request(line, .administrator, body: body)
            let stalled = try await apart {
                try (0..<2).map { _ in
                    let client = try RawClient(port: port)
                    try client.send(String(request.dropLast()))
                    return Silent(client: client)
                }
            }
            let refused = try await apart {
                let client = try RawClient(port: port)
                // The node closes while the body is on its way.
                try? client.send(request)
                return try client.response().status
            }
            #expect(refused == 503)
            let form = "clusterName=later"
            #expect(try await site.ask("POST /pools/default", form: form).status == 200)
            // The memory of the first body is free again after its reply.
            let statuses = try await apart {
                try stalled[0].client.send("a")
                let first = try stalled[0].client.response().status
                let client = try RawClient(port: port)
                try client.send(request)
                return [first, try client.response().status]
            }
            #expect(!statuses.contains(503))
        }
    }

    /// Used by one thread at a time.
    private struct Silent: @unchecked Sendable {
        let client: RawClient
    }
}
