import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// Streams that a client requests while their vBuckets are being loaded.
@Suite final class LoadingStreamTests {
    private static let keys = ["a", "b"]
    private let directory = TestWorld.freshDirectory()

    /// Writes two documents of two vBuckets, then stops.
    init() throws {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let replies = client.ask(Self.keys.flatMap { Ask.set($0, "value") })
        try #require(replies.map(\.status) == [0, 0])
        world.pass(milliseconds: 500)
        #expect(world.stop())
    }

    deinit { TestWorld.remove(directory) }

    private func producer(_ world: TestWorld, noopSeconds: Int? = nil) -> Client {
        let client = world.client(of: "guests")
        let open = frame(.dcpOpen, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(open).map(\.status) == [0])
        guard let noopSeconds else { return client }
        for (name, value) in [("enable_noop", "true"), ("set_noop_interval", "\(noopSeconds)")] {
            let control = frame(.dcpControl, key: Array(name.utf8), value: Array(value.utf8))
            #expect(client.ask(control).map(\.status) == [0])
        }
        return client
    }

    private func vBucket(_ key: String) -> UInt16 {
        VBucketID(ofKey: Array(key.utf8), count: 64).number
    }

    private func streamRequest(_ key: String, opaque: UInt32) -> [UInt8] {
        let zeros = [UInt8](repeating: 0, count: 16)
        let extras = zeros + big(UInt64.max) + zeros + [UInt8](repeating: 0, count: 8)
        return frame(.dcpStreamRequest, extras: extras, vBucket: vBucket(key), opaque: opaque)
    }

    /// Lets whole seconds pass, and the connection work in each.
    private func pass(seconds: Int, _ world: TestWorld, _ client: Client) {
        for _ in 0..<seconds {
            world.pass(milliseconds: 1_000)
            client.settle()
        }
    }

    /// The opaques and statuses of the responses in a client's messages.
    private func responses(_ messages: [Reply]) -> [[UInt32]] {
        messages.filter { !$0.isRequest }.map { [$0.opaque, UInt32($0.status)] }
    }

    @Test func streamRequestedDuringLoadingIsOpenedAfterIt() throws {
        try #require(vBucket("a") != vBucket("b"))
        let world = try TestWorld.reopened(directory)
        let client = producer(world)
        client.send(streamRequest("a", opaque: 1) + streamRequest("b", opaque: 2))
        client.settle()
        #expect(client.isPaused)
        #expect(client.messages() == [])
        world.lanes.release("reader")
        client.settle()
        let messages = client.messages()
        #expect(responses(messages) == [[1, 0], [2, 0]])
        let sent = messages.filter { $0.isRequest && $0.opcode == 0x57 }
        #expect(sent.map(\.key).sorted { $0[0] < $1[0] } == Self.keys.map { Array($0.utf8) })
    }

    @Test func streamRequestsThatWaitTooLongAreRefusedTogether() throws {
        let world = try TestWorld.reopened(directory)
        let client = producer(world)
        client.send(streamRequest("a", opaque: 1) + streamRequest("b", opaque: 2))
        pass(seconds: 4, world, client)
        #expect(client.messages() == [])
        pass(seconds: 1, world, client)
        #expect(responses(client.messages()) == [[1, 7], [2, 7]])
        #expect(!client.isPaused)
        // A repeated request waits again, with a time of its own.
        pass(seconds: 1, world, client)
        client.send(streamRequest("b", opaque: 3))
        client.settle()
        #expect(client.isPaused)
        world.lanes.release("reader")
        client.settle()
        #expect(responses(client.messages()) == [[3, 0]])
        // The time of an earlier wait ends without an effect.
        pass(seconds: 6, world, client)
        #expect(responses(client.messages()) == [])
        #expect(!client.isClosed)
    }

    @Test func refusalOfStreamRequestDuringLoadingHasNoMap() throws {
        let world = try TestWorld.reopened(directory)
        let map = RenderedConfiguration(epoch: 1, revision: 1, json: Array("{\"rev\":1}".utf8))
        world.service.publish(map, ofBucket: "guests")
        let client = producer(world)
        client.send(streamRequest("a", opaque: 1) + streamRequest("b", opaque: 2))
        pass(seconds: 5, world, client)
        let messages = client.messages()
        #expect(responses(messages) == [[1, 7], [2, 7]])
        #expect(messages.allSatisfy { $0.value.isEmpty && $0.datatype == 0 })
        world.lanes.release("reader")
        client.settle()
    }

    @Test func noopAnsweredBehindWaitingStreamRequestCounts() throws {
        let world = try TestWorld.reopened(directory)
        let client = producer(world, noopSeconds: 1)
        client.send(streamRequest("a", opaque: 1))
        pass(seconds: 4, world, client)
        let noops = client.messages()
        #expect(noops.map(\.opcode) == [0x5c])
        #expect(client.isPaused && !client.isClosed)
        var answer = frame(.dcpNoop, opaque: noops.first?.opaque ?? 0)
        answer[0] = 0x81
        client.send(answer)
        world.lanes.release("reader")
        client.settle()
        #expect(responses(client.messages()) == [[1, 0]])
        // The next no-op is sent only after the answer to the first.
        pass(seconds: 1, world, client)
        #expect(client.messages().count { $0.isRequest && $0.opcode == 0x5c } == 1)
        #expect(!client.isClosed)
    }

    @Test func waitingStreamRequestIsAnsweredWhenBucketIsDeleted() throws {
        let world = try TestWorld.reopened(directory)
        let client = producer(world)
        client.send(streamRequest("a", opaque: 1))
        client.settle()
        try world.service.delete("guests")
        world.lanes.release("reader")
        client.settle()
        #expect(responses(client.messages()) == [[1, 8]])
    }

    // MARK: The time

    @Test func requestsThatWaitOneAfterTheOtherShareTheirTime() {
        var waits = LoadingWaits()
        let second: UInt64 = 1_000_000_000
        let left = [0, 4, 5, 5].map { waits.timeLeft(at: (100 + $0) * second) }
        #expect(left == [5 * second, second, nil, nil])
    }

    @Test func requestAfterRefusalsHasItsOwnTime() {
        var waits = LoadingWaits()
        let second: UInt64 = 1_000_000_000
        let left = [0, 6, 7].map { waits.timeLeft(at: (100 + $0) * second) }
        #expect(left == [5 * second, 5 * second, 4 * second])
    }
}
