import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// The bytes that a client of many streams receives before it acknowledges any.
@Suite struct FlowControlTests {
    private static let buffer = 20_000
    private static let documentBytes = 10_000
    /// The streams' vBuckets: the first of the bucket's 64.
    private static let vBuckets = 16

    /// A world whose documents, two in each vBucket, are only on disk.
    private static func ejectedWorld() throws -> TestWorld {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("guests", .persistent))
        let writer = world.client(of: "guests")
        var counts = [Int](repeating: 0, count: vBuckets)
        let value = String(repeating: "x", count: documentBytes)
        for number in 0..<10_000 where counts.contains(where: { $0 < 2 }) {
            let key = "key\(number)"
            let vBucket = Int(VBucketID(ofKey: Array(key.utf8), count: 64).number)
            guard vBucket < vBuckets, counts[vBucket] < 2 else { continue }
            counts[vBucket] += 1
            try #require(writer.ask(Ask.set(key, value)).map(\.status) == [0])
        }
        world.pass(milliseconds: 3_000)
        for _ in 0..<3 { world.ejectAll(from: "guests") }
        return world
    }

    private static func control(_ client: Client, _ name: String, _ value: String) {
        let request = frame(.dcpControl, key: Array(name.utf8), value: Array(value.utf8))
        #expect(client.ask(request).map(\.status) == [0])
    }

    /// Reads what the server sent.
    ///
    /// - Returns: The bytes of the streams' messages, and the number of documents in them.
    private static func receive(_ client: Client) -> (bytes: Int, documents: Int) {
        client.settle()
        let messages = client.messages().filter(\.isRequest)
        let bytes = messages.reduce(0) {
            $0 + 24 + $1.extras.count + $1.key.count + $1.value.count
        }
        return (bytes, messages.count { $0.opcode == 0x57 })
    }

    @Test func streamsThatReadDiskShareTheBuffer() throws {
        let world = try Self.ejectedWorld()
        let client = world.client(of: "guests")
        let open = frame(.dcpOpen, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(open).map(\.status) == [0])
        Self.control(client, "connection_buffer_size", "\(Self.buffer)")
        let extras =
            [UInt8](repeating: 0, count: 16) + big(UInt64.max) + [UInt8](repeating: 0, count: 24)
        for vBucket in 0..<UInt16(Self.vBuckets) {
            client.send(
                frame(.dcpStreamRequest, extras: extras, vBucket: vBucket, opaque: UInt32(vBucket))
            )
        }
        // One block of documents may exceed the buffer, as documents are not split.
        let block = 2 * Self.documentBytes + 1_000
        var documents = 0
        var turns = 0
        while turns < 200 {
            let received = Self.receive(client)
            guard received.bytes > 0 else { break }
            #expect(received.bytes <= Self.buffer + block)
            documents += received.documents
            client.send(frame(.dcpBufferAcknowledgement, extras: big(UInt32(received.bytes))))
            turns += 1
        }
        #expect(documents == 2 * Self.vBuckets)
        #expect(turns > Self.vBuckets / 2)
    }
}
