import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// Streams of a client whose bucket is flushed or deleted while the client's buffer is full.
@Suite struct RetiredStreamTests {
    private static let key = Array("k".utf8)
    private static let vBucket = VBucketID(ofKey: key, count: 64).number

    /// A client with a stream of one document, whose buffer is full after the snapshot's marker.
    private static func crammed(_ world: TestWorld) -> Client {
        let client = Client(world)
        _ = client.ask(Ask.guest(of: "b"))
        _ = client.ask(Ask.set("k", "v"))
        _ = client.ask(frame(.dcpOpen, key: Self.key, extras: big(UInt32(0)) + big(UInt32(1))))
        let buffer = Array("connection_buffer_size".utf8)
        _ = client.ask(frame(.dcpControl, key: buffer, value: Array("1".utf8)))
        let extras =
            [UInt8](repeating: 0, count: 16) + big(UInt64.max) + [UInt8](repeating: 0, count: 24)
        client.send(frame(.dcpStreamRequest, extras: extras, vBucket: vBucket, opaque: 7))
        client.settle()
        return client
    }

    private static func world() throws -> TestWorld {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("b"))
        return world
    }

    /// The opcodes of the streams' messages.
    private static func opcodes(_ messages: [Reply]) -> [UInt8] {
        messages.filter(\.isRequest).map(\.opcode)
    }

    @Test(arguments: [true, false])
    func streamOfRetiredBucketEndsAlthoughBufferIsFull(isFlushed: Bool) throws {
        let world = try Self.world()
        let client = Self.crammed(world)
        #expect(Self.opcodes(client.messages()) == [0x56])
        if isFlushed { try world.service.flush("b") } else { try world.service.delete("b") }
        world.pass(milliseconds: 2_100)
        client.settle()
        let messages = client.messages()
        #expect(Self.opcodes(messages) == [0x55])
        #expect(messages.last?.opaque == 7 && messages.last?.extras == [0, 0, 0, 2])
        world.pass(milliseconds: 2_100)
        client.settle()
        #expect(client.isClosed)
    }

    @Test(arguments: [true, false])
    func acknowledgementForRetiredBucketHasNoResponse(isFlushed: Bool) throws {
        let world = try Self.world()
        let client = Self.crammed(world)
        _ = client.messages()
        if isFlushed { try world.service.flush("b") } else { try world.service.delete("b") }
        client.send(frame(.dcpBufferAcknowledgement, extras: big(UInt32(100))))
        client.pump()
        let responses = client.messages().filter { !$0.isRequest }
        #expect(responses == [])
        #expect(!client.isClosed)
    }

    /// The client is to connect again, and not to conclude that its request is wrong.
    @Test(arguments: [(true, UInt16(0x86)), (false, 0x08)])
    func streamRequestForRetiredBucketIsRefusedForNow(isFlushed: Bool, status: UInt16) throws {
        let world = try Self.world()
        let client = Self.crammed(world)
        _ = client.messages()
        if isFlushed { try world.service.flush("b") } else { try world.service.delete("b") }
        let extras = [UInt8](repeating: 0, count: 48)
        let other = (Self.vBucket + 1) % 64
        client.send(frame(.dcpStreamRequest, extras: extras, vBucket: other, opaque: 8))
        client.pump()
        let responses = client.messages().filter { !$0.isRequest }
        #expect(responses.map(\.status) == [status])
    }
}
