import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary

/// SET_WITH_META, ADD_WITH_META and DELETE_WITH_META.
@Suite struct WithMetaTests {
    private static let (set, setQuiet): (UInt8, UInt8) = (0xa2, 0xa3)
    private static let (add, delete): (UInt8, UInt8) = (0xa4, 0xa8)
    private static let skip: UInt32 = 1

    private let world = TestWorld()
    private let client: Client

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests", features: Features.usual + [0x06])
    }

    /// The extras of a version, in the shortest form that has its options.
    private func extras(
        _ revision: UInt64,
        _ cas: UInt64,
        flags: UInt32 = 0,
        expiry: UInt32 = 0,
        options: UInt32? = nil,
        extended: UInt16? = nil
    ) -> [UInt8] {
        big(flags) + big(expiry) + big(revision) + big(cas)
            + (options.map { big($0) } ?? []) + (extended.map { big($0) } ?? [])
    }

    private func one(
        _ opcode: UInt8,
        _ extras: [UInt8],
        _ value: [UInt8] = [],
        cas: UInt64 = 0,
        datatype: UInt8 = 0
    ) throws -> Reply {
        let request = Ask.on(opcode, "k", value, extras: extras, 0, cas, datatype: datatype)
        let replies = client.ask(request)
        try #require(replies.count == 1, "\(replies)")
        return replies[0]
    }

    private func status(
        _ opcode: UInt8,
        _ extras: [UInt8],
        _ value: [UInt8] = [],
        cas: UInt64 = 0,
        datatype: UInt8 = 0
    ) throws -> UInt16 {
        try one(opcode, extras, value, cas: cas, datatype: datatype).status
    }

    /// Deleted, flags, expiry, revision, datatype and CAS.
    private func meta() throws -> [UInt64] {
        let reply = try #require(client.ask(Ask.on(0xa0, "k", extras: [2])).first)
        try #require(reply.status == 0)
        func number(_ range: Range<Int>) -> UInt64 {
            reply.extras[range].reduce(0) { $0 << 8 | UInt64($1) }
        }
        return [
            number(0..<4), number(4..<8), number(8..<12), number(12..<20), number(20..<21),
            reply.cas,
        ]
    }

    @Test func versionKeepsItsMetadata() throws {
        let later = world.time.seconds + 1_000
        let reply = try one(Self.set, extras(7, 99, flags: 5, expiry: later), Array("{}".utf8))
        #expect(reply.status == 0 && reply.cas == 99 && reply.extras.count == 16)
        #expect(try meta() == [0, 5, UInt64(later), 7, 1, 99])
        #expect(client.ask(Ask.get("k")).map(\.text) == ["{}"])
    }

    @Test(arguments: [24, 26, 28, 30])
    func everyLengthOfExtrasIsAccepted(_ count: Int) throws {
        let hasLength = count == 26 || count == 30
        let given = extras(
            2,
            50,
            options: count >= 28 ? 0 : nil,
            extended: hasLength ? 3 : nil
        )
        try #require(given.count == count)
        // The extended metadata is behind the value, and is dropped.
        let value = Array("value".utf8) + (hasLength ? [1, 2, 3] : [])
        #expect(try status(Self.set, given, value) == 0)
        #expect(client.ask(Ask.get("k")).map(\.text) == ["value"])
    }

    @Test func extrasOfOtherLengthsAreRefused() throws {
        for count in [0, 8, 23, 25, 27, 29, 31, 32] {
            #expect(try status(Self.set, [UInt8](repeating: 1, count: count)) == 4)
        }
        #expect(try status(Self.set, extras(1, 1, extended: 4), [1, 2, 3]) == 4)
    }

    @Test func versionThatLosesIsRefused() throws {
        #expect(try status(Self.set, extras(5, 50), [1]) == 0)
        for (revision, cas) in [(4, 60), (5, 49), (5, 50)] as [(UInt64, UInt64)] {
            #expect(try status(Self.set, extras(revision, cas), [2]) == 2)
        }
        #expect(try status(Self.set, extras(5, 51), [3]) == 0)
        #expect(try status(Self.set, extras(6, 10), [4]) == 0)
        #expect(client.ask(Ask.get("k")).map(\.value) == [[4]])
    }

    @Test func conflictResolutionCanBeSkipped() throws {
        #expect(try status(Self.set, extras(5, 50), [1]) == 0)
        #expect(try status(Self.set, extras(2, 9, options: Self.skip), [2]) == 0)
        #expect(try meta()[3...] == [2, 0, 9])
    }

    @Test func regeneratedCASIsDrawnFromOwnClock() throws {
        #expect(try status(Self.set, extras(5, 50, options: 0x04), [1]) == 4)
        let reply = try one(Self.set, extras(5, 50, options: 0x05), [1])
        #expect(reply.status == 0 && reply.cas > 50)
        #expect(try meta()[3] == 5)
        #expect(try meta()[5] == reply.cas)
    }

    @Test(arguments: [UInt32(0x02), 0x03, 0x08, 0x10, 0x8000_0000])
    func otherOptionsAreRefused(_ options: UInt32) throws {
        #expect(try status(Self.set, extras(5, 50, options: options), [1]) == 4)
    }

    @Test func impossibleCASIsRefused() throws {
        #expect(try status(Self.set, extras(5, 0), [1]) == 4)
        #expect(try status(Self.set, extras(5, .max), [1]) == 4)
    }

    @Test func requestNamesVersionThatItReplaces() throws {
        #expect(try status(Self.set, extras(1, 50), [1], cas: 7) == 1)
        #expect(try status(Self.set, extras(1, 50), [1]) == 0)
        #expect(try status(Self.set, extras(2, 60), [2], cas: 49) == 2)
        #expect(try status(Self.set, extras(2, 60), [2], cas: 50) == 0)
    }

    @Test func additionNeedsNoDocument() throws {
        #expect(try status(Self.add, extras(1, 50), [1]) == 0)
        #expect(try status(Self.add, extras(9, 90), [2]) == 2)
        #expect(try status(Self.delete, extras(10, 95)) == 0)
        #expect(try status(Self.add, extras(11, 99), [3]) == 0)
    }

    @Test func deletionLeavesTombstoneWithItsMetadata() throws {
        #expect(try status(Self.delete, extras(3, 40, flags: 1)) == 0)
        #expect(try meta()[0] == 1)
        #expect(try meta()[3...] == [3, 0, 40])
        #expect(client.ask(Ask.get("k")).map(\.status) == [1])
        #expect(try status(Self.delete, extras(3, 40)) == 2)
        #expect(try status(Self.delete, extras(4, 50, options: 0x10)) == 0)
    }

    @Test func quietRequestIsAnsweredOnlyIfItFails() throws {
        client.send(Ask.on(Self.setQuiet, "k", [1], extras: extras(5, 50)))
        client.send(Ask.on(Self.setQuiet, "k", [1], extras: extras(5, 50)))
        client.settle()
        #expect(client.replies().map(\.status) == [2])
    }

    // MARK: Attributes

    private static let whole = TestWorld.stored([("_s", "1"), ("u", "2")], body: "{}")

    @Test func versionWithAttributesIsStoredWhole() throws {
        #expect(try status(Self.set, extras(5, 50), Self.whole, datatype: 5) == 0)
        let found = try world.find("k")
        #expect(found == .init(isDeleted: false, datatype: [.json, .xattr], value: Self.whole))
        #expect(client.ask(Ask.get("k")).map(\.text) == ["{}"])
    }

    @Test func bodyOfVersionWithAttributesIsExaminedForJSON() throws {
        #expect(try status(Self.set, extras(5, 50), Self.whole, datatype: 4) == 0)
        #expect(try world.find("k")?.datatype == [.json, .xattr])
        let text = TestWorld.stored([("u", "2")], body: "text")
        #expect(try status(Self.set, extras(6, 60), text, datatype: 4) == 0)
        #expect(try world.find("k")?.datatype == .xattr)
    }

    @Test func versionWithEmptyAttributesHasNone() throws {
        #expect(
            try status(Self.set, extras(5, 50), big(UInt32(0)) + [0x7b, 0x7d], datatype: 4) == 0
        )
        let found = try world.find("k")
        #expect(found == .init(isDeleted: false, datatype: .json, value: [0x7b, 0x7d]))
    }

    /// A version of the largest size has room for system attributes beside its body.
    @Test func largestVersionHasSystemAttributesBesideIt() throws {
        func value(_ name: String, _ attributeBytes: Int, body: Int) -> [UInt8] {
            let text = "\"" + String(repeating: "s", count: attributeBytes - 2) + "\""
            return TestWorld.stored([(name, text)]) + [UInt8](repeating: 0x78, count: body)
        }
        let (most, half) = (Limits.valueBytesMax, 1 << 19)
        let largest = value("_s", half, body: most)
        #expect(try status(Self.set, extras(5, 50), largest, datatype: 4) == 0)
        #expect(try world.find("k")?.value == largest)
        for tooBig in [value("_s", half, body: most + 1), value("u", half, body: most)] {
            #expect(try status(Self.set, extras(6, 60), tooBig, datatype: 4) == 3)
        }
        let longer = value("_s", 3 << 20, body: most)
        #expect(try status(Self.set, extras(7, 70), longer, datatype: 4) == 3)
    }

    /// Three million attributes fit into a request.
    @Test func versionWithTooManyAttributesIsTooBig() throws {
        let most = (0..<Limits.xattrCountMax).map { (key: "a\($0)", value: "1") }
        #expect(try status(Self.set, extras(5, 50), TestWorld.stored(most), datatype: 4) == 0)
        let more = TestWorld.stored(most + [(key: "b", value: "1")])
        let refused = try one(Self.set, extras(6, 60), more, datatype: 4)
        #expect(refused.status == 3 && refused.text.contains("at most 8192 extended attributes"))
        // The same name again and again: the number is checked before the names.
        let same = TestWorld.stored(Array(repeating: (key: "a", value: ""), count: 100_000))
        #expect(try status(Self.set, extras(6, 60), same, datatype: 4) == 3)
        #expect(try world.find("k")?.value == TestWorld.stored(most))
    }

    @Test func malformedAttributesAreRefused() throws {
        let cut = Array(Self.whole.prefix(9))
        let twice = TestWorld.stored([("a", "1"), ("a", "2")])
        let long = TestWorld.stored([("a234567890123456", "1")])
        for value in [[], [0, 0], cut, twice, long] {
            #expect(try status(Self.set, extras(5, 50), value, datatype: 4) == 0x87)
        }
        #expect(client.ask(Ask.get("k")).map(\.status) == [1])
    }

    @Test func attributesNeedTheirAgreement() throws {
        let plain = world.client(of: "guests")
        let request = Ask.on(
            Self.set,
            "k",
            Self.whole,
            extras: extras(5, 50),
            datatype: 4
        )
        #expect(plain.ask(request).map(\.status) == [4])
    }

    @Test func deletionHasSystemAttributesAlone() throws {
        let system = TestWorld.stored([("_s", "1")])
        #expect(try status(Self.delete, extras(5, 50), Self.whole, datatype: 4) == 4)
        #expect(try status(Self.delete, extras(5, 50), [1]) == 4)
        #expect(try status(Self.delete, extras(5, 50), system, datatype: 4) == 0)
        #expect(try world.find("k") == .init(isDeleted: true, datatype: .xattr, value: system))
    }
}
