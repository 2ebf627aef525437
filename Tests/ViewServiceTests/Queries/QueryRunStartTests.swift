import Bytes
import Indexing
import JSON
import TestSupport
import Testing
import ViewService

/// The beginning of a query whose caller waits for the first part.
@Suite(.timeLimit(.minutes(2))) struct QueryRunStartTests {
    @Test func shortAnswerIsWholeWhenItBegins() async throws {
        let world = try QueryRunTests.twoNodes()
        defer { world.stop() }
        let run = try await world.run(awaitsPart: true)
        let separate = try await world.answer()
        #expect(run.whole.map { String(decoding: $0, as: UTF8.self) } == separate.text)
        #expect(world.slots.usedCount == 0 && world.maps.observerCount == 0)
        let rest = try await RunWorld.read(run)
        #expect(rest.parts.isEmpty && !rest.isPartial)
        run.cancel()
    }

    @Test func answerWithErrorsIsReadInParts() async throws {
        let world = RunWorld([1, 0])
        defer { world.stop() }
        let rows = [try RunRow("1", "a")]
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows) }
        let run = try await world.run(awaitsPart: true)
        #expect(run.whole == nil)
        let answer = try await RunWorld.read(run)
        #expect(answer.ids == ["a"] && answer.isPartial && answer.errors.count == 1)
        run.cancel()
    }

    @Test func largeAnswerBeginsWithItsFirstPart() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let value = "\"" + String(repeating: "v", count: 1_000) + "\""
        let rows = try (0..<400).map { try RunRow("\($0)", "d", value: value) }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows, of: 10) }
        let run = try await world.run(awaitsPart: true)
        #expect(run.whole == nil)
        #expect(world.nodes.calls.allSatisfy { $0.restCount > 20 }, "no more than a part is read")
        let answer = try await RunWorld.read(run)
        #expect(answer.rows.compactMap { $0["key"]?.int } == Array(0..<400) && !answer.isPartial)
        #expect(answer.parts.count > 1 && answer.parts.allSatisfy { $0.count < 70_000 })
        run.cancel()
    }

    @Test func beginningWaitsForTheRows() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let hasBegun = Guarded(false)
        async let begun = {
            let run = try await world.run(awaitsPart: true)
            hasBegun.withLock { $0 = true }
            return run
        }()
        try await waitUntil("the query is open") { world.readyCount.withLock { $0 } == 1 }
        #expect(!hasBegun.withLock { $0 })
        world.nodes.calls[0].add([.reply(.end)])
        let run = try await begun
        #expect(run.whole != nil)
        run.cancel()
    }

    @Test func cancelledCallerWaitsNoLonger() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        world.nodes.follow { _, _ in [ScriptedNodes.start] }
        let task = Task { try await world.run(awaitsPart: true) }
        try await waitUntil("the node is asked") { world.nodes.calls.count == 1 }
        task.cancel()
        let run = try await task.value
        #expect(run.whole == nil && world.slots.usedCount == 0)
        await #expect(throws: CancellationError.self) { try await run.next() }
    }

    /// The node answers within the call that asks it, as this node does.
    @Test func answerOfThisNodeNeedsNoOtherThread() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let rows = try (0..<10).map { try RunRow("\($0)", "d\($0)") }
        world.nodes.follow { _, _ in ScriptedNodes.rows(rows) }
        world.nodes.answerHere()
        // No event can come over the lane of the queries.
        let gate = world.blockLane()
        defer { gate.open() }
        let run = try await world.run(awaitsPart: true)
        let text = run.whole.map { String(decoding: $0, as: UTF8.self) }
        #expect(text?.contains("\"id\":\"d9\"") == true)
        run.cancel()
    }
}
