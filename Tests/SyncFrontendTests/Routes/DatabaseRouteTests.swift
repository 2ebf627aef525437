import SyncFrontend
import SyncService
import SyncWire
import Testing

@Suite struct DatabaseRouteTests {
    @Test func databaseIsMadeAndDeleted() async throws {
        try await GatewayWorld.administered { world in
            let made = try world.administer(
                "PUT /other/",
                body: "{\"server\":\"walrus:\",\"users\":{\"bob\":{\"password\":\"pwd\"}}}"
            )
            #expect(made.status == 201 && made.body.isEmpty)
            let names = try world.administer("GET /_all_dbs")
            #expect(names.text == "[\"db\",\"other\"]")
            let login = try world.ask("POST /other/_session", .user("bob", "pwd"))
            #expect(login.status == 200)
            let again = try world.administer("PUT /other/", body: "{\"server\":\"walrus:\"}")
            #expect(again.status == 412 && again.reason == "Duplicate database name \"other\"")
            let deleted = try world.administer("DELETE /other/")
            #expect(deleted.status == 200 && deleted.text == "{}")
            let gone = try world.administer("DELETE /other/")
            #expect(gone.status == 404 && gone.reason == "no such database \"other\"")
        }
    }

    @Test func invalidDatabasesAreRefused() async throws {
        try await GatewayWorld.administered { world in
            for (name, body, status, reason) in [
                ("Upper", "{\"server\":\"walrus:\"}", 400, "Illegal database name: Upper"),
                ("other", "x", 400, "Bad JSON"),
                ("other", "{\"revs_limit\":0}", 400, "1:15: revs_limit: "),
                ("other", "{\"server\":\"http://localhost:8091\"}", 501, "server: "),
                (
                    "other", "{\"sync\":\"function(doc) {\\n channel(doc.x;\\n}\"}", 400,
                    "sync: the function does not compile: line 2: "
                ), ("other", "{\"users\":{\"b\":{\"password\":\"x\"}}}", 400, "Passwords must be"),
            ] {
                let answer = try world.administer("PUT /\(name)/", body: body)
                #expect(answer.status == status, "\(body)")
                #expect(answer.reason.hasPrefix(reason), "\(answer.reason)")
            }
            let names = try world.administer("GET /_all_dbs")
            #expect(names.text == "[\"db\"]")
        }
    }

    @Test func publicPortCreatesNoDatabase() async throws {
        try await GatewayWorld.administered { world in
            let exists = try world.ask("PUT /db/", .none, body: "{}")
            #expect(exists.status == 412 && exists.reason == "Database already exists")
            let other = try world.ask("PUT /other/", .none, body: "{}")
            #expect(other.status == 403)
            #expect(other.reason == "Creating a DB over the public API is unsupported")
            for path in ["_config", "_offline", "_online", "_flush", "_compact", "_vacuum"] {
                let answer = try world.ask("POST /db/\(path)")
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(path)")
            }
            let deleted = try world.ask("DELETE /db/")
            #expect(deleted.status == 405)
        }
    }

    @Test func offlineEndsFeedsAndRefusesRequests() async throws {
        try await GatewayWorld.administered { world in
            let client = GatewayClient(port: world.publicPort)
            async let longpoll = client.askLater("GET /db/_changes?feed=longpoll&since=3")
            async let continuous = client.askLater("GET /db/_changes?feed=continuous&since=3")
            let areWaiting = try await world.eventually { await world.feedCount() == 2 }
            #expect(areWaiting)
            let offline = try world.administer("POST /db/_offline")
            #expect(offline.status == 200 && offline.body.isEmpty)
            let poll = try await longpoll
            #expect(poll.text.hasPrefix("{\"results\":[\r\n],\n\"last_seq\":\"3\"}"))
            let rows = try await continuous
            #expect(rows.text.allSatisfy { $0 == "\n" })
            let refused = try world.ask("GET /db/_session")
            #expect(refused.status == 503)
            #expect(refused.reason == "DB is currently under maintenance")
            let again = try world.administer("POST /db/_offline")
            #expect(again.status == 200)
            let online = try world.administer("POST /db/_online")
            #expect(online.status == 200 && online.body.isEmpty)
            let session = try world.ask("GET /db/_session")
            #expect(session.status == 200)
        }
    }

    @Test func feedEndsWhenItsUserOrDatabaseIsDeleted() async throws {
        for line in ["DELETE /db/_user/jane", "DELETE /db/", "POST /db/_flush"] {
            try await GatewayWorld.administered { world in
                let client = GatewayClient(port: world.publicPort)
                async let longpoll = client.askLater("GET /db/_changes?feed=longpoll&since=3")
                let isWaiting = try await world.eventually { await world.feedCount() == 1 }
                #expect(isWaiting)
                let deleted = try world.administer(line)
                #expect(deleted.status == 200)
                let answer = try await longpoll
                #expect(answer.text.contains("\"last_seq\":\"3\"}"), "\(line)")
            }
        }
    }

    @Test func onlineWaitsForItsDelay() async throws {
        try await GatewayWorld.administered { world in
            _ = try world.administer("POST /db/_offline")
            let online = try world.administer("POST /db/_online", body: "{\"delay\":1}")
            #expect(online.status == 200)
            let early = try world.ask("GET /db/_session")
            #expect(early.status == 503)
            let isOnline = try await world.eventually {
                try world.ask("GET /db/_session").status == 200
            }
            #expect(isOnline)
        }
    }

