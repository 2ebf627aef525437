import SyncFrontend
import Testing

@Suite struct PrincipalRouteTests {
    @Test func userIsMadeReadReplacedAndDeleted() async throws {
        try await GatewayWorld.administered { world in
            let made = try world.administer(
                "PUT /db/_user/bob",
                body: "{\"password\":\"pwd\",\"admin_channels\":[\"a\"],\"admin_roles\":[\"r\"]}"
            )
            #expect(made.status == 201 && made.body.isEmpty)
            let role = try world.administer(
                "PUT /db/_role/r",
                body: "{\"admin_channels\":[\"rc\"]}"
            )
            #expect(role.status == 201)
            let read = try world.administer("GET /db/_user/bob")
            #expect(
                read.text
                    == "{\"name\":\"bob\",\"admin_channels\":[\"a\"],\"all_channels\":[\"!\",\"a\",\"rc\"],"
                    + "\"admin_roles\":[\"r\"],\"roles\":[\"r\"]}"
            )
            #expect(read.headers["content-type"] == "text/plain; charset=utf-8")
            let replaced = try world.administer(
                "PUT /db/_user/bob",
                body: "{\"disabled\":true,\"email\":\"b@c.de\"}"
            )
            #expect(replaced.status == 200 && replaced.body.isEmpty)
            let after = try world.administer("GET /db/_user/bob")
            #expect(
                after.text
                    == "{\"name\":\"bob\",\"all_channels\":[\"!\"],\"email\":\"b@c.de\",\"disabled\":true}"
            )
            let deleted = try world.administer("DELETE /db/_user/bob")
            #expect(deleted.status == 200 && deleted.body.isEmpty)
            for method in ["GET", "DELETE"] {
                let gone = try world.administer("\(method) /db/_user/bob")
                #expect(gone.status == 404 && gone.reason == "missing")
            }
        }
    }

    @Test func listsHaveNamesWithoutGuest() async throws {
        try await GatewayWorld.administered { world in
            let users = try world.administer("GET /db/_user/")
            #expect(users.text == "[\"jane\",\"joe\"]")
            let roles = try world.administer("GET /db/_role/")
            #expect(roles.text == "[]")
            let head = try world.administer("HEAD /db/_user/")
            #expect(head.status == 200 && head.body.isEmpty)
        }
    }

    @Test func postNeedsNewNameInBody() async throws {
        try await GatewayWorld.administered { world in
            for (path, body, status, reason) in [
                ("_user", "{\"name\":\"bob\",\"password\":\"pwd\"}", 201, ""),
                ("_user", "{\"name\":\"bob\",\"password\":\"pwd\"}", 409, "Already exists"),
                ("_user", "{\"password\":\"pwd\"}", 400, "Missing name property"),
                ("_role", "{\"name\":\"r\"}", 201, ""),
                ("_role", "{\"name\":\"r\"}", 409, "Already exists"),
            ] {
                let answer = try world.administer("POST /db/\(path)/", body: body)
                #expect(answer.status == status && answer.reason == reason, "\(path) \(body)")
            }
        }
    }

    @Test func invalidUsersAreRefused() async throws {
        try await GatewayWorld.administered { world in
            for (name, body, reason) in [
                (
                    "bob", "{\"password\":\"pw\"}",
                    "Passwords must be at least three 3 characters"
                ),
                (
                    "bob", "{\"name\":\"x\",\"password\":\"pwd\"}",
                    "Name mismatch (can't change name)"
                ),
                ("b%20b", "{\"password\":\"pwd\"}", "Invalid name \"b b\""),
                ("bob", "", "Invalid JSON: \"unexpected end of JSON input\""),
                (
                    "bob", " xy",
                    "Invalid JSON: \"invalid character 'x' looking for beginning of value\""
                ),
                ("bob", "[]", "Bad JSON"),
            ] {
                let answer = try world.administer("PUT /db/_user/\(name)", body: body)
                #expect(answer.status == 400 && answer.reason == reason, "\(body)")
            }
        }
    }

    @Test func guestIsNeverDeleted() async throws {
        try await GatewayWorld.administered { world in
            let guest = try world.administer("GET /db/_user/GUEST")
            #expect(
                guest.text
                    == "{\"name\":\"GUEST\",\"all_channels\":[\"!\"],"
                    + "\"disabled\":true}"
            )
            let answer = try world.administer("DELETE /db/_user/GUEST")
            #expect(answer.status == 404)
        }
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            let answer = try world.administer("DELETE /db/_user/GUEST")
            #expect(answer.status == 405)
            let jane = try world.administer("GET /db/_user/jane")
            #expect(
                jane.text
                    == "{\"name\":\"jane\",\"admin_channels\":[\"jane\",\"public\"],\"email\":\"\","
                    + "\"disabled\":false,\"all_channels\":[\"!\",\"jane\",\"public\"]}"
            )
            #expect(jane.headers["content-type"] == "application/json")
        }
    }

    @Test func patchAddsAndRemovesGrants() async throws {
        try await GatewayWorld.administered { world in
            let answer = try world.administer(
                "PATCH /db/_user/jane",
                body: "{\"add\":{\"admin_channels\":[\"new\"],\"admin_roles\":[\"r\"]},"
                    + "\"remove\":{\"admin_channels\":[\"public\"]}}"
            )
            #expect(answer.status == 200 && answer.body.isEmpty)
            let jane = try world.administer("GET /db/_user/jane")
            #expect(jane.object["admin_channels"] as? [String] == ["jane", "new"])
            #expect(jane.object["admin_roles"] as? [String] == ["r"])
            let missing = try world.administer("PATCH /db/_role/none", body: "{}")
            #expect(missing.status == 404)
        }
    }

    @Test func principalRoutesAreAbsentOnPublicPort() async throws {
        try await GatewayWorld.administered { world in
            for line in [
                "GET /db/_user/", "POST /db/_user/", "GET /db/_user/jane", "PUT /db/_user/jane",
                "DELETE /db/_user/jane", "PATCH /db/_user/jane", "GET /db/_role/",
                "PUT /db/_role/r",
            ] {
                let answer = try world.ask(line)
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(line)")
            }
        }
    }
}
