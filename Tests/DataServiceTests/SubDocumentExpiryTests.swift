import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// The expiry and the flags of a document that a sub-document mutation changes.
@Suite struct SubDocumentExpiryTests {
    private let world = TestWorld()

    private func open() throws -> Client {
        try world.service.open(TestWorld.settings("guests", .ephemeral))
        let features = Features.usual + [0x06, Features.preserveTTL, 0x17]
        return world.client(of: "guests", features: features)
    }

    /// The path and the value with which each operation changes `document`.
    private static func change(_ operation: SubDocumentOperation) -> (path: String, value: String)?
    {
        switch operation {
        case .get, .exists, .getCount, .getDocument, .deleteDocument: nil
        case .setDocument: ("", "{}")
        case .dictionaryAdd, .dictionaryUpsert: ("new", "1")
        case .delete: ("n", "")
        case .replace: ("n", "2")
        case .arrayPushLast, .arrayPushFirst, .arrayAddUnique: ("l", "3")
        case .arrayInsert: ("l[0]", "3")
        case .counter: ("n", "1")
        case .replaceBodyWithAttribute: ("user", "")
        }
    }

    private static let operations = SubDocumentOperation.allCases.filter { change($0) != nil }

    /// A document, which is too large to be changed under the lock if it `isLarge`.
    private static func document(isLarge: Bool) -> String {
        let count = isLarge ? Limits.lockedTransformBytesMax : 1
        return #"{"n":1,"l":[],"filler":""# + String(repeating: "x", count: count) + "\"}"
    }

    /// A request with one path, as the command for one path or as one for several.
    private static func request(
        _ operation: SubDocumentOperation,
        isSingle: Bool,
        extras: [UInt8],
        framing: [UInt8]? = nil
    ) throws -> [UInt8] {
        let (path, value) = try #require(change(operation))
        let count = big(UInt16(path.utf8.count))
        let text = Array((path + value).utf8)
        let flags: UInt8 = operation == .replaceBodyWithAttribute ? 0x04 : 0
        guard isSingle else {
            let spec = [operation.rawValue, flags] + count + big(UInt32(value.utf8.count)) + text
            return Ask.on(0xd1, "k", spec, extras: extras, framing: framing)
        }
        let opcode = operation.rawValue
        return Ask.on(opcode, "k", text, extras: count + [flags] + extras, framing: framing)
    }

    /// Expiry and flags, as the virtual attribute shows them.
    private func fields(_ client: Client) throws -> [String] {
        try ["exptime", "flags"].map { name in
            let path = "$document.\(name)"
            let extras = big(UInt16(path.utf8.count)) + [0x04]
            return try #require(
                client.ask(Ask.on(0xc5, "k", Array(path.utf8), extras: extras)).first
            ).text
        }
    }

    /// Stores the document with an expiry and an attribute, and returns its fields.
    private func store(_ client: Client, isLarge: Bool) throws -> [String] {
        _ = client.ask(Ask.set("k", Self.document(isLarge: isLarge), expiry: 1_000))
        let attribute = Ask.on(
            0xc8,
            "k",
            Array("user{}".utf8),
            extras: big(UInt16(4)) + [0x04] + big(UInt32(1_000))
        )
        #expect(client.ask(attribute).map(\.status) == [0])
        let fields = try fields(client)
        #expect(fields[0] != "0" && fields[1] == "7")
        return fields
    }

    @Test(arguments: operations, [false, true])
    func mutationWithoutExpiryRemovesIt(_ operation: SubDocumentOperation, _ isLarge: Bool) throws {
        let client = try open()
        for isSingle in operation.isWholeDocument ? [false] : [false, true] {
            for extras in [[], big(UInt32(0))] {
                _ = try store(client, isLarge: isLarge)
                let request = try Self.request(operation, isSingle: isSingle, extras: extras)
                #expect(client.ask(request).map(\.status) == [0])
                #expect(try fields(client) == ["0", "7"])
            }
        }
    }

    @Test(arguments: operations, [false, true])
    func mutationThatPreservesExpiryKeepsIt(
        _ operation: SubDocumentOperation,
        _ isLarge: Bool
    ) throws {
        let client = try open()
        for isSingle in operation.isWholeDocument ? [false] : [false, true] {
            for extras in [[], big(UInt32(0)), big(UInt32(77)) + big(UInt32(9))] {
                let before = try store(client, isLarge: isLarge)
                let request = try Self.request(
                    operation,
                    isSingle: isSingle,
                    extras: extras,
                    framing: [0x50]
                )
                #expect(client.ask(request).map(\.status) == [0])
                #expect(try fields(client) == [before[0], extras.count == 8 ? "9" : "7"])
            }
        }
    }

    @Test func documentOfBucketWithGreatestExpiryGetsItAgain() throws {
        var settings = TestWorld.settings("guests", .ephemeral)
        settings.maxTTL = 500
        try world.service.open(settings)
        let client = world.client(of: "guests", features: Features.usual + [0x06])
        _ = client.ask(Ask.set("k", Self.document(isLarge: false)))
        let first = try #require(UInt32(fields(client)[0]))
        world.pass(milliseconds: 10_000)
        let request = try Self.request(.replace, isSingle: true, extras: [])
        #expect(client.ask(request).map(\.status) == [0])
        #expect(try UInt32(fields(client)[0]) == first + 10)
    }
}
