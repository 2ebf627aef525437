import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Sub-document commands over a connection: dispatch, waits, large documents, durability, answers.
@Suite struct SubDocumentCommandTests {
    static let features = Features.usual + [0x06, 0x11, 0x15, 0x17, 0x1c]
    let world = TestWorld()

    private func open(_ type: BucketType = .ephemeral) throws -> Client {
        try world.service.open(TestWorld.settings("guests", type))
        return world.client(of: "guests", features: Self.features)
    }

    // MARK: Requests

    private static func lookUp(_ key: String, flags: UInt8 = 0, _ paths: [UInt8]...) -> [UInt8] {
        Ask.on(0xd0, key, paths.flatMap { $0 }, extras: flags == 0 ? [] : [flags])
    }

    private static func mutate(
        _ key: String,
        flags: UInt8 = 0,
        cas: UInt64 = 0,
        framing: [UInt8]? = nil,
        _ paths: [UInt8]...
    ) -> [UInt8] {
        let extras = flags == 0 ? [] : [flags]
        return Ask.on(0xd1, key, paths.flatMap { $0 }, extras: extras, 0, cas, framing: framing)
    }

    private func one(_ client: Client, _ request: [UInt8]) throws -> Reply {
        let replies = client.ask(request)
        try #require(replies.count == 1, "\(replies)")
        return replies[0]
    }

    // MARK: Answers

