import Foundation
import Testing

/// Local users on both HTTP ports: what their roles permit, and when a change has effect.
@Suite struct PrivilegeTests {
    private static let password = "of-a-user"

    private static func login(_ user: String) -> Site.Login { .basic(user, password) }

    /// Creates a user, or changes its roles.
    private func put(_ user: String, _ roles: String, at site: Site) async throws {
        let reply = try await site.ask(
            "PUT /settings/rbac/users/local/\(user)",
            form: "password=\(Self.password)&roles=\(roles)"
        )
        #expect(reply.status == 200, "\(reply.text)")
    }

    @Test func roleOfABucketPermitsNothingInAnotherBucket() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            try await site.createBucket("c")
            try await put("reader", "data_reader%5Bb%5D", at: site)
            let reader = Self.login("reader")
            #expect(try await site.ask("GET /pools/default/buckets/b/docs", reader).status == 200)
            let refused = try await site.ask("GET /pools/default/buckets/c/docs", reader)
            #expect(refused.status == 403)
            #expect(
                refused.object["message"] as? String
                    == "Forbidden. User needs the following permissions"
            )
            #expect(
                refused.object["permissions"] as? [String] == ["cluster.bucket[c].data.docs!read"]
            )
            let list = try await site.ask("GET /pools/default/buckets", reader)
            let names = (list.json as? [[String: Any]])?.map { $0["name"] as? String }
            #expect(names == ["b"])
            let write = try await site.ask(
                "POST /pools/default/buckets/b/docs/k",
                reader,
                form: "value=1"
            )
            #expect(write.status == 403)
        }
    }

    @Test func viewRolesPermitRequestsOnTheViewPort() async throws {
        try await ViewSite.with { views in
            try await put("reader", "views_reader%5Bb%5D", at: views.site)
            try await put("author", "views_admin%5Bb%5D", at: views.site)
            try await put("auditor", "ro_admin", at: views.site)
            try await put("other", "data_reader%5Bb%5D", at: views.site)
            let path = "/b/_design/d"
            for (user, put, query, documents) in [
                ("reader", 403, 200, 200), ("author", 201, 200, 200), ("auditor", 403, 200, 403),
                ("other", 403, 403, 403),
            ] {
                let login = Self.login(user)
                let change = try await views.ask("PUT \(path)", login, json: "{\"views\":{}}")
                #expect(change.status == put, "\(user)")
                let rows = try await views.ask("GET \(path)/_view/v", login)
                #expect(rows.status == query, "\(user)")
                let whole = try await views.ask("GET \(path)/_view/v?include_docs=true", login)
                #expect(whole.status == documents, "\(user)")
                if query == 200, documents == 403 {
                    let needed = whole.object["permissions"] as? [String]
                    #expect(needed == ["cluster.bucket[b].data.docs!read"], "\(user)")
                }
            }
        }
    }

    /// The permission is needed if the parser of queries reads the value as true.
    @Test func lastValueOfIncludeDocsDecidesOnThePermission() async throws {
        try await ViewSite.with { views in
            try await put("auditor", "ro_admin", at: views.site)
            let login = Self.login("auditor")
            let path = "/b/_design/d/_view/v"
            for (query, status) in [
                ("include_docs=false", 200), ("include_docs=FALSE", 200),
                ("include_docs=True", 403),
                ("include_docs=true&include_docs=False", 200),
                ("include_docs=false&include_docs=TRUE", 403),
                // Refused by the parser, which this test replaces.
                ("include_docs=1", 200), ("Include_docs=true", 200),
            ] {
                let reply = try await views.ask("GET \(path)?\(query)", login)
                #expect(reply.status == status, "\(query)")
            }
            // The members of a body follow the parameters of the URL.
            for (query, body, status) in [
                ("", #"{"include_docs": false}"#, 200), ("", #"{"include_docs": "FALSE"}"#, 200),
                ("", #"{"include_docs": true}"#, 403), ("", #"{"include_docs": "True"}"#, 403),
                ("", #"{"include_docs": "tru\u0065"}"#, 403),
                ("?include_docs=true", #"{"include_docs": false}"#, 200),
                ("?include_docs=false", #"{"include_docs": true}"#, 403),
                ("?include_docs=true", #"{"keys": [1]}"#, 403),
            ] {
                let reply = try await views.ask("POST \(path)\(query)", login, json: body)
                #expect(reply.status == status, "\(query) \(body)")
            }
        }
    }

    @Test func changedRolesAreEffectiveAtTheNextRequest() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            try await put("reader", "data_reader%5Bb%5D", at: site)
            let line = "GET /pools/default/buckets/b/docs"
            #expect(try await site.ask(line, Self.login("reader")).status == 200)
            try await put("reader", "data_writer%5Bb%5D", at: site)
            #expect(try await site.ask(line, Self.login("reader")).status == 403)
            let gone = try await site.ask("DELETE /settings/rbac/users/local/reader")
            #expect(gone.status == 200)
            #expect(try await site.ask(line, Self.login("reader")).status == 401)
        }
    }

    @Test func sessionOfALocalUserEndsWithTheUser() async throws {
        try await Site.with { site in
            try await put("operator", "ro_admin", at: site)
            let form = "user=operator&password=\(Self.password)"
            let login = try await site.ask("POST /uilogin", .none, form: form)
            #expect(login.status == 200)
            let cookie = String(try #require(login.headers["set-cookie"]).prefix { $0 != ";" })
            let me = try await site.ask("GET /whoami", .page(cookie: cookie)).object
            #expect(me["id"] as? String == "operator")
            #expect(me["domain"] as? String == "local")
            _ = try await site.ask("DELETE /settings/rbac/users/local/operator")
            #expect(try await site.ask("GET /whoami", .page(cookie: cookie)).status == 401)
            // A user of the same name and password is another user.
            try await put("operator", "ro_admin", at: site)
            #expect(try await site.ask("GET /whoami", .page(cookie: cookie)).status == 401)
        }
    }

    @Test func consoleRefusesAUserWithoutItsPermission() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            try await put("reader", "data_reader%5Bb%5D", at: site)
            let form = "user=reader&password=\(Self.password)"
            let login = try await site.ask("POST /uilogin", .none, form: form)
            #expect(login.status == 403)
            #expect(login.object["permissions"] as? [String] == ["cluster.ui!read"])
            #expect(login.headers["set-cookie"] == nil)
        }
    }

    @Test func bodyOfAUserIsBoundedUnlessItIsADocument() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            try await put("writer", "data_writer%5Bb%5D", at: site)
            try await put("manager", "cluster_admin", at: site)
            let large = "value=%22" + String(repeating: "x", count: 2 << 20) + "%22"
            let document = try await site.ask(
                "POST /pools/default/buckets/b/docs/large",
                Self.login("writer"),
                form: large
            )
            #expect(document.status == 200, "\(document.text)")
            let length = ["Content-Length: \(2 << 20)"]
            let head = "POST /pools/default HTTP/1.1\r\nHost: x\r\n"
            let lines = (Self.login("manager").headers + length).joined(separator: "\r\n")
            let port = site.port
            let status = try await apart {
                let client = try RawClient(port: port)
                try client.send(head + lines + "\r\n\r\n")
                return try client.response().status
            }
            #expect(status == 413)
        }
    }
}
