import Foundation
import Testing

/// The administrator is the only user; refusals have the texts that clients match.
@Suite struct UserTests {
    @Test func noUserExistsExceptTheAdministrator() async throws {
        try await Site.with { site in
            for path in ["/settings/rbac/users", "/settings/rbac/users/local"] {
                let list = try await site.ask("GET \(path)")
                #expect(list.status == 200)
                #expect((list.json as? [Any])?.isEmpty == true)
            }
            let path = "/settings/rbac/users/local/eve"
            let unknown = try await site.ask("GET \(path)")
            #expect(unknown.status == 404)
            #expect(unknown.json as? String == "Unknown user.")
            let gone = try await site.ask("DELETE \(path)")
            #expect(gone.status == 404)
            #expect(gone.json as? String == "User was not found.")
            let made = try await site.ask("PUT \(path)", form: "password=secret&roles=admin")
            #expect(made.status == 400)
            #expect((made.object["errors"] as? [String: String])?["_"] != nil)
            let roles = try await site.ask("GET /settings/rbac/roles").json as? [[String: Any]]
            #expect(roles?.compactMap { $0["role"] as? String } == ["admin"])
            let policy = try await site.ask("GET /settings/passwordPolicy").object
            #expect(policy["minLength"] as? Int == 6)
            #expect(try await site.ask("GET \(path)", .none).status == 401)
        }
    }

    @Test func changePasswordKeepsTheAdministratorsName() async throws {
        try await Site.with { site in
            let short = try await site.ask("POST /controller/changePassword", form: "password=x")
            #expect(short.status == 400)
            #expect(
                (short.object["errors"] as? [String: String])?["password"]
                    == "The password must be at least 6 characters long."
            )
            let done = try await site.ask(
                "POST /controller/changePassword",
                form: "password=another-one"
            )
            #expect(done.status == 200)
            #expect(try await site.ask("GET /pools/default").status == 401)
            let login = Site.Login.basic("Administrator", "another-one")
            #expect(try await site.ask("GET /pools/default", login).status == 200)
        }
    }

    /// A node without an administrator admits every request, whose body can come much later.
    @Test func requestAdmittedBeforeProvisioningIsRefusedOnceThereIsAnAdministrator() async throws {
        try await Site.with(provisioned: false) { site in
            let body = "port=SAME&username=Eve&password=another-one"
            let whole = site.request(
                "POST /settings/web",
                .none,
                headers: [
                    "Content-Type: application/x-www-form-urlencoded", "Expect: 100-continue",
                ],
                body: body
            )
            let port = site.port
            let client = try await apart {
                let client = try RawClient(port: port)
                try client.send(String(whole.dropLast(body.count)))
                // The interim response shows that the headers were admitted.
                #expect(try client.head().status == 100)
                return Held(client: client)
            }
            let first = try await site.ask(
                "POST /clusterInit",
                .none,
                form: "username=Administrator&password=password&memoryQuota=1000"
            )
            #expect(first.status == 200)
            let late = try await apart {
                try client.client.send(body)
                return try client.client.response()
            }
            #expect(late.status == 401)
            #expect(try await site.ask("GET /pools/default").status == 200)
            let eve = Site.Login.basic("Eve", "another-one")
            #expect(try await site.ask("GET /pools/default", eve).status == 401)
        }
    }

    /// Used by one thread at a time.
    private struct Held: @unchecked Sendable {  // tidy:allow one thread at a time
        let client: RawClient
    }
}
