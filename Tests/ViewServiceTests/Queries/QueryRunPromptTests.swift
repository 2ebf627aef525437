import Bytes
import Indexing
import JSON
import Testing
import ViewService
import Vocabulary

/// Queries that begin on the thread of their caller.
@Suite(.timeLimit(.minutes(2))) struct QueryRunPromptTests {
    private static func run(_ beginning: QueryRun.PromptBeginning) throws -> QueryRun {
        guard case .begun(let run) = beginning else {
            throw RunWorld.NotOpen(beginning: "\(beginning)")
        }
        return run
    }

    /// A world of one node, this one, with ten rows.
    private static func world(slots: Int = QuerySlots.countMax) throws -> RunWorld {
        let world = RunWorld([1], slots: slots)
        let rows = try (0..<10).map { try RunRow("\($0)", "d\($0)") }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows) }
        world.nodes.answerHere()
        return world
    }

    @Test func shortAnswerOfThisNodeIsWholeAtOnce() async throws {
        let world = try Self.world()
        defer { world.stop() }
        // Nothing can come over the lane of the queries.
        let gate = world.blockLane()
        let run = try Self.run(try world.beginNow())
        let text = run.whole.map { String(decoding: $0, as: UTF8.self) }
        #expect(world.slots.usedCount == 0 && world.readyCount.withLock { $0 } == 1)
        #expect(world.maps.observationCount == 0, "an open query does not observe the map")
        gate.open()
        let answer = try await world.answer()
        #expect(text == answer.text)
        run.cancel()
    }

    @Test func answerThatMustWaitContinuesWithTheSameRequests() async throws {
        let world = try QueryRunTests.twoNodes()
        defer { world.stop() }
        let gate = world.blockLane()
        let run = try Self.run(try world.beginNow())
        // The events of other nodes come over the lane.
        #expect(run.whole == nil && world.slots.usedCount == 1)
        #expect(world.maps.observerCount == 1)
        gate.open()
        await run.awaitOpening()
        #expect(world.nodes.calls.count == 2 && world.slots.usedCount == 0)
        #expect(world.maps.observerCount == 0)
        let text = run.whole.map { String(decoding: $0, as: UTF8.self) }
        let answer = try await world.answer()
        #expect(text == answer.text)
        // A second wait ends at once.
        await run.awaitOpening()
        run.cancel()
    }

    @Test func longAnswerContinuesWithItsFirstPart() async throws {
        let world = try Self.world()
        defer { world.stop() }
        let value = "\"" + String(repeating: "v", count: 1_000) + "\""
        let rows = try (0..<400).map { try RunRow("\($0)", "d", value: value) }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows, of: 10) }
        let run = try Self.run(try world.beginNow())
        #expect(run.whole == nil)
        #expect(world.nodes.calls.allSatisfy { $0.restCount > 20 }, "no more than a part is read")
        await run.awaitOpening()
        let answer = try await RunWorld.read(run)
        #expect(answer.rows.compactMap { $0["key"]?.int } == Array(0..<400) && !answer.isPartial)
        run.cancel()
    }

    @Test func queryWithoutAFreeSlotBeginsNothing() async throws {
        let world = try Self.world(slots: 1)
        defer { world.stop() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let first = try Self.run(try world.beginNow())
        guard case .needsSlot = try world.beginNow() else {
            Issue.record("the query has begun")
            return
        }
        #expect(world.nodes.calls.count == 1 && world.slots.waitingCount == 0)
        first.cancel()
        let next = try Self.run(try world.beginNow())
        #expect(world.nodes.calls.count == 2)
        next.cancel()
        #expect(world.slots.usedCount == 0)
    }

    @Test func queryOfAnUnknownBucketFreesItsSlot() throws {
        let world = try Self.world()
        defer { world.stop() }
        let unknown = QueryRun.Bucket(uuid: "other", name: "other")
        guard case .unknownBucket = try world.beginNow(of: unknown) else {
            Issue.record("the query has begun")
            return
        }
        #expect(world.slots.usedCount == 0 && world.nodes.calls.isEmpty)
    }

    @Test func cancelledRunEndsTheWaitForItsOpening() async throws {
        let world = try Self.world()
        defer { world.stop() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let run = try Self.run(try world.beginNow())
        async let opened: Void = run.awaitOpening()
        run.cancel()
        await opened
        #expect(run.whole == nil && world.slots.usedCount == 0)
        #expect(world.nodes.calls.allSatisfy { $0.isCancelled })
        await #expect(throws: CancellationError.self) { try await run.next() }
    }

    /// The time of the query ends it also if it waits before its timers are set.
    @Test func queryThatHasBegunOpensAtItsDeadline() async throws {
        let world = try Self.world()
        defer { world.stop() }
        world.nodes.follow { _, _ in [] }
        var query = ViewQuery()
        query.timeoutMilliseconds = 30
        let run = try Self.run(try world.beginNow(query))
        await run.awaitOpening()
        let answer = try await RunWorld.read(run)
        #expect(answer.isPartial && answer.errors.count == 1)
        run.cancel()
    }

    /// The first step does not observe the map.
    @Test func mapThatChangesInTheFirstStepIsAdopted() async throws {
        let world = try Self.world()
        defer { world.stop() }
        let rows = [try RunRow("1", "a")]
        let maps = world.maps
        world.nodes.follow { _, node in
            guard node == 1 else { return ScriptedNodes.rows(rows) }
            maps.change(to: [2])
            return [.lost("reset")]
        }
        let run = try Self.run(try world.beginNow())
        await run.awaitOpening()
        #expect(run.whole != nil)
        #expect(world.nodes.calls.map(\.node) == [1, 2])
        #expect(world.nodes.calls.map(\.request.mapRevision) == [1, 2])
        run.cancel()
    }
}
