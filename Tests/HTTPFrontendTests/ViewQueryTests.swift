import Bytes
import Foundation
import HTTPFrontend
import Testing

/// Parameters and refusals of view queries.
@Suite struct ViewQueryTests {
    private static let path = "/b/_design/dev_d/_view/v"

    /// Gateways from 2.x on send a newline behind keys.
    @Test func parametersOfTheQueryStringArriveDecodedAndOtherwiseUnchanged() async throws {
        try await ViewSite.with { views in
            let query =
                "startkey=%5B%22%2A%22%2C1%5D%0A&key=%22a+b%22&stale=false&limit=&x&stale=ok"
                + "&startkey_docid=d%2F%C3%A9"
            let reply = try await views.ask("GET \(Self.path)?\(query)")
            #expect(reply.statusLine == "HTTP/1.1 200 OK")
            #expect(
                views.queries.lastParameters == [
                    "startkey=[\"*\",1]\n", "key=\"a b\"", "stale=false", "limit=", "x=",
                    "stale=ok", "startkey_docid=d/é",
                ]
            )
            let request = try #require(views.queries.requests.withLock { $0.last })
            #expect(request.bucket == "b")
            #expect(request.designDocument == "dev_d")
            #expect(request.view == "v")
        }
    }

    @Test(arguments: [
        ("/b/_design/a%2Fb/_view/c%2Fd", "a/b", "c/d"), ("/b/_design%2Fd/_view/v", "d", "v"),
        ("/b/_design/_view/_view/_view", "_view", "_view"),
    ])
    func namesInThePathAreDecoded(path: String, document: String, view: String) async throws {
        try await ViewSite.with { views in
            #expect(try await views.ask("GET \(path)").status == 200)
            let request = try #require(views.queries.requests.withLock { $0.last })
            #expect(request.designDocument == document)
            #expect(request.view == view)
        }
    }

    @Test func membersOfABodyFollowTheParametersAsJSON() async throws {
        try await ViewSite.with { views in
            let body = """
                 {"keys": ["a,]}\\"", 1e400, [{"x": "}"}]] ,"limit":10,"stale" : "ok",
                  "reduce":false, "\\u006bey":null,"group":true , "o":{"a":[]}}
                """
            let reply = try await views.ask("POST \(Self.path)?limit=5", json: body)
            #expect(reply.status == 200)
            #expect(
                views.queries.lastParameters == [
                    "limit=5", "keys:[\"a,]}\\\"\", 1e400, [{\"x\": \"}\"}]]", "limit:10",
                    "stale:\"ok\"", "reduce:false", "key:null", "group:true", "o:{\"a\":[]}",
                ]
            )
            for empty in ["", "{}", " { } \n"] {
                let reply = try await views.ask("POST \(Self.path)?a=1", json: empty)
                #expect(reply.status == 200)
                #expect(views.queries.lastParameters == ["a=1"])
            }
        }
    }

    @Test(arguments: [
        ("{\"keys\":[}", "invalid UTF-8 JSON: {\"keys\":[}"),
        ("{} x", "invalid UTF-8 JSON: {} x"),
        ("[1]", "Request body must be a JSON object"),
        ("\"keys\"", "Request body must be a JSON object"),
        ("1", "Request body must be a JSON object"),
    ])
    func bodyThatIsNoJSONObjectIsRefused(body: String, reason: String) async throws {
        try await ViewSite.with { views in
            let reply = try await views.ask("POST \(Self.path)", json: body)
            #expect(reply.statusLine == "HTTP/1.1 400 Bad Request")
            #expect(reply.object["error"] as? String == "bad_request")
            #expect(reply.object["reason"] as? String == reason)
            #expect(views.queries.requests.withLock { $0.isEmpty })
        }
    }

    @Test func bodyOfAnotherTypeThanJSONIsRefused() async throws {
        try await ViewSite.with { views in
            let text = views.request(
                "POST \(Self.path)",
                headers: ["Content-Type: application/x-www-form-urlencoded"],
                body: "keys=1"
            )
            let port = views.port
            let reply = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return try client.response()
            }
            #expect(reply.statusLine == "HTTP/1.1 415 Unsupported Media Type")
            let reason = "Content-Type must be application/json"
            #expect(reply.text == "{\"error\":\"bad_content_type\",\"reason\":\"\(reason)\"}")
        }
    }

    @Test func queryThatIsNotUTF8IsRefused() async throws {
        try await ViewSite.with { views in
            for path in ["\(Self.path)?key=%FF", "/b/_design/%FF/_view/v"] {
                let reply = try await views.ask("GET \(path)")
                #expect(reply.status == 400, "\(path)")
                #expect(reply.object["error"] as? String == "bad_request")
            }
        }
    }

    @Test func refusalHasTheStatusErrorAndReasonOfTheService() async throws {
        try await ViewSite.with { views in
            let parse = ViewRefusal(status: 400, error: "query_parse_error", reason: "a \"b\"")
            views.queries.answer(.refused(parse))
            let wrong = try await views.ask("GET \(Self.path)")
            #expect(wrong.statusLine == "HTTP/1.1 400 Bad Request")
            #expect(wrong.text == "{\"error\":\"query_parse_error\",\"reason\":\"a \\\"b\\\"\"}")
            #expect(wrong.headers["retry-after"] == nil)
            let missing = ViewRefusal(
                status: 404,
                error: "not_found",
                reason: "missing_named_view"
            )
            views.queries.answer(.refused(missing))
            let absent = try await views.ask("POST \(Self.path)", json: "{}")
            #expect(absent.statusLine == "HTTP/1.1 404 Object Not Found")
            #expect(absent.text == "{\"error\":\"not_found\",\"reason\":\"missing_named_view\"}")
            let busy = ViewRefusal(
                status: 503,
                error: "busy",
                reason: "64 queries run",
                retryAfterSeconds: 2
            )
            views.queries.answer(.refused(busy))
            let later = try await views.ask("GET \(Self.path)")
            #expect(later.statusLine == "HTTP/1.1 503 Service Unavailable")
            #expect(later.headers["retry-after"] == "2")
        }
    }

    @Test func queryOfAnUnknownBucketReachesNoService() async throws {
        try await ViewSite.with { views in
            let other = "b%2B" + String(repeating: "0", count: 32)
            for bucket in ["absent", other] {
                let reply = try await views.ask("GET /\(bucket)/_design/d/_view/v")
                #expect(reply.statusLine == "HTTP/1.1 404 Object Not Found")
            }
            #expect(views.queries.requests.withLock { $0.isEmpty })
        }
    }
}
