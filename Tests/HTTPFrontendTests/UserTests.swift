import Foundation
import Testing
import Vocabulary

/// Local users over the admin port; refusals have the texts that clients match.
@Suite struct UserTests {
    private static let path = "/settings/rbac/users/local"

    @Test func clusterWithoutUsersHasEmptyListsAndRefusesUnknownUsers() async throws {
        try await Site.with { site in
            for path in ["/settings/rbac/users", Self.path, "/settings/rbac/users/external"] {
                let list = try await site.ask("GET \(path)")
                #expect(list.status == 200)
                #expect((list.json as? [Any])?.isEmpty == true)
            }
            let unknown = try await site.ask("GET \(Self.path)/eve")
            #expect(unknown.status == 404)
            #expect(unknown.json as? String == "Unknown user.")
            let gone = try await site.ask("DELETE \(Self.path)/eve")
            #expect(gone.status == 404)
            #expect(gone.json as? String == "User was not found.")
            let external = try await site.ask(
                "PUT /settings/rbac/users/external/eve",
                form: "roles=admin"
            )
            #expect(external.status == 400)
            #expect((external.object["errors"] as? [String: String])?["_"] != nil)
            let group = try await site.ask("PUT /settings/rbac/groups/g", form: "roles=admin")
            #expect(group.status == 400)
            #expect((group.object["errors"] as? [String: String])?["_"] != nil)
            #expect(try await site.ask("GET \(Self.path)", .none).status == 401)
        }
    }

