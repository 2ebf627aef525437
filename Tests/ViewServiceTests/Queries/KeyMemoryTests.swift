import Indexing
import TestSupport
import Testing
import ViewService

/// The memory of the keys of running queries.
@Suite(.timeLimit(.minutes(2))) struct KeyMemoryTests {
    private static func memory() -> KeyMemory { KeyMemory(KeyBudget(bytesMax: 1 << 20)) }

    @Test func reservationEndsWithItsLastReference() throws {
        let memory = Self.memory()
        var references = [try #require(memory.reserve(600 << 10, for: .client))]
        references += references
        withExtendedLifetime(references) {
            #expect(memory.usedBytes == 600 << 10)
            #expect(memory.reserve(600 << 10, for: .client) == nil)
        }
        references.removeLast()
        withExtendedLifetime(references) { #expect(memory.usedBytes == 600 << 10) }
        references.removeLast()
        #expect(memory.usedBytes == 0)
        let next = memory.reserve(600 << 10, for: .client)
        withExtendedLifetime(next) { #expect(next != nil && memory.usedBytes == 600 << 10) }
    }

    @Test func fewKeysNeedNoReservation() {
        let memory = Self.memory()
        let large = memory.reserve(1 << 20, for: .client)
        let small = memory.reserve(1_000, for: .client)
        #expect(large != nil && small != nil && memory.usedBytes == 1 << 20)
        withExtendedLifetime((large, small)) {}
    }

    // MARK: Queries of other nodes

    private static let refusal =
        "failed: The keys of queries use the memory that the node has for them. Retry the query later,"
        + " or send its `keys` in several requests."

    @Test func requestBeyondTheMemoryIsRefusedUntilAnotherEnds() async throws {
        let memory = Self.memory()
        let world = LinkWorld(keys: memory)
        defer { world.end() }
        let request = try LinkWorld.request(boundBytes: 600 << 10)
        let first = world.send(request)
        let asked = await world.asked.wait()
        try #require(asked.count == 1)
        #expect(memory.usedBytes > 600 << 10)
        let second = world.send(request)
        #expect(await second.events.wait() == [Self.refusal])
        // Other queries continue, and small ones are accepted.
        let small = world.send(try LinkWorld.request())
        let next = await world.asked.wait(2)
        try #require(next.count == 2)
        next[1].reply(.end)
        #expect(await small.events.wait() == ["end"])
        asked[0].reply(.end)
        #expect(await first.events.wait() == ["end"])
        #expect(await eventually { memory.usedBytes == 0 })
        let third = world.send(request)
        #expect(await world.asked.wait(3).count == 3)
        #expect(third.events.values.isEmpty && memory.usedBytes > 600 << 10)
    }

    @Test(arguments: [false, true])
    func cancellationAndLossEndTheReservation(isLost: Bool) async throws {
        let memory = Self.memory()
        let world = LinkWorld(keys: memory)
        defer { world.end() }
        let query = world.send(try LinkWorld.request(boundBytes: 600 << 10))
        let asked = await world.asked.wait()
        try #require(asked.count == 1)
        #expect(memory.usedBytes > 0)
        if isLost { world.streams.cut() } else { query.call.cancel() }
        #expect(await eventually { asked[0].isCancelled && memory.usedBytes == 0 })
    }
}
