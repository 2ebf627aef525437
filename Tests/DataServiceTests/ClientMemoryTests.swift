import DataService
import Seams
import TestWorld
import Testing
import Vocabulary

/// Connections when replies or parked requests use all memory reserved for them.
@Suite struct ClientMemoryTests {
    let world = TestWorld()
    private static let large = String(repeating: "large ", count: 20_000)
    private static let temporaryFailure: UInt16 = 0x86

    private var memory: ConnectionMemory { world.service.environment.network.memory }

    init() throws {
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        var requests = Ask.set("large", ClientMemoryTests.large)
        for number in 0..<40 {
            requests += Ask.set("small\(number)", String(repeating: "s", count: 10_000))
        }
        for number in 0..<3 { requests += Ask.set("cold\(number)", "cold value") }
        try #require(client.ask(requests).allSatisfy { $0.status == 0 })
        world.pass(milliseconds: 500)
        for number in 0..<3 { try #require(world.eject("cold\(number)", from: "guests")) }
    }

    private func fillReplies() -> Int {
        let bytes = memory.usage.replyBytesMax
        memory.countReplies(bytes)
        return bytes
    }

    private func append(to number: Int) -> [UInt8] {
        Ask.on(0x0e, "cold\(number)", [UInt8](repeating: 1, count: 40_000), extras: [])
    }

    @Test func largeReadsAreRefusedWhileUnreadRepliesFillMemory() {
        let client = world.client(of: "guests")
        let filled = fillReplies()
        for opcode in [0x00, 0x0c] as [UInt8] {
            let request = Ask.on(opcode, "large", opaque: 1)
            #expect(client.ask(request).map(\.status) == [ClientMemoryTests.temporaryFailure])
        }
        #expect(client.ask(Ask.get("small1")).map(\.status) == [0])
        #expect(client.ask(Ask.set("small1", "new")).map(\.status) == [0])
        memory.countReplies(-filled)
        #expect(client.ask(Ask.get("large")).map(\.text) == [ClientMemoryTests.large])
    }

    /// A lookup with the whole document several times.
    @Test func eachCopyOfADocumentInOneReplyCounts() {
        let client = world.client(of: "guests")
        let value = String(repeating: "m", count: 40_000)
        #expect(client.ask(Ask.set("medium", value)).map(\.status) == [0])
        // GET of the whole document: no flags, an empty path.
        let whole: [UInt8] = [0, 0, 0, 0]
        let filled = fillReplies()
        #expect(client.ask(Ask.on(0xd0, "medium", whole)).map(\.status) == [0])
        let twice = Ask.on(0xd0, "medium", whole + whole)
        #expect(client.ask(twice).map(\.status) == [ClientMemoryTests.temporaryFailure])
        memory.countReplies(-filled)
        client.send(twice)
        client.settle()
        let replies = client.replies()
        #expect(replies.map(\.status) == [0])
        #expect(replies.first?.value.count == 2 * (40_000 + 6))
    }

    /// A change whose reply cannot be stored is refused.
    @Test func readingChangesAreRefusedUnexecutedWhileRepliesFillMemory() {
        let client = world.client(of: "guests")
        let filled = fillReplies()
        let lock = Ask.on(0x94, "large", opaque: 1)
        let touch = Ask.on(0x1d, "large", [], extras: big(UInt32(1)))
        for request in [lock, touch] {
            #expect(client.ask(request).map(\.status) == [ClientMemoryTests.temporaryFailure])
        }
        memory.countReplies(-filled)
        world.pass(milliseconds: 3_000)
        #expect(client.ask(Ask.set("large", "not locked")).map(\.status) == [0])
        // TOUCH has no value in its reply.
        let filledAgain = fillReplies()
        defer { memory.countReplies(-filledAgain) }
        let only = Ask.on(0x1c, "large", [], extras: big(UInt32(0)))
        #expect(client.ask(only).map(\.status) == [0])
    }

    @Test func smallRepliesAreSentInSmallerPiecesWhenMemoryIsFull() {
        let client = world.client(of: "guests")
        let filled = fillReplies()
        defer { memory.countReplies(-filled) }
        let replies = client.ask((0..<40).flatMap { Ask.get("small\($0)") })
        #expect(replies.count == 40 && replies.allSatisfy { $0.status == 0 })
        #expect(client.largestOutput <= Limits.connectionBytes + 10_100)
    }

    @Test func parkedRequestsAboveConnectionShareAreCounted() {
        let client = world.client(of: "guests", features: Features.usual + [Features.unordered])
        world.lanes.hold("reader")
        client.send(append(to: 0))
        #expect(memory.usage.parkedBytes == 0)
        client.send(append(to: 1))
        let frameBytes = append(to: 0).count
        #expect(memory.usage.parkedBytes == 2 * frameBytes - Limits.connectionBytes)
        #expect(!client.isPaused)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.status) == [0, 0])
        #expect(memory.usage.parkedBytes == 0)
    }

    @Test func requestWithoutMemoryToParkBlocksConnectionInOrder() {
        let client = world.client(of: "guests", features: Features.usual + [Features.unordered])
        let filled = memory.usage.parkedBytesMax
        memory.countParked(filled)
        world.lanes.hold("reader")
        client.send(append(to: 0))
        #expect(!client.isPaused)
        client.send(append(to: 1) + Ask.get("small1"))
        #expect(client.isPaused)
        #expect(memory.usage.parkedBytes == filled)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.status) == [0, 0, 0])
    }

    @Test func disconnectReleasesMemoryOfParkedRequests() {
        let client = world.client(of: "guests", features: Features.usual + [Features.unordered])
        world.lanes.hold("reader")
        client.send(append(to: 0) + append(to: 1))
        #expect(memory.usage.parkedBytes > 0)
        client.hangUp()
        #expect(memory.usage.parkedBytes == 0)
        world.lanes.release("reader")
        world.settle()
    }

    @Test func memoryStatisticsIncludeClientMemory() throws {
        memory.countReplies(5)
        memory.countParked(6)
        let client = world.client(of: "guests")
        let replies = client.ask(frame(0x10, key: Array("memory".utf8)))
        let lines = Dictionary(
            uniqueKeysWithValues: replies.map { (String(decoding: $0.key, as: UTF8.self), $0.text) }
        )
        #expect(lines["client_receive_bytes"] == "0")
        #expect(lines["client_receive_bytes_max"] == String(memory.usage.receiveBytesMax))
        #expect(lines["client_receive_waiting"] == "0")
        #expect(lines["client_reply_bytes"] == "5")
        #expect(lines["client_parked_bytes"] == "6")
    }

    @Test func clientMemoryBoundDependsOnMachineMemory() {
        for (gibibytes, mebibytes) in [(1, 64), (8, 128), (24, 256), (256, 256)] {
            let bytesMax = Limits.clientBytesMax(memory: UInt64(gibibytes) << 30)
            #expect(bytesMax == mebibytes << 20)
            #expect(bytesMax >= 2 * Limits.frameBytesMax)
        }
    }
}
