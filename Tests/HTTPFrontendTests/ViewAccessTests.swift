import Foundation
import Testing

/// Authentication on the view port.
@Suite struct ViewAccessTests {
    private static let refusal = "{\"error\":\"unauthorized\",\"reason\":\"password required\"}"

    @Test func requestWithoutThePasswordGetsTheViewPortsRefusal() async throws {
        try await ViewSite.with { views in
            let lines = ["/b/_design/d", "/b/_design/d/_view/v", "/absent/_design/d"].map {
                "GET \($0)"
            }
            for login in [Site.Login.none, .basic("Administrator", "x"), .basic("b", "")] {
                for line in lines {
                    let reply = try await views.ask(line, login)
                    #expect(reply.statusLine == "HTTP/1.1 401 Unauthorized")
                    #expect(reply.text == Self.refusal)
                    #expect(reply.headers["content-type"] == "application/json")
                    #expect(reply.headers["www-authenticate"] != nil)
                }
            }
            let quiet = try await views.ask(
                "GET /b/_design/d",
                .none,
                headers: ["invalid-auth-response: on"]
            )
            #expect(quiet.text == Self.refusal)
            #expect(quiet.headers["www-authenticate"] == nil)
        }
    }

    /// Gateways of the 1.x family send the bucket's name with an empty password.
    @Test func passwordlessBucketIsServedWithoutAPassword() async throws {
        try await ViewSite.with { views in
            try await views.site.createBucket("open", "&passwordless=1")
            for login in [Site.Login.basic("open", ""), .none] {
                let put = try await views.ask(
                    "PUT /open/_design/d",
                    login,
                    json: DesignDocumentTests.body
                )
                #expect(put.status == 201)
                let get = try await views.ask("GET /open/_design/d", login)
                #expect(get.text == DesignDocumentTests.body)
                let query = try await views.ask("GET /open/_design/d/_view/v", login)
                #expect(query.status == 200)
                #expect(try await views.ask("DELETE /open/_design/d", login).status == 200)
            }
            // Its name opens no other bucket.
            let other = try await views.ask("GET /b/_design/d", .basic("open", ""))
            #expect(other.statusLine == "HTTP/1.1 403 Forbidden")
            #expect(
                other.text == #"{"error":"forbidden","reason":"#
                    + #""The user needs the permission cluster.bucket[b].views!read","#
                    + #""message":"Forbidden. User needs the following permissions","#
                    + #""permissions":["cluster.bucket[b].views!read"]}"#
            )
            let write = try await views.ask("DELETE /b/_design/d", .basic("open", ""))
            #expect(write.object["error"] as? String == "forbidden")
            #expect((write.object["reason"] as? String)?.contains("[b].views!write") == true)
            #expect(try await views.ask("GET /b/_design/d", .none).status == 401)
            #expect(try await views.ask("GET /open/_design/d", .basic("open", "x")).status == 401)
        }
    }

    @Test func requestFromAnotherSitesPageIsRefused() async throws {
        try await ViewSite.with { views in
            let reply = try await views.ask(
                "DELETE /b/_design/d",
                headers: ["Origin: http://evil.example"]
            )
            #expect(reply.status == 403)
            #expect(reply.object["error"] as? String == "forbidden")
        }
    }

    @Test func unauthorizedRequestIsRefusedBeforeItsBodyIsRead() async throws {
        try await ViewSite.with { views in
            let port = views.port
            let (reply, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(
                    "PUT /b/_design/d HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
                )
                return (try client.response(), client.isClosed())
            }
            #expect(reply.statusLine == "HTTP/1.1 401 Unauthorized")
            #expect(reply.text == Self.refusal)
            #expect(isOver)
        }
    }

    @Test func nodeThatStopsRefusesWith503() async throws {
        try await ViewSite.with { views in
            views.site.stop()
            let reply = try await views.ask("GET /b/_design/d")
            #expect(reply.status == 503)
            #expect(reply.object["error"] as? String == "service_unavailable")
        }
    }
}
