import Seams
import SyncFrontend
import SyncService
import SyncWire
import Syncing
import Testing

@Suite struct SessionRouteTests {
    private static let jane =
        "{\"authentication_handlers\":[\"default\",\"cookie\"],\"ok\":true,"
        + "\"userCtx\":{\"channels\":{\"!\":1,\"jane\":1,\"public\":1},\"name\":\"jane\"}}"
    private static let login = "{\"name\":\"jane\",\"password\":\"password\"}"

    @Test func getSessionNeedsNoLogin() async throws {
        try await GatewayWorld.administered { world in
            let guest = try world.ask("GET /db/_session", .none)
            #expect(guest.status == 200)
            #expect(
                guest.text
                    == "{\"authentication_handlers\":[\"default\",\"cookie\"],\"ok\":true,"
                    + "\"userCtx\":{\"channels\":{\"!\":1},\"name\":null}}"
            )
            let jane = try world.ask("GET /db/_session")
            #expect(jane.text == Self.jane)
            let administrator = try world.administer("GET /db/_session")
            #expect(administrator.text == guest.text)
            let wrong = try world.ask("GET /db/_session", .user("jane", "wrong"))
            #expect(wrong.status == 401 && wrong.reason == "Invalid login")
            #expect(wrong.headers["www-authenticate"] == LoginRefusal.challenge)
        }
    }

    @Test func loginByBodySetsCookieThatLogsIn() async throws {
        try await GatewayWorld.administered { world in
            let answer = try world.ask("POST /db/_session", .none, body: Self.login)
            #expect(answer.status == 200)
            #expect(answer.text == Self.jane)
            let id = try #require(answer.session)
            #expect(id.count == 40)
            #expect(answer.headers["set-cookie"]?.contains("; Path=/db; Expires=") == true)
            let cookie = ["Cookie: a=b; SyncGatewaySession=\(id)"]
            let session = try world.ask("GET /db/_session", .none, headers: cookie)
            #expect(session.text == Self.jane)
            let out = try world.ask("DELETE /db/_session", .none, headers: cookie)
            #expect(out.status == 200 && out.body.isEmpty)
            #expect(out.headers["set-cookie"]?.hasPrefix("SyncGatewaySession=; Expires=") == true)
            let again = try world.ask("DELETE /db/_session", .none, headers: cookie)
            #expect(again.status == 401 && again.reason == "Login required")
        }
    }

    @Test func loginByWrongBodyIsRefused() async throws {
        try await GatewayWorld.administered { world in
            for body in [
                "{\"name\":\"jane\",\"password\":\"wrong\"}", "{\"name\":\"x\",\"password\":\"y\"}",
                "{}", "null", "{\"name\":\"GUEST\",\"password\":\"\"}",
            ] {
                let answer = try world.ask("POST /db/_session", .none, body: body)
                #expect(answer.status == 401 && answer.reason == "Invalid login", "\(body)")
                #expect(answer.session == nil)
            }
            for body in ["x", "[]", "", "{\"name\":5}"] {
                let answer = try world.ask("POST /db/_session", .none, body: body)
                #expect(answer.status == 400 && answer.reason == "Bad JSON", "\(body)")
            }
            let typed = try world.ask(
                "POST /db/_session",
                .none,
                headers: ["Content-Type: text/plain"],
                body: Self.login
            )
            #expect(typed.status == 415 && typed.reason == "Invalid content type text/plain")
        }
    }

    @Test func loginWithoutBodyMakesSessionOfRequester() async throws {
        try await GatewayWorld.administered { world in
            for body in [nil, "", "x", "{\"name\":\"joe\",\"password\":\"wrong\"}"] {
                let answer = try world.ask("POST /db/_session", body: body)
                #expect(answer.status == 200 && answer.text == Self.jane, "\(body ?? "none")")
                #expect(answer.session?.count == 40)
            }
        }
    }

    @Test func loginFromOriginWithoutLoginPermissionIsRefused() async throws {
        let policy = CrossOriginPolicy(
            origins: ["*"],
            loginOrigins: ["http://good.example"],
            headers: [],
            maxAgeSeconds: 0
        )
        let prepare: GatewayWorld.Preparation = { $0.crossOrigin = policy }
        try await GatewayWorld.administered(prepare: prepare) { world in
            let bad = ["Origin: http://bad.example"]
            let good = ["Origin: http://good.example"]
            let refused = try world.ask("POST /db/_session", headers: bad, body: Self.login)
            #expect(refused.status == 400 && refused.reason == "No CORS")
            let accepted = try world.ask("POST /db/_session", headers: good, body: Self.login)
            #expect(accepted.status == 200)
            // In the dialect of 1.4, pages log in but not out.
            let out = try world.ask("DELETE /db/_session", headers: good)
            #expect(out.status == 400 && out.reason == "No CORS")
        }
        try await GatewayWorld.administered(GatewayWorld.file("3"), prepare: prepare) { world in
            let out = try world.ask("DELETE /db/_session", headers: ["Origin: http://good.example"])
            #expect(out.status == 404 && out.reason == "no session")
        }
    }

    @Test func logoutWithoutCookieHasNoSession() async throws {
        try await GatewayWorld.administered { world in
            let answer = try world.ask("DELETE /db/_session")
            #expect(answer.status == 404 && answer.reason == "no session")
            let administrator = try world.administer("DELETE /db/_session")
            #expect(administrator.status == 405)
            #expect(administrator.headers["allow"] == "GET, HEAD, POST")
        }
    }

    @Test func oneTimeSessionCountsOnceOfTwoUsesAtATime() async throws {
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            let answer = try world.ask("POST /db/_session?one_time=true", .none, body: Self.login)
            let id = try #require(answer.object["one_time_session_id"] as? String)
            #expect(answer.session == id)
            let gateway = world.gateway
            // Both begin before either of them ends.
            let names = await world.run { () async -> [String] in
                var offer = LoginOffer()
                offer.sessionID = id
                let once = offer
                let uses = (0..<2).map { _ in
                    gateway.executor.spawn { () async -> String? in
                        guard let database = gateway.databases["db"],
                            case .accepted(let requester, _) = await database.login(once)
                        else { return nil }
                        return requester.user?.key.name
                    }
                }
                var names: [String] = []
                for use in uses { if let name = await use.value { names.append(name) } }
                return names
            }
            #expect(names == ["jane"])
            let again = try world.ask(
                "DELETE /db/_session",
                .none,
                headers: ["Cookie: SyncGatewaySession=\(id)"]
            )
            #expect(again.status == 401 && again.reason == "Session Invalid")
        }
        try await GatewayWorld.administered { world in
            let answer = try world.ask("POST /db/_session?one_time=true", .none, body: Self.login)
            #expect(answer.object["one_time_session_id"] == nil)
        }
    }

    @Test func administratorMakesReadsAndDeletesSessions() async throws {
        try await GatewayWorld.administered { world in
            let made = try world.administer(
                "POST /db/_session",
                body: "{\"name\":\"jane\",\"ttl\":60}"
            )
            #expect(made.status == 200)
            #expect(made.object["cookie_name"] as? String == "SyncGatewaySession")
            let id = try #require(made.object["session_id"] as? String)
            let expires = made.object["expires"] as? String
            #expect(made.text.hasPrefix("{\"session_id\":\"\(id)\",\"expires\":\""))
            #expect(expires?.hasSuffix("Z") == true)
            let read = try world.administer("GET /db/_session/\(id)")
            #expect(read.status == 200 && read.text == Self.jane)
            let other = try world.administer("DELETE /db/_user/joe/_session/\(id)")
            #expect(other.status == 404 && other.reason == "missing")
            let deleted = try world.administer("DELETE /db/_user/jane/_session/\(id)")
            #expect(deleted.status == 200 && deleted.body.isEmpty)
            for line in ["GET", "DELETE"] {
                let gone = try world.administer("\(line) /db/_session/\(id)")
                #expect(gone.status == 404 && gone.reason == "missing")
            }
        }
    }

    @Test(arguments: ["1.4", "3"])
    func unknownSessionIsMissingWhenItIsDeleted(dialect: String) async throws {
        try await GatewayWorld.administered(GatewayWorld.file(dialect)) { world in
            let answer = try world.administer("DELETE /db/_session/none")
            #expect(answer.status == 404 && answer.reason == "missing")
        }
    }

    @Test func invalidSessionsOfAdministratorAreRefused() async throws {
        try await GatewayWorld.administered { world in
            for (body, status, reason) in [
                ("{}", 400, "Invalid or missing user name"),
                ("{\"name\":\"GUEST\"}", 400, "Invalid or missing user name"),
                ("{\"name\":\"a b\"}", 400, "Invalid or missing user name"),
                ("{\"name\":\"bob\"}", 404, "No such user \"bob\""),
                ("{\"name\":\"jane\",\"ttl\":0}", 400, "Invalid or missing ttl"),
                ("{\"name\":\"jane\",\"ttl\":-5}", 400, "Invalid or missing ttl"),
                ("{\"name\":\"jane\",\"ttl\":\"60\"}", 400, "Bad JSON"),
                ("", 400, "Bad JSON"), ("{\"name\":\"jane\",\"ttl\":null}", 200, ""),
            ] {
                let answer = try world.administer("POST /db/_session", body: body)
                #expect(answer.status == status && answer.reason == reason, "\(body)")
            }
        }
    }

    @Test func sessionsEndWithPasswordAndByAdministrator() async throws {
        try await GatewayWorld.administered { world in
            let first = try world.ask("POST /db/_session").session ?? ""
            let changed = try world.administer(
                "PUT /db/_user/jane",
                body: "{\"password\":\"other\",\"admin_channels\":[\"public\"]}"
            )
            #expect(changed.status == 200)
            let cookie = "Cookie: SyncGatewaySession="
            let old = try world.ask("DELETE /db/_session", .none, headers: [cookie + first])
            #expect(old.status == 401)
            let second = try world.ask("POST /db/_session", .user("jane", "other")).session ?? ""
            let all = try world.administer("DELETE /db/_user/jane/_session")
            #expect(all.status == 200)
            let ended = try world.ask("DELETE /db/_session", .none, headers: [cookie + second])
            #expect(ended.status == 401)
        }
    }

    @Test func publicPortHasNoSessionsOfAdministrators() async throws {
        try await GatewayWorld.administered { world in
            for line in [
                "GET /db/_session/x", "DELETE /db/_session/x", "DELETE /db/_user/jane/_session",
                "DELETE /db/_user/jane/_session/x",
            ] {
                let answer = try world.ask(line)
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(line)")
            }
        }
    }
}
