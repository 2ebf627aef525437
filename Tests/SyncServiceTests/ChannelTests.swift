import SyncService
import SyncWire
import Syncing
import Testing

/// Channels, grants and what users see of them.
@Suite struct ChannelTests {
    private static let function = """
        function (doc, oldDoc) {
          if (doc.owner) requireUser(doc.owner);
          if (doc.fail) throw({forbidden: "no " + doc.fail});
          if (doc.loop) for (;;) {}
          if (doc.grant) access(doc.grant, doc.to);
          if (doc.role) role(doc.grant, doc.role);
          channel(doc.c);
        }
        """

    @Test func userSeesTheChannelsThatItHas() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        #expect(
            await world.putUser("jane", #"{"password":"letmein","admin_channels":["x"]}"#)
                == .created
        )
        let first = try await world.put("a", #"{"c":"x"}"#).get()
        _ = try await world.put("b", #"{"c":"y"}"#).get()
        #expect(await world.get("a", as: "jane").hasPrefix("{"))
        #expect(await world.get("b", as: "jane") == "403 forbidden")
        #expect(try await world.changes(as: "jane") == ["1 _user/jane ", "2 a 1"])
        // A document that leaves the channel is a removal, whose content the user does not see.
        let second = try await world.put("a", #"{"_rev":"\#(first)","c":"y","secret":1}"#).get()
        #expect(try await world.changes("since=3", as: "jane") == ["4 a 2 removed:x"])
        #expect(
            await world.get("a", second, as: "jane")
                == #"{"_id":"a","_removed":true,"_rev":"\#(second)"}"#
        )
    }

    @Test func grantOfADocumentSendsOlderRowsLate() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein"}"#)
        _ = try await world.put([("a", #"{"c":"x"}"#), ("b", #"{"c":"x"}"#)]).map { try $0.get() }
        #expect(try await world.changes(as: "jane") == ["1 _user/jane "])
        let grant = try await world.put("g", #"{"grant":"jane","to":"x"}"#).get()
        #expect(try await world.changes("since=3", as: "jane") == ["4:2 a 1", "4:3 b 1"])
        #expect(try await world.changes("since=4:2", as: "jane") == ["4:3 b 1"])
        _ = try await world.put("g", #"{"_rev":"\#(grant)"}"#).get()
        #expect(await world.get("a", as: "jane") == "403 forbidden")
    }

    @Test func roleGivesItsChannels() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein"}"#)
        let outcome = await world.run { database in
            var update = PrincipalUpdate()
            update.channels = ["news"]
            return await database.change(update, .role, path: "readers", method: .replace)
        }
        #expect(outcome == .created)
        _ = try await world.put("a", #"{"c":"news"}"#).get()
        #expect(await world.get("a", as: "jane") == "403 forbidden")
        _ = try await world.put("g", #"{"grant":"jane","to":[],"role":"role:readers"}"#).get()
        #expect(await world.get("a", as: "jane").hasPrefix("{"))
        #expect(try await world.changes("since=3", as: "jane") == ["4:3 a 1"])
    }

    @Test func claimsAndExceptionsRefuseOneDocumentOfABatch() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein"}"#)
        let results = await world.put(
            [
                ("a", #"{"owner":"jane"}"#), ("b", #"{"owner":"joe"}"#), ("c", #"{"fail":"way"}"#),
                ("d", #"{"c":"a,b"}"#), ("e", "{}"),
            ],
            as: "jane"
        )
        #expect(results[0].isStored && results[4].isStored)
        #expect(results[1] == .failure(Refusal(403, "wrong user")))
        #expect(results[2] == .failure(Refusal(403, "no way")))
        #expect(results[3] == .failure(Refusal(500, "Exception in JS sync function")))
        // Refused writes draw no sequence.
        let rows = try await world.changes()
        #expect(rows == ["1 _user/jane ", "2 a 1", "3 e 1"])
    }

    @Test func endlessSyncFunctionFailsOnlyItsWrite() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        async let endless = world.put("a", #"{"loop":1}"#)
        async let other = world.put("b", "{}")
        #expect(await other.isStored)
        #expect(await endless == .failure(Refusal(500, "Exception in JS sync function")))
        #expect(await world.put("c", "{}").isStored)
    }

    @Test func databaseWithoutFunctionUsesTheMemberChannels() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein","admin_channels":["x"]}"#)
        _ = try await world.put("a", #"{"channels":["x","y"]}"#).get()
        #expect(await world.get("a", as: "jane").hasPrefix("{"))
    }

    @Test func waitingFeedWakesForItsChannelsAndGrants() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein","admin_channels":["x"]}"#)
        let feed = try await world.feed("feed=longpoll&since=1", as: "jane")
        let isEmpty = await world.run { _ in (try? await feed.next())?.rows.isEmpty }
        #expect(isEmpty == true)
        _ = try await world.put("other", #"{"c":"y"}"#).get()
        let isWoken = await world.run { _ in feed.hasChanged }
        #expect(!isWoken)
        async let rows = world.run { _ in
            await feed.wait()
            return (try? await feed.next())?.rows.map(SyncWorld.text) ?? []
        }
        _ = try await world.put("a", #"{"c":"x"}"#).get()
        #expect(await rows == ["3 a 1"])
        _ = try await world.put("g", #"{"grant":"jane","to":"y"}"#).get()
        let late = await world.run { _ in
            await feed.wait()
            return (try? await feed.next())?.rows.map(SyncWorld.text) ?? []
        }
        #expect(late == ["4:2 other 1"])
        await world.run { _ in feed.close() }
    }

    /// A feed computes anew what its user may see only if the user or a role has changed.
    @Test func openFeedNoticesEachChangeOfItsUserAndRoles() async throws {
        let world = try SyncWorld(Self.function)
        defer { world.stop() }
        func role(_ channels: [String]) async {
            _ = await world.run { database in
                var update = PrincipalUpdate()
                update.channels = channels
                return await database.change(update, .role, path: "readers", method: .replace)
            }
        }
        func rows(_ feed: ChangesFeed) async -> [String]? {
            await world.run { _ in (try? await feed.next())?.rows.map(SyncWorld.text) }
        }
        for name in ["a", "b", "c"] { _ = try await world.put(name, #"{"c":"\#(name)"}"#).get() }
        await role([])
        let body = #""admin_channels":[],"admin_roles":["readers"]"#
        _ = await world.putUser("jane", #"{"password":"letmein",\#(body)}"#)
        let feed = try await world.feed("feed=continuous", as: "jane")
        #expect(await rows(feed) == ["5 _user/jane "])
        #expect(await rows(feed) == [])
        await role(["a"])
        #expect(await rows(feed) == ["6:1 a 1"])
        _ = await world.putUser("jane", #"{"admin_channels":["b"],"admin_roles":["readers"]}"#)
        #expect(await rows(feed) == ["7:2 b 1", "7 _user/jane "])
        _ = try await world.put("g", #"{"grant":"role:readers","to":"c"}"#).get()
        #expect(await rows(feed) == ["8:3 c 1"])
        // Another user's change is none of it.
        _ = await world.putUser("joe", #"{"password":"letmein"}"#)
        _ = await world.run { await $0.delete(PrincipalKey(.role, "readers")) }
        _ = try await world.put("d", #"{"c":["a","c"]}"#).get()
        #expect(await rows(feed) == [])
        _ = try await world.put("e", #"{"c":"b"}"#).get()
        #expect(await rows(feed) == ["11 e 1"])
        _ = await world.run { await $0.delete(PrincipalKey(.user, "jane")) }
        #expect(await rows(feed) == nil)
        await world.run { _ in feed.close() }
    }
}

extension Result {
    var isStored: Bool { if case .success = self { true } else { false } }
}
