import Bytes
import Indexing
import JSON
import TestSupport
import Testing
import ViewService
import Vocabulary

/// A query over scripted nodes: what its client gets, and what the nodes are asked.
@Suite(.timeLimit(.minutes(2))) struct QueryRunTests {
    static let url = "http://h2:8092/_view_merge/?stale=update_after"

    /// Node 1 has the rows of vBucket 0, node 2 those of vBucket 1.
    static func twoNodes() throws -> RunWorld {
        let world = RunWorld([1, 2])
        let one = try [RunRow("1", "a"), RunRow("3", "c", value: "{\"x\":1}"), RunRow("5", "e")]
        let two = try ["2", "4"].map { try RunRow($0, "n\($0)", vBucket: 1) }
        world.nodes.follow { _, node in ScriptedNodes.rows(node == 1 ? one : two) }
        return world
    }

    // MARK: The usual course

    @Test func rowsOfAllNodesAreMergedInCouchbasesForm() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let answer = try await world.answer()
        let expected =
            "{\"total_rows\":5,\"rows\":[\r\n{\"id\":\"a\",\"key\":1,\"value\":null},\r\n"
            + "{\"id\":\"n2\",\"key\":2,\"value\":null},\r\n"
            + "{\"id\":\"c\",\"key\":3,\"value\":{\"x\":1}},\r\n"
            + "{\"id\":\"n4\",\"key\":4,\"value\":null},\r\n"
            + "{\"id\":\"e\",\"key\":5,\"value\":null}\r\n]\r\n}\n"
        #expect(answer.text == expected && !answer.isPartial)
        #expect(answer.parts.count == 1, "a small answer is one part")
        let requests = world.nodes.calls.map(\.request)
        #expect(requests.map { $0.vBuckets.map(\.number) } == [[0], [1]])
        #expect(requests.allSatisfy { $0.bucket == "u1" && $0.mapRevision == 1 })
        #expect(requests.allSatisfy { 59_000...60_000 ~= $0.startMillisecondsMax })
        #expect(world.slots.usedCount == 0 && world.maps.observerCount == 0)
    }

    @Test func queryBeginsWhenTheLastNodeHasStarted() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        world.nodes.follow { _, node in node == 1 ? ScriptedNodes.rows([]) : [] }
        let hasBegun = Guarded(false)
        async let begun = {
            let run = try await world.run()
            hasBegun.withLock { $0 = true }
            return run
        }()
        try await waitUntil("both nodes are asked") { world.nodes.calls.count == 2 }
        #expect(!hasBegun.withLock { $0 })
        world.nodes.calls[1].add(ScriptedNodes.rows([]))
        let run = try await begun
        let answer = try await RunWorld.read(run)
        #expect(answer.rows.isEmpty && answer.json?["total_rows"] == .integer(0))
        run.cancel()
    }

    @Test func nodesGetCreditOnlyForRowsThatTheClientRequested() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let value = "\"" + String(repeating: "v", count: 1_000) + "\""
        let rows = try (0..<2).map { node in
            try (0..<400).map { number in
                try RunRow("\(2 * number + node)", "d", value: value, vBucket: UInt16(node))
            }
        }
        world.nodes.follow { _, node in ScriptedNodes.rows(rows[Int(node) - 1], of: 10) }
        let run = try await world.run()
        guard case .bytes(let first) = try await run.next() else {
            Issue.record("the answer has no bytes")
            return
        }
        #expect(first.count < 70_000)
        // A part has at most 64 of these rows, so at most four batches of each node.
        #expect(world.nodes.calls.allSatisfy { $0.credits <= 4 && $0.restCount > 30 })
        let rest = try await RunWorld.read(run)
        #expect(rest.parts.allSatisfy { $0.count < 70_000 })
        let text = String(decoding: first, as: UTF8.self) + rest.text
        let keys = JSONValue.parse(text)?["rows"]?.array?.compactMap { $0["key"]?.int }
        #expect(keys == Array(0..<800) && !rest.isPartial)
        run.cancel()
    }

    @Test func limitEndsTheQueryAndTheWorkOfItsNodes() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        var query = ViewQuery()
        query.limit = 2
        query.skip = 1
        let answer = try await world.answer(query)
        #expect(answer.ids == ["n2", "c"] && !answer.isPartial)
        #expect(world.nodes.calls.allSatisfy { $0.request.scan.rowsMax == 3 })
        query.limit = 0
        #expect(try await world.answer(query).rows.isEmpty)
        query.limit = nil
        query.skip = 10
        #expect(try await world.answer(query).rows.isEmpty)
    }

    @Test func debugShowsTheNodesAndTheOriginOfRows() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        var query = ViewQuery()
        query.isDebug = true
        let answer = try await world.answer(query)
        #expect(answer.json?.members?.first?.name == "debug_info")
        let node = answer.json?["debug_info"]?["main"]?["h2:8092"]
        #expect(node?["attempt"] == .integer(1) && node?["map_revision"] == .integer(1))
        #expect(node?["partitions"] == .integer(1))
        #expect(node?["signature"]?.string == "\(try RunWorld.signature(1))")
        #expect(answer.rows.map { $0["partition"]?.int } == [0, 1, 0, 1, 0])
        let names = ["h1:8092", "h2:8092", "h1:8092", "h2:8092", "h1:8092"]
        #expect(answer.rows.map { $0["node"]?.string } == names)
    }

    // MARK: Failures

    @Test func nodeLostAmongItsRowsIsNamedAfterThem() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let rows = try RowBatch.of([RunRow("2", "b", vBucket: 1)])
        let one = try ScriptedNodes.rows([RunRow("1", "a"), RunRow("3", "c")])
        world.nodes.follow { _, node in
            node == 1 ? one : [ScriptedNodes.start, .reply(.rows(rows)), .lost("reset")]
        }
        let answer = try await world.answer()
        #expect(answer.ids == ["a", "b", "c"] && answer.isPartial)
        let reason = "The connection to the node was lost: reset. Rows of vBucket 1 are missing."
        #expect(answer.errors == [[Self.url, reason]])
        var query = ViewQuery()
        query.failurePolicy = .stopRows
        query.freshness = .current
        let stopped = try await world.answer(query)
        #expect(stopped.rows.count < 3 && stopped.isPartial)
        #expect(stopped.errors.map { $0[0] } == ["http://h2:8092/_view_merge/?stale=false"])
    }

    @Test func nodeWithoutAnswerIsNamedAfterTheTimeout() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let one = try ScriptedNodes.rows([RunRow("1", "a")])
        world.nodes.follow { _, node in node == 1 ? one : [] }
        var query = ViewQuery()
        query.timeoutMilliseconds = 30
        let answer = try await world.answer(query)
        #expect(answer.ids == ["a"] && answer.isPartial)
        let reason = "The node did not answer in time. Rows of vBucket 1 are missing."
        #expect(answer.errors == [[Self.url, reason]])
        #expect(world.nodes.calls[1].isCancelled)
    }

    @Test func vBucketWithoutNodeIsNamedAsLocal() async throws {
        let world = RunWorld([0, 0])
        defer { world.stop() }
        let answer = try await world.answer()
        #expect(answer.errors == [["local", "No node serves vBuckets 0-1."]])
        #expect(answer.rows.isEmpty && answer.isPartial && world.nodes.calls.isEmpty)
    }

    @Test func movedVBucketIsAskedOfItsNewNode() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let rows = try ScriptedNodes.rows([RunRow("1", "a"), RunRow("2", "b", vBucket: 1)])
        let maps = world.maps
        world.nodes.follow { request, node in
            guard request.mapRevision == 1 else { return rows }
            if node == 1 { return [ScriptedNodes.start] }
            maps.change(to: [1, 1])
            return [.reply(.moved(2))]
        }
        let answer = try await world.answer()
        #expect(answer.ids == ["a", "b"] && !answer.isPartial)
        let calls = world.nodes.calls
        #expect(calls.map(\.node) == [1, 2, 1] && calls[0].isCancelled)
        #expect(calls[2].request.vBuckets.map(\.number) == [0, 1])
    }

    @Test func newerMapReplacesALostNodeBeforeTheRows() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let rows = try ScriptedNodes.rows([RunRow("1", "a"), RunRow("2", "b", vBucket: 1)])
        world.nodes.follow { request, node in
            if request.mapRevision == 2 { return rows }
            return node == 1 ? [ScriptedNodes.start] : [.lost("refused")]
        }
        async let answer = world.answer()
        try await waitUntil("both nodes are asked") { world.nodes.calls.count == 2 }
        world.maps.change(to: [1, 1])
        let found = try await answer
        #expect(found.ids == ["a", "b"] && !found.isPartial)
    }

    @Test func unfinishedIndexIsReplacedByThePreviousOneOnAllNodes() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let signature = try RunWorld.signature(1)
        let rows = try ScriptedNodes.rows([RunRow("1", "a")])
        world.nodes.follow { request, node in
            if request.index.choice.usesPrevious {
                return node == 1 ? rows : ScriptedNodes.rows([])
            }
            return node == 1 ? ScriptedNodes.rows([]) : [.reply(.notReady(signature))]
        }
        var query = ViewQuery()
        query.isDebug = true
        let previous = try RunWorld.signature(9)
        let answer = try await world.answer(query, previous: previous)
        #expect(answer.ids == ["a"] && !answer.isPartial)
        let main = answer.json?["debug_info"]?["main"]
        #expect(main?["h1:8092"]?["signature"]?.string == "\(previous)")
        #expect(world.readyCount.withLock { $0 } == 0)
        let requests = world.nodes.calls.map(\.request.index.choice)
        #expect(requests.prefix(2).allSatisfy { $0.requiresReady && $0.previous == previous })
        #expect(requests.suffix(2).allSatisfy { $0.wanted == previous })
        let without = try await world.answer(query)
        #expect(without.errors.count == 1 && without.isPartial)
    }

    @Test func previousIndexThatANodeHasRemovedIsReplacedByTheCurrentOne() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let (current, previous) = (try RunWorld.signature(1), try RunWorld.signature(9))
        let rows = try ScriptedNodes.rows([RunRow("1", "a")])
        world.nodes.follow { request, node in
            let choice = request.index.choice
            if choice.usesPrevious { return [.reply(.notReady(previous))] }
            if choice.previous != nil, node == 2 { return [.reply(.notReady(current))] }
            return node == 1 ? rows : ScriptedNodes.rows([])
        }
        let answer = try await world.answer(previous: previous)
        #expect(answer.ids == ["a"] && !answer.isPartial)
        #expect(world.nodes.calls.last?.request.index.choice == IndexChoice(current: current))
        #expect(world.readyCount.withLock { $0 } == 1)
    }

    @Test func nodeThatSendsMoreThanItsCreditIsEnded() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let batches = try (0..<4).map { try RowBatch.of([RunRow("\($0)", "b", vBucket: 1)]) }
        let one = try RowBatch.of([RunRow("9", "z")])
        world.nodes.follow { _, node in
            if node == 1 { return [ScriptedNodes.start, .reply(.rows(one))] }
            return [ScriptedNodes.start] + batches.map { .hasty(.rows($0)) }
        }
        let run = try await world.run()
        // No row is consumed before the first request for a part, so the third batch is too much.
        try await waitUntil("the node is cancelled") { world.nodes.calls[1].isCancelled }
        world.nodes.calls[0].add([.reply(.end)])
        let answer = try await RunWorld.read(run)
        run.cancel()
        let reason = "It sent more rows than requested."
        #expect(answer.errors.count == 1 && answer.errors[0][1].contains(reason))
        #expect(answer.ids == ["b", "b", "z"])
    }

    @Test func malformedRowEndsOnlyThePartOfItsNode() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        let one = try ScriptedNodes.rows([RunRow("1", "a"), RunRow("5", "e")])
        var bad = try RunRow("2", "b", vBucket: 1)
        bad.key += [0x77]
        let rows = try ["3", "4"].map { try RunRow($0, "x\($0)", vBucket: 1) }
        let two = ScriptedNodes.rows([bad] + rows, of: 3)
        world.nodes.follow { _, node in node == 1 ? one : two }
        let answer = try await world.answer()
        #expect(answer.ids == ["a", "e"] && answer.isPartial)
        let reason = "The node sent an invalid reply: A row of it is malformed."
        #expect(answer.errors.map { $0[0] } == [Self.url] && answer.errors[0][1].hasPrefix(reason))
    }

    // MARK: Ends

    @Test func cancelledRunEndsCallsAndWaits() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let run = try await world.run()
        #expect(world.slots.usedCount == 1)
        let part = Task { try await run.next() }
        run.cancel()
        run.cancel()
        await #expect(throws: CancellationError.self) { try await part.value }
        await #expect(throws: CancellationError.self) { try await run.next() }
        #expect(world.nodes.calls.allSatisfy { $0.isCancelled })
        #expect(world.slots.usedCount == 0 && world.maps.observerCount == 0)
    }

    @Test func cancelledTaskEndsTheBeginningAndTheRows() async throws {
        let world = try Self.twoNodes()
        defer { world.stop() }
        world.nodes.follow { _, node in node == 1 ? [ScriptedNodes.start] : [] }
        let beginning = Task { try await world.run() }
        try await waitUntil("both nodes are asked") { world.nodes.calls.count == 2 }
        beginning.cancel()
        let run = try await beginning.value
        await #expect(throws: CancellationError.self) { try await run.next() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let other = try await world.run()
        let reading = Task { try await other.next() }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(world.nodes.calls.count == 4 && world.nodes.calls.allSatisfy { $0.isCancelled })
        #expect(world.slots.usedCount == 0)
    }

    // MARK: Included documents

    @Test func documentsOfTheAnswerAreReadTogetherAndOnce() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let rows = try (0..<100).map { try RunRow("\($0)", "d\($0 / 2)", value: "{\"_id\":\"x\"}") }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows, of: 50) }
        for number in 0..<60 where number != 7 { world.documents.put("d\(number)", "[\(number)]") }
        world.documents.state.withLock { $0.gate = DocumentReads.readsMax }
        var query = ViewQuery()
        query.includesDocuments = true
        query.limit = 90
        let answer = try await world.answer(query)
        #expect(answer.rows.count == 90)
        for (number, row) in answer.rows.enumerated() {
            if number / 2 == 7 {
                #expect(row["doc"] == .null)
            } else {
                #expect(row["doc"]?["json"]?.array == [.integer(number / 2)])
                #expect(row["doc"]?["meta"]?["id"]?.string == "d\(number / 2)")
            }
        }
        let state = world.documents.state.withLock { $0 }
        #expect(state.readingMax == DocumentReads.readsMax)
        #expect(state.reads.count == 45 && state.reads["d44"] == 1)
    }

    /// 100 documents of 3 MiB would be 300 MiB.
    @Test func largeDocumentsAreReadInRounds() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let rows = try (0..<20).map { try RunRow("\($0)", "d\($0)") }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows, of: 10) }
        let text = "\"" + String(repeating: "x", count: 3 << 20) + "\""
        for number in 0..<20 { world.documents.put("d\(number)", text) }
        var query = ViewQuery()
        query.includesDocuments = true
        let run = try await world.run(query)
        guard case .bytes = try await run.next() else {
            Issue.record("the answer has no bytes")
            return
        }
        // One more round than the parts that were delivered.
        let readCount = world.documents.state.withLock { $0.reads.count }
        #expect(readCount <= 14, "documents are read as the client reads rows")
        let answer = try await RunWorld.read(run)
        run.cancel()
        #expect(!answer.isPartial)
        let reads = world.documents.state.withLock { $0.reads }
        #expect(reads.count == 20 && reads.values.allSatisfy { $0 == 1 })
    }

    /// A failed read is not a deletion.
    @Test func documentThatCannotBeReadIsStated() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let rows = try ["a", "b", "c", "d"].map { try RunRow("\"\($0)\"", $0) }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows) }
        for id in ["a", "d"] { world.documents.put(id, "1") }
        world.documents.state.withLock { $0.failing["c"] = "The node is busy." }
        var query = ViewQuery()
        query.includesDocuments = true
        let answer = try await world.answer(query)
        #expect(answer.ids == ["a", "b", "c", "d"] && answer.isPartial)
        #expect(answer.rows.map { $0["doc"] == .null } == [false, true, true, false])
        #expect(answer.errors.count == 1 && answer.errors[0][0] == "local")
        #expect(answer.errors[0][1].contains("could not be read"))
        #expect(answer.errors[0][1].contains("The node is busy."))
        query.failurePolicy = .stopRows
        let stopped = try await world.answer(query)
        #expect(stopped.ids == ["a", "b"] && stopped.errors == answer.errors)
        // A deleted document is no error.
        query.limit = 2
        #expect(try await world.answer(query).errors.isEmpty)
    }

    @Test func cancelledRunDoesNotWaitForDocuments() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let rows = try ScriptedNodes.rows([RunRow("1", "a")])
        world.nodes.follow { _, _ in rows }
        world.documents.state.withLock { $0.gate = 2 }
        var query = ViewQuery()
        query.includesDocuments = true
        let run = try await world.run(query)
        let part = Task { try await run.next() }
        try await waitUntil("the document is read") {
            world.documents.state.withLock { $0.reading } == 1
        }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await part.value }
        // Ends the read that waits.
        _ = await world.documents.document(Array("b".utf8), inBucket: "travel")
    }
}
