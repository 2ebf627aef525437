import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// What leaves a node of documents with extended attributes: the body alone, unless the client agreed
/// to attributes.
@Suite struct AttributeOutputTests {
    private static let body = #"{"a":1}"#
    private static let pairs = [("_sync", #"{"rev":1}"#), ("color", #""red""#)]
    private static let whole = TestWorld.stored(pairs, body: body)
    private static let system = TestWorld.stored([pairs[0]])
    private static let xattr: UInt16 = 0x06

    private let world = TestWorld()

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        let extras = [UInt8](repeating: 0, count: 8) + big(UInt64(1)) + big(UInt64(100))
        let version = Ask.on(.setWithMeta, "doc", Self.whole, extras: extras, datatype: 5)
        let writer = world.client(of: "guests", features: Features.usual + [Self.xattr])
        try #require(writer.ask(version).map(\.status) == [0])
        try world.put("gone", Self.whole)
    }

    private func client(_ features: [UInt16] = Features.usual) -> Client {
        world.client(of: "guests", features: features)
    }

    // MARK: Reads

    @Test(arguments: [
        Ask.on(.get, "doc"), Ask.on(.getKey, "doc"), Ask.on(.getLocked, "doc"),
        Ask.on(.getAndTouch, "doc", extras: big(UInt32(0))),
    ])
    func readHasBodyAlone(_ request: [UInt8]) throws {
        for features in [Features.usual, Features.usual + [Self.xattr]] {
            let reply = try #require(client(features).ask(request).first)
            if reply.status == 0x09 { continue }
            #expect(reply.status == 0)
            #expect(reply.text == Self.body && reply.datatype == 1)
        }
    }

    @Test func readOfClientWithoutJSONHasNoDatatype() throws {
        let reply = try #require(client([]).ask(Ask.get("doc")).first)
        #expect(reply.text == Self.body && reply.datatype == 0)
    }

    @Test func metadataHasStoredDatatype() throws {
        let reply = try #require(client().ask(Ask.on(.getMeta, "doc", extras: [2])).first)
        #expect(reply.extras.count == 21 && reply.extras.last == 5)
    }

    @Test func randomKeyIsDocumentWithItsBody() throws {
        let reply = try #require(client().ask(frame(.getRandomKey)).first)
        #expect(reply.status == 0 && reply.key == Array("doc".utf8))
        #expect(reply.text == Self.body && reply.datatype == 1 && reply.extras.count == 4)
    }

    @Test func randomKeyIsOfDefaultCollectionOnly() {
        let requests: [(extras: [UInt8], status: UInt16)] = [
            (big(UInt32(0)), 0), (big(UInt32(0)) + [0], 0), (big(UInt32(8)), 0x88),
            (big(UInt32(8)) + [0], 0x88), (big(UInt32(0)) + [1], 0x83), ([0], 4),
        ]
        for request in requests {
            let replies = client().ask(frame(.getRandomKey, extras: request.extras))
            #expect(replies.map(\.status) == [request.status], "\(request.extras)")
        }
    }

    @Test func randomKeyOfBucketWithoutDocumentsIsNotFound() throws {
        try world.put("doc", [])
        #expect(client().ask(frame(.getRandomKey)).map(\.status) == [1])
    }

    // MARK: DCP

    /// The only change that a stream of the key's vBucket sends.
    private func change(
        of key: String,
        flags: UInt32,
        features: [UInt16] = Features.usual + [AttributeOutputTests.xattr]
    ) throws -> Reply {
        let client = client(features)
        let opening = frame(.dcpOpen, key: Array("s".utf8), extras: big(UInt32(0)) + big(flags))
        try #require(client.ask(opening).map(\.status) == [0])
        let extras =
            [UInt8](repeating: 0, count: 16) + big(UInt64.max) + [UInt8](repeating: 0, count: 24)
        let number = VBucketID(ofKey: Array(key.utf8), count: 64).number
        client.send(frame(.dcpStreamRequest, extras: extras, vBucket: number, opaque: 7))
        client.settle()
        let changes = client.messages().filter { [0x57, 0x58, 0x59].contains($0.opcode) }
        return try #require(changes.first { $0.key == Array(key.utf8) })
    }

    @Test func streamWithoutFlagHasBodyAlone() throws {
        let mutation = try change(of: "doc", flags: 0x01)
        #expect(mutation.opcode == 0x57)
        #expect(mutation.text == Self.body && mutation.datatype == 1)
        let deletion = try change(of: "gone", flags: 0x01)
        #expect(deletion.opcode == 0x58)
        #expect(deletion.value.isEmpty && deletion.datatype == 0)
    }

    @Test func streamWithFlagHasStoredFormAndDeletionsSystemAttributes() throws {
        let mutation = try change(of: "doc", flags: 0x05)
        #expect(mutation.value == Self.whole && mutation.datatype == 5)
        let deletion = try change(of: "gone", flags: 0x05)
        #expect(deletion.opcode == 0x58)
        #expect(deletion.value == Self.system && deletion.datatype == 4)
    }

    @Test func streamWithFlagForDeletedUserAttributesHasAll() throws {
        let deletion = try change(of: "gone", flags: 0x105)
        #expect(deletion.value == Self.whole && deletion.datatype == 4)
    }

    @Test func streamWithoutValuesHasAttributesAlone() throws {
        let attributes = TestWorld.stored(Self.pairs)
        let plain = try change(of: "doc", flags: 0x0d)
        #expect(plain.value == attributes && plain.datatype == 4)
        let withDatatype = try change(of: "doc", flags: 0x45)
        #expect(withDatatype.value == attributes && withDatatype.datatype == 5)
        let none = try change(of: "doc", flags: 0x09)
        #expect(none.value.isEmpty && none.datatype == 0)
        let datatypeAlone = try change(of: "doc", flags: 0x41)
        #expect(datatypeAlone.value.isEmpty && datatypeAlone.datatype == 1)
    }

    /// Gateways up to 3.0 do not agree to JSON, and import documents of that datatype alone.
    @Test func streamOfClientWithoutJSONHasTheStoredDatatype() throws {
        let mutation = try change(of: "doc", flags: 0x05, features: [Self.xattr])
        #expect(mutation.value == Self.whole && mutation.datatype == 5)
    }

    @Test func streamWithAttributesNeedsTheirAgreement() {
        let opening = frame(.dcpOpen, key: Array("s".utf8), extras: big(UInt32(0)) + big(UInt32(5)))
        #expect(client().ask(opening).map(\.status) == [4])
    }

    // MARK: TAP

    @Test func tapHasBodyAlone() throws {
        let client = client()
        client.send(frame(.tapConnect, extras: big(UInt32(2))))
        client.settle()
        let messages = client.messages()
        let mutation = try #require(messages.first { $0.opcode == 0x41 })
        #expect(mutation.key == Array("doc".utf8) && mutation.text == Self.body)
        let deletion = messages.first { $0.opcode == 0x42 }
        #expect(deletion.map(\.value.isEmpty) ?? true)
    }
}
