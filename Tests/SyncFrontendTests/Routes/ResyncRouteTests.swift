import SyncFrontend
import SyncService
import Testing

@Suite struct ResyncRouteTests {
    /// Documents `a0` to `aN` in channel `a`, and one that the next function refuses.
    private func write(_ count: Int, to world: GatewayWorld) async {
        for number in 0..<count { _ = await world.put("a\(number)", "{\"channels\":[\"a\"]}") }
        _ = await world.put("z", "{\"channels\":[\"a\"],\"type\":\"bad\"}")
    }

    private static let other =
        "function(doc) { if (doc.type == 'bad') throw({forbidden: 'bad type'}); channel('b'); }"

    @Test func resyncNeedsOfflineDatabase() async throws {
        try await GatewayWorld.administered { world in
            let answer = try world.administer("POST /db/_resync")
            #expect(answer.status == 503)
            #expect(answer.reason == "Database must be _offline before calling /_resync")
        }
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            let answer = try world.administer("POST /db/_resync")
            let reason = "Database must be _offline before calling _resync, current state: Online"
            #expect(answer.status == 503 && answer.reason == reason)
            let stopped = try world.administer("POST /db/_resync?action=stop")
            #expect(stopped.status == 400 && stopped.reason == "Database _resync is not running")
            let unknown = try world.administer("POST /db/_resync?action=x")
            #expect(unknown.status == 400)
            let status = try world.administer("GET /db/_resync")
            #expect(
                status.text
                    == "{\"status\":\"completed\",\"start_time\":\"0001-01-01T00:00:00Z\",\"last_error\":\"\","
                    + "\"resync_id\":\"\",\"docs_changed\":0,\"docs_processed\":0}"
            )
        }
    }

    @Test func resyncMovesDocumentsToTheirNewChannels() async throws {
        try await GatewayWorld.administered { world in
            await write(250, to: world)
            _ = try world.administer(
                "PUT /db/_config",
                body: "{\"server\":\"walrus:\",\"sync\":\"\(Self.other)\"}"
            )
            _ = try world.administer("POST /db/_offline")
            let first = try world.administer("POST /db/_resync")
            #expect(first.status == 200 && first.text == "{\"changes\":251}")
            let second = try world.administer("POST /db/_resync")
            #expect(second.text == "{\"changes\":0}")
            _ = try world.administer("POST /db/_online")
            let moved = try world.administer("GET /db/_dumpchannel/b")
            #expect(moved.text.split(separator: "\n").count { $0.hasPrefix("\t<tr>") } == 250)
            let refused = try world.administer("GET /db/_raw/z")
            // The refused one is in no channel, and its body stays.
            let metadata = refused.object["_sync"] as? [String: Any]
            let channels = metadata?["channels"] as? [String: [String: Any]]
            #expect(channels?["a"]?["seq"] != nil)
            #expect(refused.object["type"] as? String == "bad")
        }
    }

    @Test func grantsOfResyncAreSeenByUsers() async throws {
        try await GatewayWorld.administered { world in
            _ = await world.put("d", "{\"channels\":[\"secret\"],\"users\":[\"jane\"]}")
            let before = try world.administer("GET /db/_user/jane")
            #expect(before.object["all_channels"] as? [String] == ["!", "jane", "public"])
            _ = try world.administer(
                "PUT /db/_config",
                body: "{\"server\":\"walrus:\",\"sync\":\"\(GatewayWorld.function)\"}"
            )
            _ = try world.administer("POST /db/_offline")
            let resync = try world.administer("POST /db/_resync")
            #expect(resync.text == "{\"changes\":1}")
            _ = try world.administer("POST /db/_online")
            let after = try world.administer("GET /db/_user/jane")
            #expect(after.object["all_channels"] as? [String] == ["!", "jane", "public", "secret"])
        }
    }

    @Test func resyncOfThirdDialectHasStatus() async throws {
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            await write(3, to: world)
            _ = try world.administer(
                "POST /db/_config",
                body: "{\"sync\":\"\(Self.other)\",\"offline\":true}"
            )
            let started = try world.administer("POST /db/_resync?action=start")
            #expect(started.status == 200)
            let id = started.object["resync_id"] as? String ?? ""
            #expect(id.count == 32)
            let isDone = try await world.eventually {
                let status = try world.administer("GET /db/_resync").object
                return status["status"] as? String == "completed"
                    && status["docs_changed"] as? Int == 4
                    && status["docs_processed"] as? Int == 4 && status["resync_id"] as? String == id
            }
            #expect(isDone)
            let again = try world.administer("POST /db/_resync")
            #expect(again.status == 200)
        }
    }

    @Test func checkCountsChangesAndWritesNothing() async throws {
        try await GatewayWorld.administered { world in
            await write(30, to: world)
            let own = try world.administer("POST /db/_sync_check")
            #expect(
                own.text
                    == "{\"docs_processed\":31,\"changed\":{\"count\":0,\"examples\":[]},"
                    + "\"refused\":{\"count\":0,\"examples\":[]}}"
            )
            let gateway = world.gateway
            let before = await world.run { gateway.databases["db"]?.updateSequence }
            let other = try world.administer(
                "POST /db/_sync_check",
                body: "{\"sync\":\"\(Self.other)\"}"
            )
            #expect(other.object["docs_processed"] as? Int == 31)
            let changed = other.object["changed"] as? [String: Any]
            #expect(changed?["count"] as? Int == 31)
            let examples = changed?["examples"] as? [[String: Any]]
            #expect(examples?.count == 20 && examples?.first?["id"] as? String == "a0")
            let refused = other.object["refused"] as? [String: Any]
            #expect(refused?["count"] as? Int == 1)
            let first = (refused?["examples"] as? [[String: Any]])?.first
            #expect(first?["id"] as? String == "z" && first?["status"] as? Int == 403)
            #expect(first?["reason"] as? String == "bad type")
            let after = await world.run { gateway.databases["db"]?.updateSequence }
            #expect(after == before)
            let flawed = try world.administer(
                "POST /db/_sync_check",
                body: "{\"sync\":\"function(doc) {\"}"
            )
            #expect(flawed.status == 400)
        }
    }

    @Test func resyncRoutesAreAbsentOnPublicPort() async throws {
        try await GatewayWorld.administered { world in
            for line in ["GET /db/_resync", "POST /db/_resync", "POST /db/_sync_check"] {
                let answer = try world.ask(line)
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(line)")
            }
        }
    }
}