    @Test func configurationShowsNoPasswords() async throws {
        try await GatewayWorld.administered(
            GatewayWorld.file(sync: GatewayWorld.function, "\"adminInterface\": \":1\",")
        ) { world in
            let own = try world.administer("GET /db/_config")
            #expect(own.status == 200)
            #expect(!own.text.contains("password"))
            #expect(own.object["server"] as? String == "walrus:")
            #expect(own.object["bucket"] as? String == "db")
            #expect(own.object["sync"] as? String == GatewayWorld.function)
            let users = own.object["users"] as? [String: [String: Any]]
            #expect(users?["jane"]?["admin_channels"] as? [String] == ["jane", "public"])
            let all = try world.administer("GET /_config")
            #expect(!all.text.contains("password"))
            #expect(all.object["AdminInterface"] as? String == ":1")
            let databases = all.object["Databases"] as? [String: Any]
            #expect(databases?.keys.sorted() == ["db"])
        }
    }

    @Test func configurationReplacesSyncFunctionForNextWrite() async throws {
        try await GatewayWorld.administered { world in
            let before = await world.put("a", "{\"type\":\"bad\"}")
            #expect(before.hasPrefix("1-"))
            let flawed = try world.administer(
                "PUT /db/_config",
                body: "{\"server\":\"walrus:\",\"sync\":\"function(doc) {\"}"
            )
            #expect(flawed.status == 400)
            let changed = try world.administer(
                "PUT /db/_config",
                body: "{\"server\":\"walrus:\",\"sync\":\"\(GatewayWorld.function)\"}"
            )
            #expect(changed.status == 201 && changed.body.isEmpty)
            let after = await world.put("b", "{\"type\":\"bad\"}")
            #expect(after == "bad type")
            let shown = try world.administer("GET /db/_config")
            #expect(shown.object["sync"] as? String == GatewayWorld.function)
            #expect(shown.object["users"] == nil)
        }
    }

    @Test func configurationThatIsWrittenBackKeepsPasswords() async throws {
        try await GatewayWorld.administered { world in
            let shown = try world.administer("GET /db/_config")
            let written = try world.administer("PUT /db/_config", body: shown.text)
            #expect(written.status == 201)
            let login = try world.ask("GET /db/_session")
            #expect(login.status == 200)
        }
    }

    @Test func postOfConfigurationChangesNamedMembers() async throws {
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            let changed = try world.administer(
                "POST /db/_config",
                body: "{\"revs_limit\":7,\"offline\":true}"
            )
            #expect(changed.status == 201)
            let shown = try world.administer("GET /db/_config")
            #expect(shown.object["revs_limit"] as? Int == 7)
            #expect(shown.object["users"] != nil)
            let refused = try world.ask("GET /db/_session")
            #expect(refused.status == 503)
            let unknown = try world.administer("PUT /db/_config", body: "{\"foo\":1}")
            #expect(unknown.status == 400 && unknown.reason.contains("foo"))
            let dialect = try world.administer(
                "PUT /db/_config",
                body: "{\"server\":\"walrus:\",\"compatibility\":\"1.4\"}"
            )
            #expect(dialect.status == 400)
        }
    }

    @Test func flushLeavesOnlyConfiguredUsers() async throws {
        try await GatewayWorld.administered { world in
            _ = await world.put("a", "{}")
            _ = try world.administer("PUT /db/_user/bob", body: "{\"password\":\"pwd\"}")
            let flushed = try world.administer("POST /db/_flush")
            #expect(flushed.status == 200 && flushed.body.isEmpty)
            let users = try world.administer("GET /db/_user/")
            #expect(users.text == "[\"jane\",\"joe\"]")
            let raw = try world.administer("GET /db/_raw/a")
            #expect(raw.status == 404)
            let gateway = world.gateway
            let sequence = await world.run { gateway.databases["db"]?.updateSequence }
            #expect(sequence == 2)
            let isExact = await world.run { gateway.databases.isExact }
            #expect(isExact)
        }
    }

    @Test func databasesShareOneQuota() async throws {
        try await GatewayWorld.administered { world in
            let gateway = world.gateway
            _ = try world.administer("PUT /other/", body: "{\"server\":\"walrus:\"}")
            _ = try world.administer("PUT /other/_user/bob", body: "{\"password\":\"pwd\"}")
            for count in [2, 1] {
                let names = await world.run { gateway.databases.names }
                #expect(names.count == count)
                let isExact = await world.run { gateway.databases.isExact }
                #expect(isExact)
                if count == 2 { _ = try world.administer("DELETE /other/") }
            }
        }
    }

    @Test func compactionAndVacuumAnswerAsSyncGateway() async throws {
        try await GatewayWorld.administered { world in
            let first = await world.put("a", "{\"n\":1}")
            _ = await world.put("a", "{\"n\":2,\"_rev\":\"\(first)\"}")
            for count in [1, 0] {
                let compaction = try world.administer("POST /db/_compact")
                #expect(compaction.text == "{\"revs\":\(count)}")
            }
            let vacuum = try world.administer("POST /db/_vacuum")
            #expect(vacuum.status == 501)
            #expect(vacuum.reason == "Vacuum is temporarily out of order")
        }
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            let compaction = try world.administer("POST /db/_compact")
            #expect(compaction.object["status"] as? String == "completed")
        }
    }
}

extension GatewayDatabases {
    /// Whether the quota counts what the databases have.
    fileprivate var isExact: Bool {
        quota.usedBytes == usage().reduce(0) { $0 + $1.bytes } && quota.usedBytes > 0
    }
}
