import Foundation
import Testing

@Suite struct ConsoleTests {
    @Test func consoleIsServedCompletelyAndLoadsNothingFromOtherSites() async throws {
        try await Site.with { site in
            let root = try await site.ask("GET /", .none)
            #expect(root.status == 301)
            #expect(root.headers["location"] == "/ui/index.html")
            var open = ["/ui/index.html"]
            var seen: Set<String> = []
            while let path = open.popLast() {
                guard seen.insert(path).inserted else { continue }
                let reply = try await site.ask("GET \(path)", .none)
                #expect(reply.status == 200, "\(path)")
                #expect(reply.headers["content-security-policy"]?.contains("'self'") == true)
                #expect(!reply.text.contains("innerHTML"))
                let elsewhere = reply.text.matches(of: /https?:\/\/[a-z0-9.]+/)
                    .filter { $0.output != "http://www.w3.org" }
                #expect(elsewhere.isEmpty, "\(path)")
                open += reply.text.matches(of: /\/ui\/[a-z]+\.[a-z]+/).map { String($0.output) }
            }
            #expect(seen.count == 21)
        }
    }

    @Test func pathsOfAnyLengthAreComparedWithTheRoutesThatMayMatch() async throws {
        try await Site.with { site in
            func status(_ line: String) async throws -> Int { try await site.ask(line).status }
            let rest = String(repeating: "/x", count: 40)
            // Only the console's files have paths of any length.
            let longest = try await status("POST /ui/a\(rest)")
            #expect(longest == 405)
            #expect(try await status("POST /ui/a") == 405)
            #expect(try await status("POST /ui") == 405)
            #expect(try await status("POST /a\(rest)") == 404)
            #expect(try await status("GET /pools/default") == 200)
            #expect(try await status("GET /pools/default\(rest)") == 404)
            #expect(try await status("DELETE /pools") == 405)
        }
    }

    @Test func sessionBeginsWithLoginAndEndsWithLogout() async throws {
        try await Site.with { site in
            let wrong = try await site.ask(
                "POST /uilogin",
                .none,
                form: "user=Administrator&password=x"
            )
            #expect(wrong.status == 400)
            #expect(wrong.headers["set-cookie"] == nil)
            let right = try await site.ask(
                "POST /uilogin",
                .none,
                form: "user=Administrator&password=password"
            )
            #expect(right.status == 200)
            let header = try #require(right.headers["set-cookie"])
            #expect(header.hasPrefix("ui-auth-127.0.0.1%3A\(site.port)="))
            #expect(header.contains("HttpOnly") && header.contains("SameSite=Strict"))
            let cookie = String(header.prefix { $0 != ";" })
            let me = try await site.ask("GET /whoami", .page(cookie: cookie)).object
            #expect(me["id"] as? String == "Administrator")
            // The cookie alone, which another site's page could make a browser send, is not enough.
            let alone = try await site.ask("GET /whoami", .none, headers: ["Cookie: \(cookie)"])
            #expect(alone.status == 401)
            #expect(try await site.ask("POST /uilogout", .page(cookie: cookie)).status == 200)
            #expect(try await site.ask("GET /whoami", .page(cookie: cookie)).status == 401)
        }
    }

    @Test func changeFromAPageOfAnotherSiteIsRefusedWithCauseAndCure() async throws {
        try await Site.with { site in
            func status(_ headers: [String]) async throws -> Int {
                let form = "clusterName=x"
                return try await site.ask("POST /pools/default", headers: headers, form: form)
                    .status
            }
            let own = "Origin: http://127.0.0.1:\(site.port)"
            let proxy = "Origin: https://Admin.example.com"
            #expect(try await status([own]) == 200)
            #expect(try await status([proxy]) == 403)
            #expect(try await status(["Origin: null"]) == 403)
            #expect(try await status([own, "X-Forwarded-Host: admin.example.com"]) == 200)
            #expect(try await status([proxy, "X-Forwarded-Host: inner, admin.example.com"]) == 200)
            #expect(try await status([proxy, "X-Forwarded-Host: example.com"]) == 403)
            #expect(try await status([proxy, "Sec-Fetch-Site: same-origin"]) == 200)
            for finding in ["same-site", "cross-site", "none"] {
                #expect(try await status([proxy, "Sec-Fetch-Site: \(finding)"]) == 403)
            }
            let refused = try await site.ask("POST /pools/default", headers: [proxy])
            #expect(refused.text.contains("Origin https://Admin.example.com"))
            #expect(refused.text.contains("X-Forwarded-Host"))
            // Reads change nothing, and a page of another site does not see their replies.
            #expect(try await site.ask("GET /pools/default", headers: [proxy]).status == 200)
            // A browser asks with this method before it sends a page's own headers.
            let preflight = try await site.ask("OPTIONS /pools/default", .none, headers: [proxy])
            #expect(preflight.status == 405)
            #expect(preflight.headers["access-control-allow-origin"] == nil)
        }
    }

    @Test func passwordChangeEndsEverySession() async throws {
        try await Site.with { site in
            let login = try await site.ask(
                "POST /uilogin",
                .none,
                form: "user=Administrator&password=password"
            )
            let cookie = String(try #require(login.headers["set-cookie"]).prefix { $0 != ";" })
            let change = try await site.ask(
                "POST /settings/web",
                form: "port=SAME&username=Administrator&password=another"
            )
            #expect(change.status == 200)
            #expect(try await site.ask("GET /whoami", .page(cookie: cookie)).status == 401)
            #expect(try await site.ask("GET /whoami").status == 401)
        }
    }
}
