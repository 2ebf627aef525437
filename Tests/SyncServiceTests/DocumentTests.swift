import SyncService
import SyncWire
import TestSupport
import Testing

/// Documents of a database in memory.
@Suite struct DocumentTests {
    @Test func documentIsWrittenReadAndDeleted() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        let first = try await world.put("a", #"{"x":1,"B":[]}"#).get()
        #expect(await world.get("a") == #"{"B":[],"_id":"a","_rev":"\#(first)","x":1}"#)
        let second = try await world.put("a", #"{"_rev":"\#(first)","x":2}"#).get()
        #expect(second.hasPrefix("2-"))
        #expect(await world.get("a") == #"{"_id":"a","_rev":"\#(second)","x":2}"#)
        // The replaced revision is kept for some minutes.
        #expect(await world.get("a", first) == #"{"B":[],"_id":"a","_rev":"\#(first)","x":1}"#)
        let third = try await world.put("a", #"{"_rev":"\#(second)","_deleted":true}"#).get()
        #expect(await world.get("a") == "404 deleted")
        #expect(await world.get("a", third) == #"{"_deleted":true,"_id":"a","_rev":"\#(third)"}"#)
        #expect(await world.get("b") == "404 missing")
        #expect(await world.get("a", "9-x") == "404 missing")
    }

    @Test func staleAndMissingRevisionsAreConflicts() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        let first = try await world.put("a", "{}").get()
        _ = try await world.put("a", #"{"_rev":"\#(first)","x":1}"#).get()
        #expect(
            await world.put("a", #"{"y":1}"#) == .failure(Refusal(409, "Document exists"))
        )
        #expect(
            await world.put("a", #"{"_rev":"\#(first)","y":1}"#)
                == .failure(Refusal(409, "Document revision conflict"))
        )
        #expect(
            await world.put("a", #"{"_rev":"x"}"#) == .failure(Refusal(400, "Invalid revision ID"))
        )
        #expect(
            await world.put("a", #"{"_removed":true}"#)
                == .failure(Refusal(404, "Document revision is not accessible"))
        )
    }

    @Test func revisionsOfOneBatchAreInOrder() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        let results = await world.put([
            ("a", "{}"), ("b", "{}"), ("a", #"{"x":1}"#), ("c", #"{"_rev":"1-x"}"#),
        ])
        #expect(results[0] == results[1])
        #expect(results[2] == .failure(Refusal(409, "Document exists")))
        #expect(results[3] == .failure(Refusal(409, "Document revision conflict")))
    }

    @Test func accessGrantedByADocumentAppliesToLaterOnesOfTheBatch() async throws {
        let world = try SyncWorld(
            "function (doc) { if (doc.needs) requireAccess(doc.needs); access('jane', doc.opens); }"
        )
        defer { world.stop() }
        _ = await world.putUser("jane", #"{"password":"letmein"}"#)
        let refused = Result<String, Refusal>.failure(Refusal(403, "missing channel access"))
        #expect(await world.put("a", #"{"needs":"c"}"#, as: "jane") == refused)
        let results = await world.put(
            [("b", #"{"needs":"c"}"#), ("c", #"{"opens":"c"}"#), ("d", #"{"needs":"c"}"#)],
            as: "jane"
        )
        #expect(results[0] == refused)
        #expect(try results[1].get().hasPrefix("1-") && results[2].get().hasPrefix("1-"))
    }

    @Test func invalidChannelIsNamedWithoutASyncFunctionAndAnExceptionWithOne() async throws {
        for (sync, refusal) in [
            (nil, Refusal(400, "Illegal channel name \"a,b\"")),
            (
                "function (doc) { channel(doc.channels); }",
                Refusal(500, "Exception in JS sync function")
            ),
        ] {
            let world = try SyncWorld(sync)
            defer { world.stop() }
            #expect(await world.put("a", #"{"channels":["c","a,b"]}"#) == .failure(refusal))
        }
    }

    @Test func replacedTombstoneWithoutContentIsStillRead() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        let first = try await world.put("a", "{}").get()
        let second = try await world.put("a", #"{"_rev":"\#(first)","_deleted":true}"#).get()
        _ = try await world.put("a", #"{"x":1}"#).get()
        #expect(await world.get("a", second) == #"{"_deleted":true,"_id":"a","_rev":"\#(second)"}"#)
    }

    @Test func replacedTombstoneWithoutContentIsTheOldDocumentOfItsSecondChild() async throws {
        let world = try SyncWorld(
            "function (doc, oldDoc) { if (doc.n) throw({forbidden: Object.keys(oldDoc).join()}); }"
        )
        defer { world.stop() }
        let first = try await world.put("a", #"{"x":1}"#).get()
        let second = try await world.put("a", #"{"_rev":"\#(first)","_deleted":true}"#).get()
        _ = try await world.put("a", #"{"x":2}"#).get()
        let ids = #"["x","\#(second.dropFirst(2))","\#(first.dropFirst(2))"]"#
        let child = #"{"n":1,"_rev":"3-x","_revisions":{"start":3,"ids":\#(ids)}}"#
        let refusal = Refusal(403, "_id,_deleted")
        #expect(await world.put("a", child, isEdit: false) == .failure(refusal))
    }

    @Test func concurrentWritesOfOneDocumentHaveOneWinner() async throws {
        let world = try SyncWorld("function (doc) { channel('c'); }")
        defer { world.stop() }
        let stored = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<20 {
                group.addTask {
                    (try? await world.put("a", #"{"n":\#(number)}"#).get()) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(stored == 1)
        #expect(try await world.changes().count == 1)
    }

    @Test func deletionOfTheWinnerPromotesTheReplicatedBranch() async throws {
        let world = try SyncWorld("function (doc) { channel(doc.c); }")
        defer { world.stop() }
        for (revision, history, channel) in [
            ("2-b", #"["b","a"]"#, "one"), ("2-c", #"["c","a"]"#, "two"),
        ] {
            let json =
                #"{"_rev":"\#(revision)","_revisions":{"start":2,"ids":\#(history)},"c":"\#(channel)"}"#
            #expect(try await world.put("d", json, isEdit: false).get() == revision)
        }
        #expect(await world.get("d") == #"{"_id":"d","_rev":"2-c","c":"two"}"#)
        #expect(await world.get("d", "2-b") == #"{"_id":"d","_rev":"2-b","c":"one"}"#)
        let rows = try await world.changes("style=all_docs")
        #expect(rows == ["2 d 2+2"])
        let tombstone =
            #"{"_rev":"3-d","_deleted":true,"_revisions":{"start":3,"ids":["d","c","a"]}}"#
        _ = try await world.put("d", tombstone, isEdit: false).get()
        #expect(await world.get("d") == #"{"_id":"d","_rev":"2-b","c":"one"}"#)
        let query = "filter=sync_gateway/bychannel&channels="
        #expect(try await world.changes(query + "one") == ["3 d 2"])
        #expect(try await world.changes(query + "two") == ["3 d 2 removed:two"])
    }

    @Test func attachmentsStayAsLongAsARevisionHasThem() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        let first = try await world.put(
            "a",
            #"{"_attachments":{"t.txt":{"data":"aGVsbG8=","content_type":"text/plain"}}}"#
        ).get()
        let digest = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="
        let stub =
            #"{"content_type":"text/plain","digest":"\#(digest)","length":5,"revpos":1,"stub":true}"#
        #expect(
            await world.get("a")
                == #"{"_attachments":{"t.txt":\#(stub)},"_id":"a","_rev":"\#(first)"}"#
        )
        let second = try await world.put(
            "a",
            #"{"_rev":"\#(first)","_attachments":{"t.txt":{"stub":true,"revpos":1}}}"#
        ).get()
        let bytes = await world.run { await $0.stores.blobs.read(digest, 1..<3) }
        #expect(bytes == Array("el".utf8))
        _ = try await world.put("a", #"{"_rev":"\#(second)"}"#).get()
        world.time.advance(by: 400_000_000_000)
        let count = await world.run { [store = world.store] database in
            store.removeExpired()
            return await database.stores.blobs.count(of: digest)
        }
        #expect(count == nil)
        #expect(
            await world.put(
                "b",
                #"{"_attachments":{"t.txt":{"stub":true,"revpos":1,"digest":"\#(digest)"}}}"#
            )
                == .failure(Refusal(412, "Invalid attachment stub for \"t.txt\""))
        )
    }

    @Test func quotaRefusesWritesAndAllowsDeletions() async throws {
        let world = try SyncWorld(quota: 100_000)
        defer { world.stop() }
        let text = String(repeating: "x", count: 10_000)
        var revisions: [String] = []
        var refusal: Refusal?
        for number in 0..<20 {
            switch await world.put("d\(number)", #"{"t":"\#(text)"}"#) {
            case .success(let revision): revisions.append(revision)
            case .failure(let failure): refusal = failure
            }
        }
        #expect(refusal?.status == 507)
        #expect((5...15).contains(revisions.count))
        for (number, revision) in revisions.enumerated() {
            _ = try await world.put("d\(number)", #"{"_rev":"\#(revision)","_deleted":true}"#).get()
        }
        world.time.advance(by: 400_000_000_000)
        let used = await world.run { [store = world.store] _ in
            store.removeExpired()
            return store.usedBytes
        }
        #expect(used < 20_000)
        _ = try await world.put("e", "{}").get()
        let names = (0..<revisions.count).map { "d\($0)" } + ["e"]
        let purged = await world.run { await $0.purge(names + ["other"]) }
        #expect(purged == names)
        let left = await world.run { [store = world.store] _ in store.usedBytes }
        #expect(left == 0)
    }

    /// The body that the first life of the document left for some minutes is not that of the second one.
    @Test func purgedRevisionThatReturnsAsALosingLeafKeepsItsBody() async throws {
        let world = try SyncWorld()
        defer { world.stop() }
        func write(_ revision: String, _ ids: String, _ text: String) async throws {
            let json =
                #"{"_rev":"\#(revision)","_revisions":{"start":\#(revision.prefix(1)),"ids":\#(ids)},"t":"\#(text)"}"#
            _ = try await world.put("a", json, isEdit: false).get()
        }
        let large = String(repeating: "x", count: 1_000)
        try await write("1-b", #"["b"]"#, large)
        try await write("2-c", #"["c","b"]"#, "")
        _ = await world.run { await $0.purge(["a"]) }
        try await write("1-b", #"["b"]"#, large)
        try await write("1-c", #"["c"]"#, "")
        world.time.advance(by: 400_000_000_000)
        await world.run { [store = world.store] _ in store.removeExpired() }
        #expect(await world.get("a") == #"{"_id":"a","_rev":"1-c","t":""}"#)
        #expect(await world.get("a", "1-b").contains(large))
    }

    @Test func documentThatIsBeingWrittenDoesNotExpireMeanwhile() async throws {
        let world = try SyncWorld("function (doc) { if (doc.fail) throw 'no'; }")
        defer { world.stop() }
        let first = try await world.put("a", #"{"_exp":60}"#).get()
        let counts = await world.run { [store = world.store, time = world.time] database in
            let sent = SentDocument(
                "a",
                SyncWorld.body(#"{"_rev":"\#(first)","fail":1}"#),
                isEdit: true
            )
            async let write = database.write([sent], by: .administrator)
            // The write goes on until it waits for the sync function.
            for _ in 0..<20 { await Task.yield() }
            time.advance(by: 61_000_000_000)
            store.removeExpired()
            let during = store.documentCount
            _ = await write
            store.removeExpired()
            return [during, store.documentCount]
        }
        #expect(counts == [1, 0])
    }

    @Test func documentExpires() async throws {
        let world = try SyncWorld("function (doc) { if (doc.f) expiry(120); }")
        defer { world.stop() }
        _ = try await world.put("a", #"{"_exp":60}"#).get()
        _ = try await world.put("b", #"{"f":1}"#).get()
        _ = try await world.put("c", "{}").get()
        for (seconds, expected) in [(61, ["b", "c"]), (60, ["c"])] {
            world.time.advance(by: UInt64(seconds) * 1_000_000_000)
            let left = await world.run { [store = world.store] database in
                store.removeExpired()
                return await database.list(.from([]), for: .administrator).documents.map(\.id)
            }
            #expect(left == expected)
        }
    }
}