    @Test func singleCommandsReadAndChangeADocument() throws {
        let client = try open()
        let set = try one(client, Ask.set("k", #"{"a":1,"l":[]}"#))
        let get = try one(client, Ask.on(0xc5, "k", Array("a".utf8), extras: [0, 1, 0]))
        #expect(get.status == 0 && get.text == "1" && get.cas == set.cas)
        let count = try one(client, Ask.on(0xcf, "k", Array("a41".utf8), extras: [0, 1, 0]))
        #expect(count.status == 0 && count.text == "42" && count.extras.count == 16)
        #expect(count.cas > set.cas)
        let push = Ask.on(0xcb, "k", Array("l7".utf8), extras: [0, 1, 0])
        #expect(try one(client, push).value.isEmpty)
        #expect(try one(client, Ask.get("k")).text == #"{"a":42,"l":[7]}"#)
        let missing = try one(client, Ask.on(0xc5, "k", Array("x".utf8), extras: [0, 1, 0]))
        #expect(missing.status == 0xc0 && missing.value == [])
        let none = try one(client, Ask.on(0xc5, "none", Array("x".utf8), extras: [0, 1, 0]))
        #expect(none.status == 1)
    }

    @Test func multiCommandsAnswerInTheFormsOfTheProtocol() throws {
        let client = try open()
        let made = try one(
            client,
            Self.mutate(
                "k",
                flags: 2,
                Ask.path(0xc8, 0x04, "_sync", #"{"rev":"1"}"#),
                Ask.path(0x01, 0, "", #"{"n":1}"#)
            )
        )
        #expect(made.status == 0 && made.value == [] && made.extras.count == 16)
        let read = try one(
            client,
            Self.lookUp(
                "k",
                Ask.path(0xc5, 0x04, "_sync.rev"),
                Ask.path(0xc5, 0x04, "$document.CAS"),
                Ask.path(0xc5, 0, "x"),
                Ask.path(0x00, 0, "")
            )
        )
        let digits = String(made.cas, radix: 16)
        let cas = String(repeating: "0", count: 16 - digits.count) + digits
        #expect(read.status == 0xcc && read.cas == made.cas)
        #expect(read.lookupResults == [#""1""#, "\"0x\(cas)\"", "c0", #"{"n":1}"#])
        let failed = try one(
            client,
            Self.mutate(
                "k",
                Ask.path(0xc8, 0, "a", "1"),
                Ask.path(0xc7, 0, "n", "1")
            )
        )
        #expect(failed.status == 0xcc && failed.value == [1, 0, 0xc9] && failed.cas == 0)
        #expect(failed.extras.isEmpty)
        #expect(try one(client, Ask.get("k")).text == #"{"n":1}"#)
    }

    /// Sync Gateway compares the text with the CAS of the change.
    @Test func macrosHaveTheCASAndTheSeqnoOfTheAnswer() throws {
        let client = try open()
        let made = try one(
            client,
            Self.mutate(
                "k",
                flags: 1,
                Ask.path(0xc8, 0x14, "cas", #""${Mutation.CAS}""#),
                Ask.path(0xc8, 0x14, "seqno", #""${Mutation.seqno}""#),
                Ask.path(0xc8, 0x14, "sum", #""${Mutation.value_crc32c}""#),
                Ask.path(0x01, 0, "", "123456789")
            )
        )
        func text(_ bytes: [UInt8]) -> String {
            "\"0x" + bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
                + "\""
        }
        let read = try one(
            client,
            Self.lookUp(
                "k",
                Ask.path(0xc5, 0x04, "cas"),
                Ask.path(0xc5, 0x04, "seqno"),
                Ask.path(0xc5, 0x04, "sum")
            )
        )
        #expect(
            read.lookupResults == [
                text(big(made.cas).reversed()), text(Array(made.extras.suffix(8))),
                #""0xe3069283""#,
            ]
        )
    }

    @Test func tombstoneIsAccessedOnlyOnRequest() throws {
        let client = try open()
        let attribute = Ask.path(0xc8, 0x04, "_sync", "1")
        _ = try one(client, Self.mutate("k", flags: 1, attribute))
        let deleted = try one(client, Self.mutate("k", Ask.path(0x04, 0, "", "")))
        #expect(deleted.status == 0)
        let path = Ask.path(0xc5, 0x04, "_sync")
        #expect(try one(client, Self.lookUp("k", path)).status == 1)
        let read = try one(client, Self.lookUp("k", flags: 4, path, Ask.path(0x00, 0, "")))
        #expect(read.status == 0xd3 && read.cas == deleted.cas)
        #expect(read.lookupResults == ["1", "c0"])
        #expect(try one(client, Self.lookUp("k", flags: 4, path)).status == 0xcd)
        let changed = try one(
            client,
            Self.mutate("k", flags: 4, cas: deleted.cas, Ask.path(0xc8, 0x04, "_sync", "2"))
        )
        #expect(changed.status == 0xcd)
        let stale = Self.mutate("k", flags: 4, cas: deleted.cas, attribute)
        #expect(try one(client, stale).status == 2)
        let failed = try one(
            client,
            Self.mutate("k", flags: 4, Ask.path(0xca, 0x04, "none", "1"))
        )
        #expect(failed.status == 0xcc && failed.value == [0, 0, 0xc0])
        // A document that is added on a tombstone has none of its attributes.
        _ = try one(client, Self.mutate("k", flags: 2, Ask.path(0x01, 0, "", "{}")))
        #expect(try one(client, Self.lookUp("k", path)).lookupResults == ["c0"])
        // A document that may be made is made whatever the CAS is.
        let gone = try one(client, Ask.on(0x04, "k"))
        #expect(try one(client, Self.mutate("k", cas: gone.cas, attribute)).status == 1)
        let made = try one(client, Self.mutate("k", flags: 1, cas: gone.cas, attribute))
        #expect(made.status == 0)
    }

    /// Small ones are read under the lock, and large ones on another lane.
    @Test(arguments: [false, true])
    func lookupMayNameTheVersion(isLarge: Bool) throws {
        let client = try open()
        let document = isLarge ? Self.largeDocument(1) : #"{"n":1}"#
        let set = try one(client, Ask.set("k", document))
        let path = Ask.path(0xc5, 0, "n")
        func status(cas: UInt64) throws -> UInt16 {
            try one(client, Ask.on(0xd0, "k", path, extras: [], 0, cas)).status
        }
        #expect(try status(cas: set.cas) == 0)
        #expect(try status(cas: set.cas + 1) == 2)
    }

    @Test func subDocumentRequestWithDatatypeIsInvalid() throws {
        let client = try open()
        _ = try one(client, Ask.set("k", #"{"n":1}"#))
        for (opcode, path) in [
            (0xd0, Ask.path(0xc5, 0, "n")), (0xd1, Ask.path(0xc8, 0, "n", "2")),
        ] as [(UInt8, [UInt8])] {
            let request = Ask.on(opcode, "k", path, extras: [], 0, datatype: 1)
            #expect(try one(client, request).status == 4)
        }
    }

    /// As transactions stage an insert over a document that was deleted, and commit it.
    @Test(arguments: [BucketType.persistent, .ephemeral])
    func tombstoneIsStagedByItsCASAndRevived(_ type: BucketType) throws {
        let client = try open(type)
        _ = try one(client, Ask.set("k", "{}"))
        let gone = try one(client, Ask.on(0x04, "k"))
        let stage = [Ask.path(0xc8, 0x04, "txn", #"{"op":{"stgd":{"a":1}}}"#)]
        let creates: UInt8 = 0x0c
        let added = Ask.on(0xd1, "k", stage.flatMap { $0 }, extras: [creates | 2])
        #expect(try one(client, added).status == 2)
        let staged = try one(client, Self.mutate("k", flags: creates, cas: gone.cas, stage[0]))
        #expect(staged.status == 0xcd)
        let stale = Self.mutate("k", flags: creates, cas: gone.cas, stage[0])
        #expect(try one(client, stale).status == 2)
        #expect(try one(client, Self.mutate("none", flags: creates, stage[0])).status == 1)
        let committed = try one(
            client,
            Self.mutate(
                "k",
                flags: 0x14,
                cas: staged.cas,
                Ask.path(0xd3, 0x04, "txn.op.stgd", ""),
                Ask.path(0xc9, 0x04, "txn", "")
            )
        )
        #expect(committed.status == 0)
        #expect(try one(client, Ask.get("k")).text == #"{"a":1}"#)
    }

    @Test func attributesNeedTheFeatureAndTheBodyDoesNot() throws {
        _ = try open()
        let old = world.client(of: "guests", features: Features.usual)
        #expect(try one(old, Ask.set("k", #"{"a":1}"#)).status == 0)
        let lookup = Self.lookUp("k", Ask.path(0xc5, 0x04, "_sync"))
        #expect(try one(old, lookup).status == 0x83)
        let mutation = Self.mutate("k", Ask.path(0xc8, 0x04, "_sync", "1"))
        #expect(try one(old, mutation).status == 0x83)
        let virtual = Self.lookUp("k", Ask.path(0xc5, 0x04, "$document.CAS"))
        #expect(try one(old, virtual).status == 0x83)
        #expect(try one(old, Self.lookUp("k", Ask.path(0xc5, 0, "a"))).lookupResults == ["1"])
    }

    // MARK: HELLO

    /// sync-gateway-mount.md 1, traps 1 and 2: gateways look for 0x06 in the first two features.
    @Test func helloAnswersInTheOrderOfTheRequestWithoutDatatype() throws {
        _ = try open()
        let client = Client(world)
        #expect(client.ask(Ask.hello([0x01, 0x07, 0x06])).first?.value == [0, 7, 0, 6])
        let asked: [UInt16] = [0x21, 0x06, 0x02, 0x20, 0x19, 0x18, 0x17, 0x15, 0x1c]
        let agreed = asked.filter { $0 != 0x02 }.flatMap { big($0) }
        #expect(client.ask(Ask.hello(asked)).first?.value == agreed)
    }

    // MARK: Counters

    @Test func lookupsCountAsReadsAndMutationsAsWrites() throws {
        let client = try open()
        let counters = try #require(world.service.bucket(named: "guests")).counters
        _ = try one(client, Ask.set("k", #"{"a":1}"#))
        let (gets, sets) = (counters.total(.gets), counters.total(.sets))
        _ = try one(client, Self.lookUp("k", Ask.path(0xc5, 0, "a")))
        _ = try one(client, Self.mutate("k", Ask.path(0xc8, 0, "a", "2")))
        #expect(counters.total(.gets) == gets + 1)
        #expect(counters.total(.sets) == sets + 1)
        _ = try one(client, Self.mutate("k", Ask.path(0xc7, 0, "a", "2")))
        #expect(counters.total(.sets) == sets + 1)
    }

    // MARK: Large documents, disk, durability

    private static func largeDocument(_ number: Int) -> String {
        let filler = String(repeating: "x", count: Limits.lockedTransformBytesMax)
        return "{\"filler\":\"\(filler)\",\"n\":\(number)}"
    }

    @Test func largeDocumentIsReadAndChangedOnAnotherLane() throws {
        let client = try open()
        _ = try one(client, Ask.set("k", Self.largeDocument(1)))
        let path = Ask.path(0xc5, 0, "n")
        #expect(try one(client, Self.lookUp("k", path)).lookupResults == ["1"])
        let changed = try one(client, Self.mutate("k", Ask.path(0xcf, 0, "n", "4")))
        #expect(changed.status == 0 && changed.extras.count == 16)
        #expect(changed.value == [0, 0, 0, 0, 0, 0, 1] + Array("5".utf8))
        let failed = try one(client, Self.mutate("k", Ask.path(0xc7, 0, "n", "4")))
        #expect(failed.status == 0xcc && failed.value == [0, 0, 0xc9])
        #expect(try one(client, Ask.get("k")).text == Self.largeDocument(5))
        let macro = Ask.path(0xc8, 0x14, "cas", #""${Mutation.CAS}""#)
        let stored = try one(client, Self.mutate("k", cas: changed.cas, macro))
        let read = try one(client, Self.lookUp("k", Ask.path(0xc5, 0x04, "cas"), path))
        let digits = big(stored.cas).reversed().map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        #expect(read.lookupResults == ["\"0x" + digits.joined() + "\"", "5"])
        #expect(try one(client, Self.mutate("k", cas: changed.cas, macro)).status == 2)
    }

    @Test func largeRequestMakesAMissingDocumentOnAnotherLane() throws {
        let client = try open()
        let filler = "\"" + String(repeating: "x", count: Limits.lockedTransformBytesMax) + "\""
        let large = Ask.path(0xc8, 0, "filler", filler)
        let count = Ask.path(0xcf, 0, "n", "5")
        #expect(try one(client, Self.mutate("k", large, count)).status == 1)
        let made = try one(client, Self.mutate("k", flags: 0x02, large, count))
        #expect(made.status == 0 && made.extras.count == 16)
        #expect(made.value == [1, 0, 0, 0, 0, 0, 1] + Array("5".utf8))
        #expect(try one(client, Ask.get("k")).text == "{\"filler\":\(filler),\"n\":5}")
        #expect(try one(client, Self.mutate("k", flags: 0x02, large)).status == 2)
        let failed = try one(
            client,
            Self.mutate("k2", flags: 0x02, large, count, count, Ask.path(0xca, 0, "x", "1"))
        )
        #expect(failed.status == 0xcc && failed.value == [3, 0, 0xc0])
        #expect(try one(client, Ask.get("k2")).status == 1)
    }

    @Test func largeRequestMakesATombstoneOnceOnAnotherLane() throws {
        let client = try open()
        let text = "\"" + String(repeating: "x", count: Limits.lockedTransformBytesMax) + "\""
        let attribute = Ask.path(0xc8, 0x04, "u", text)
        #expect(try one(client, Self.mutate("k", flags: 0x0e, attribute)).status == 0xcd)
        #expect(try one(client, Self.mutate("k", flags: 0x0e, attribute)).status == 2)
        let read = Self.lookUp("k", flags: 0x04, Ask.path(0xc5, 0x04, "u"))
        #expect(try one(client, read).lookupResults == [text])
        #expect(try one(client, Self.mutate("k", flags: 0x02, attribute)).status == 0)
        #expect(try one(client, Ask.get("k")).text == "{}")
    }

    @Test func largeDocumentOfAVBucketThatIsNotItsKeysIsFound() throws {
        let client = try open()
        func on(_ opcode: UInt8, _ value: [UInt8], extras: [UInt8] = []) -> [UInt8] {
            let other = (VBucketID(ofKey: Array("k".utf8), count: 64).number + 1) % 64
            return frame(
                opcode,
                key: Array("k".utf8),
                value: value,
                extras: extras,
                vBucket: other
            )
        }
        let document = Array(Self.largeDocument(1).utf8)
        _ = try one(client, on(0x01, document, extras: [UInt8](repeating: 0, count: 8)))
        #expect(try one(client, on(0xd1, Ask.path(0xcf, 0, "n", "4"))).status == 0)
        #expect(try one(client, on(0xd0, Ask.path(0xc5, 0, "n"))).lookupResults == ["5"])
        #expect(try one(client, Ask.get("k")).status == 1)
    }

    @Test func ejectedValueIsFetchedForLookupsAndMutations() throws {
        let client = try open(.persistent)
        let attribute = Ask.path(0xc8, 0x04, "_sync", "1")
        let body = Ask.path(0x01, 0, "", #"{"a":1}"#)
        _ = try one(client, Self.mutate("k", flags: 1, attribute, body))
        world.settle()
        world.ejectEverything()
        let paths = Ask.path(0xc5, 0x04, "_sync") + Ask.path(0xc5, 0, "a")
        #expect(try one(client, Self.lookUp("k", paths)).lookupResults == ["1", "1"])
        world.ejectEverything()
        #expect(try one(client, Self.mutate("k", Ask.path(0xcf, 0, "a", "1"))).status == 0)
        #expect(try one(client, Self.lookUp("k", paths)).lookupResults == ["1", "2"])
    }

    @Test func durableMutationOnOneNodeHasItsResults() throws {
        let client = try open()
        _ = try one(client, Ask.set("k", #"{"n":1}"#))
        let counter = Self.mutate("k", framing: [0x11, 0x01], Ask.path(0xcf, 0, "n", "1"))
        let stored = try one(client, counter)
        #expect(stored.status == 0 && stored.extras.count == 16)
        #expect(stored.value == [0, 0, 0, 0, 0, 0, 1] + Array("2".utf8))
        // The bucket has no disk.
        let persistent = Self.mutate("k", framing: [0x11, 0x03], Ask.path(0xcf, 0, "n", "1"))
        #expect(try one(client, persistent).status == 0xa0)
    }

    @Test func lockedDocumentIsReadAndNotChanged() throws {
        let client = try open()
        _ = try one(client, Ask.set("k", #"{"a":1}"#))
        let locked = try one(client, Ask.on(0x94, "k"))
        let read = try one(client, Self.lookUp("k", Ask.path(0xc5, 0, "a")))
        #expect(read.status == 0 && read.cas == UInt64.max)
        let change = Ask.path(0xc8, 0, "a", "2")
        #expect(try one(client, Self.mutate("k", change)).status == 9)
        #expect(try one(client, Self.mutate("k", cas: locked.cas, change)).status == 0)
    }

    @Test func vBucketElsewhereIsAnsweredWithNotMyVBucket() throws {
        let client = try open()
        let request = frame(
            0xd0,
            key: Array("k".utf8),
            value: Ask.path(0xc5, 0, "a"),
            vBucket: 64
        )
        #expect(try one(client, request).status == 7)
    }
}
