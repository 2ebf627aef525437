import Foundation
import HTTPFrontend
import Testing

/// A HEAD request has the head of the GET request (RFC 9110, 9.3.2).
@Suite struct HeadTests {
    /// Targets of the admin port whose bodies do not change between two requests.
    private static let targets = [
        "/", "/ui/index.html", "/pools", "/whoami", "/versions", "/settings/autoFailover",
        "/settings/rbac/roles", "/settings/rbac/users", "/internalSettings",
        "/pools/default/buckets/b/scopes", "/pools/default/buckets/absent", "/absent",
        "/pools/default/buckets/b/docs/absent",
    ]
    private static let viewTargets = ["/", "/b/_design/absent", "/absent", "/b/_all_docs"]

    @Test func headHasTheLengthOfTheBodyThatGetHas() async throws {
        try await ViewSite.with { views in
            for target in Self.targets {
                let get = try await views.site.ask("GET \(target)")
                let head = try await views.site.ask("HEAD \(target)")
                #expect(head.status == get.status, "\(target)")
                #expect(head.headers["content-length"] == "\(get.body.count)", "\(target)")
                #expect(head.headers["content-type"] == get.headers["content-type"], "\(target)")
            }
            for target in Self.viewTargets {
                let get = try await views.ask("GET \(target)")
                let head = try await views.ask("HEAD \(target)")
                #expect(head.status == get.status, "\(target)")
                #expect(head.headers["content-length"] == "\(get.body.count)", "\(target)")
            }
        }
    }

    /// The connection serves the next request: nothing of a body was sent.
    @Test func headIsFollowedByTheNextResponse() async throws {
        try await ViewSite.with { views in
            let port = views.site.port
            let texts = ["HEAD /versions", "GET /versions"].map {
                views.site.request($0, .administrator)
            }
            let status = try await apart {
                let client = try RawClient(port: port)
                try client.send(texts.joined())
                _ = try client.response(toHead: true)
                return try client.response().status
            }
            #expect(status == 200)
        }
    }

    @Test func refusalOfAMissingLoginHasABody() async throws {
        try await ViewSite.with { views in
            for login in [Site.Login.none, .basic("Administrator", "wrong")] {
                for reply in [
                    try await views.site.ask("GET /pools/default", login),
                    try await views.ask("GET /b/_design/d", login),
                ] {
                    #expect(reply.status == 401 && !reply.body.isEmpty)
                    #expect(reply.headers["content-type"] != nil)
                    #expect(reply.text.contains("password"))
                }
            }
        }
    }
}