    @Test func passwordPolicyIsShownAndAcceptsOnlyItsFixedValues() async throws {
        try await Site.with { site in
            let path = "/settings/passwordPolicy"
            let policy = try await site.ask("GET \(path)")
            #expect(
                policy.text
                    == #"{"minLength":6,"enforceUppercase":false,"enforceLowercase":false,"#
                    + #""enforceDigits":false,"enforceSpecialChars":false}"#
            )
            for form in [
                "minLength=6",
                "minLength=6&enforceUppercase=false&enforceLowercase=false&enforceDigits=false"
                    + "&enforceSpecialChars=false",
            ] {
                #expect(try await site.ask("POST \(path)", form: form).status == 200, "\(form)")
            }
            for (form, field, text) in [
                ("minLength=8", "minLength", "The value is 6 and cannot be changed"),
                (
                    "minLength=6&enforceDigits=true", "enforceDigits",
                    "The value is false and cannot be changed"
                ),
                ("minLenght=6", "minLenght", "Unsupported key"),
                ("", "_", "Request should have parameters"),
            ] {
                let reply = try await site.ask("POST \(path)", form: form)
                #expect(reply.status == 400, "\(form)")
                #expect(reply.object["errors"] as? [String: String] == [field: text], "\(form)")
            }
            let trial = try await site.ask("POST \(path)?just_validate=1", form: "minLength=6")
            #expect(trial.status == 200)
            #expect((trial.object["errors"] as? [String: String])?.isEmpty == true)
            #expect(try await site.ask("POST \(path)", .none, form: "minLength=6").status == 401)
        }
    }

    @Test func userIsReadAsItWasPut() async throws {
        try await Site.with { site in
            let form = "password=secret-1&name=Eve%20E&roles=ro_admin,data_reader%5B*%5D"
            #expect(try await site.ask("PUT \(Self.path)/eve", form: form).status == 200)
            let eve = try await site.ask("GET \(Self.path)/eve").object
            #expect(eve["id"] as? String == "eve" && eve["domain"] as? String == "local")
            #expect(eve["name"] as? String == "Eve E")
            #expect((eve["groups"] as? [Any])?.isEmpty == true)
            #expect((eve["external_groups"] as? [Any])?.isEmpty == true)
            let changed = eve["password_change_date"] as? String ?? ""
            #expect(changed.hasSuffix("Z") && changed.contains("T"))
            let roles = try #require(eve["roles"] as? [[String: Any]])
            #expect(roles.compactMap { $0["role"] as? String } == ["data_reader", "ro_admin"])
            #expect(roles[0]["bucket_name"] as? String == "*")
            #expect(roles[0]["scope_name"] as? String == "*")
            #expect(roles[0]["collection_name"] as? String == "*")
            #expect(roles[1]["bucket_name"] == nil)
            #expect((roles[0]["origins"] as? [[String: String]]) == [["type": "user"]])
            for path in ["/settings/rbac/users", Self.path] {
                let all = try await site.ask("GET \(path)").json as? [[String: Any]]
                #expect(all?.compactMap { $0["id"] as? String } == ["eve"])
            }
            // Neither the password nor its keys are shown.
            #expect(eve.count == 7)
            #expect(try await site.ask("DELETE \(Self.path)/eve").status == 200)
            #expect(try await site.ask("GET \(Self.path)/eve").status == 404)
        }
    }

    @Test func validationAloneChangesNothing() async throws {
        try await Site.with { site in
            let target = "PUT \(Self.path)/eve?just_validate=1"
            let valid = try await site.ask(target, form: "password=secret-1&roles=admin")
            #expect(valid.status == 200)
            #expect((valid.object["errors"] as? [String: String])?.isEmpty == true)
            let wrong = try await site.ask(target, form: "password=x&roles=root")
            #expect(wrong.status == 400)
            let errors = wrong.object["errors"] as? [String: String]
            #expect(errors?.keys.sorted() == ["password", "roles"])
            #expect(try await site.ask("GET \(Self.path)/eve").status == 404)
        }
    }

    @Test func listIsPaged() async throws {
        try await Site.with { site in
            for id in ["a", "b", "c", "d", "e%20e"] {
                let put = try await site.ask("PUT \(Self.path)/\(id)", form: "password=secret-1")
                #expect(put.status == 200)
            }
            func page(_ query: String) async throws -> (ids: [String], object: [String: Any]) {
                let object = try await site.ask("GET \(Self.path)?\(query)").object
                let users = object["users"] as? [[String: Any]] ?? []
                return (users.compactMap { $0["id"] as? String }, object)
            }
            let first = try await page("pageSize=2")
            #expect(first.ids == ["a", "b"])
            #expect(first.object["total"] as? Int == 5 && first.object["skipped"] as? Int == 0)
            let links = try #require(first.object["links"] as? [String: String])
            #expect(links["prev"] == nil)
            #expect(links["next"] == "\(Self.path)?pageSize=2&startFromDomain=local&startFrom=c")
            let second = try await page("pageSize=2&startFrom=c")
            #expect(second.ids == ["c", "d"] && second.object["skipped"] as? Int == 2)
            let last = try #require((second.object["links"] as? [String: String])?["last"])
            #expect(last == "\(Self.path)?pageSize=2&startFromDomain=local&startFrom=d")
            let rest = try await page("pageSize=2&startFrom=da")
            #expect(rest.ids == ["e e"])
            #expect((rest.object["links"] as? [String: String])?["next"] == nil)
            #expect(try await page("pageSize=2&startFrom=x").ids == [])
            for query in ["pageSize=1", "pageSize=101", "pageSize=x", "startFrom=a"] {
                let refused = try await site.ask("GET \(Self.path)?\(query)")
                #expect(refused.status == 400)
                #expect((refused.object["errors"] as? [String: String])?["pageSize"] != nil)
            }
        }
    }

    @Test func rolesAreListedWithAsterisksForTheirParameters() async throws {
        try await Site.with { site in
            let roles = try #require(
                try await site.ask("GET /settings/rbac/roles").json as? [[String: Any]]
            )
            let byName = Dictionary(
                uniqueKeysWithValues: roles.map { ($0["role"] as? String ?? "", $0) }
            )
            #expect(Set(byName.keys) == Set(Role.allCases.map(\.rawValue)))
            for role in Role.allCases {
                let shown = try #require(byName[role.rawValue])
                #expect(shown["name"] as? String == role.title)
                #expect((shown["desc"] as? String)?.isEmpty == false)
                #expect((shown["bucket_name"] as? String == "*") == role.isScoped)
            }
            #expect(byName["data_reader"]?["collection_name"] as? String == "*")
            #expect(byName["bucket_admin"]?["scope_name"] == nil)
        }
    }

    @Test func userChangesItsOwnPassword() async throws {
        try await Site.with { site in
            let form = "password=secret-1&roles=ro_admin"
            #expect(try await site.ask("PUT \(Self.path)/eve", form: form).status == 200)
            let old = Site.Login.basic("eve", "secret-1")
            let change = "POST /controller/changePassword"
            let short = try await site.ask(change, old, form: "password=x")
            #expect(short.status == 400)
            #expect((short.object["errors"] as? [String: String])?["password"] != nil)
            let more = try await site.ask(change, old, form: "password=secret-2&user=A")
            #expect((more.object["errors"] as? [String: String])?["user"] == "Unsupported key")
            #expect(try await site.ask(change, old, form: "password=secret-2").status == 200)
            #expect(try await site.ask("GET /pools/default", old).status == 401)
            let new = Site.Login.basic("eve", "secret-2")
            #expect(try await site.ask("GET /pools/default", new).status == 200)
            #expect(try await site.ask("GET /pools/default").status == 200)
            // The user may not set its roles.
            #expect(try await site.ask("PUT \(Self.path)/eve", new, form: form).status == 403)
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
