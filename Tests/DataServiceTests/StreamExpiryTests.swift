import DataService
import TestWorld
import Testing
import Vocabulary

/// Documents that a read finds expired, on the stream of a client that waits for changes.
@Suite struct StreamExpiryTests {
    /// Sends `request` for a document that has expired; the stream then has its deletion.
    ///
    /// - Returns: The statuses of the request's answer.
    private func request(_ request: [UInt8], in type: BucketType) throws -> [UInt16] {
        let world = TestWorld()
        try world.service.open(TestWorld.settings("b", type))
        let writer = world.client(of: "b", features: Features.usual)
        let reader = world.client(of: "b", features: Features.usual)
        #expect(reader.ask(Ask.openProducer).map(\.status) == [0])
        #expect(reader.ask(Ask.stream(of: "k")).first?.status == 0)
        let inASecond = big(UInt32(0)) + big(UInt32(1))
        let stored = Ask.on(0x01, "k", Array("{}".utf8), extras: inASecond)
        #expect(writer.ask(stored).map(\.status) == [0])
        reader.settle()
        #expect(reader.messages().map(\.opcode) == [0x56, 0x57])
        world.pass(milliseconds: 2_100)
        let statuses = writer.ask(request).map(\.status)
        reader.settle()
        #expect(reader.messages().map(\.opcode).suffix(1) == [0x58])
        return statuses
    }

    /// Without a disk there is no flusher whose commit would wake the stream.
    @Test(arguments: [BucketType.persistent, .ephemeral], [0x00, 0xa0] as [UInt8])
    func readOfExpiredDocumentSendsItsDeletion(_ type: BucketType, _ opcode: UInt8) throws {
        _ = try request(Ask.on(opcode, "k"), in: type)
    }

    /// Sub-document requests that read the document, and store nothing because it expired.
    private static let updates: [[UInt8]] = [
        Ask.on(0xc8, "k", Array("a1".utf8), extras: [0, 1, 0]),
        Ask.on(0xcf, "k", Array("a1".utf8), extras: [0, 1, 0]),
        // It may access the tombstone, which has no such path.
        Ask.on(0xc9, "k", Array("a".utf8), extras: [0, 1, 0, 4]),
    ]

    @Test(arguments: [BucketType.persistent, .ephemeral], updates)
    func updateThatFindsTheDocumentExpiredSendsItsDeletion(
        _ type: BucketType,
        _ update: [UInt8]
    ) throws {
        #expect(try request(update, in: type) != [0])
    }
}
