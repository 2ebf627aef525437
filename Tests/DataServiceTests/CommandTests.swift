import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// Every command with each of its answers, byte for byte where clients depend on bytes.
@Suite struct CommandTests {
    let world = TestWorld()
    let client: Client
    /// The extras of requests with flags 0 and no expiry.
    private static let plain = [UInt8](repeating: 0, count: 8)

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests")
    }

    private func one(_ request: [UInt8]) throws -> Reply {
        let replies = client.ask(request)
        try #require(replies.count == 1, "\(replies)")
        return replies[0]
    }

    private func status(_ request: [UInt8]) throws -> UInt16 { try one(request).status }

    private func on(
        _ opcode: Opcode,
        _ key: String,
        _ value: String = "",
        extras: [UInt8] = CommandTests.plain,
        cas: UInt64 = 0
    ) -> [UInt8] {
        Ask.on(opcode, key, Array(value.utf8), extras: extras, 0, cas)
    }

    @Test func setAndGetAnswersMatchByteForByte() throws {
        let set = try one(Ask.set("k", "{\"a\":1}", opaque: 0x0102_0304))
        #expect(set.extras.count == 16)
        #expect(set.extras.suffix(8) == big(UInt64(1))[...])
        #expect(set.cas != 0)
        #expect(set.value.isEmpty && set.key.isEmpty && set.datatype == 0)
        #expect(set.opaque == 0x0102_0304)
        client.send(Ask.get("k", opaque: 9))
        let header: [UInt8] = [0x81, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 11, 0, 0, 0, 9]
        #expect(client.received == header + big(set.cas) + [0, 0, 0, 7] + Array("{\"a\":1}".utf8))
        _ = client.replies()
    }

    @Test func datatypeIsSentOnlyToClientsThatAgreed() throws {
        #expect(try status(Ask.set("json", " {} ")) == 0)
        #expect(try status(Ask.set("text", "{]")) == 0)
        #expect(try one(Ask.get("json")).datatype == 1)
        #expect(try one(Ask.get("text")).datatype == 0)
        let old = world.client(of: "guests", features: [])
        #expect(old.ask(Ask.get("json")).map(\.datatype) == [0])
        let said = Ask.on(.set, "k", Array("1".utf8), extras: CommandTests.plain, datatype: 1)
        #expect(old.ask(said).map(\.status) == [4])
        #expect(try status(said) == 0)
        for datatype in [UInt8(2), 3, 4, 8, 255] {
            let wrong = Ask.on(.set, "k", [1], extras: CommandTests.plain, datatype: datatype)
            #expect(try status(wrong) == 4)
        }
    }

    @Test func datatypeThatWasNotAgreedOnIsRefusedWithoutAValueToo() throws {
        #expect(try status(Ask.set("k", "1")) == 0)
        for datatype in [UInt8(2), 4, 6, 8, 255] {
            for opcode in [UInt8(0x00), 0x04, 0x0a] {
                let request = Ask.on(opcode, opcode == 0x0a ? "" : "k", datatype: datatype)
                #expect(try status(request) == 4, "\(opcode)")
            }
        }
        #expect(try status(Ask.get("k")) == 0)
    }

    @Test func setAddAndReplaceRespectExistence() throws {
        #expect(try status(on(.replace, "k", "x")) == 1)
        #expect(try status(on(.add, "k", "x", cas: 5)) == 4)
        #expect(try status(on(.add, "k", "x")) == 0)
        #expect(try status(on(.add, "k", "x")) == 2)
        let cas = try one(on(.replace, "k", "y")).cas
        #expect(try status(on(.set, "k", "z", cas: cas + 1)) == 2)
        #expect(try status(on(.set, "k", "z", cas: cas)) == 0)
        #expect(try status(on(.set, "none", "z", cas: cas)) == 1)
        #expect(try status(on(.replace, "none", "z", cas: cas)) == 1)
        #expect(try one(Ask.get("k")).text == "z")
    }

    @Test func casOfKeyGrowsStrictly() throws {
        var last: UInt64 = 0
        for number in 0..<100 {
            let cas = try one(on(.set, "k", "\(number)")).cas
            #expect(cas > last)
            last = cas
        }
    }

    @Test func deleteChecksCASAndReturnsMutationToken() throws {
        #expect(try status(on(.delete, "k", extras: [])) == 1)
        let cas = try one(on(.set, "k", "x")).cas
        #expect(try status(on(.delete, "k", extras: [], cas: cas + 1)) == 2)
        let gone = try one(on(.delete, "k", extras: [], cas: cas))
        #expect(gone.status == 0 && gone.cas > cas && gone.extras.count == 16)
        #expect(try status(Ask.get("k")) == 1)
        #expect(try status(on(.delete, "k", extras: [])) == 1)
    }

    @Test func appendAndPrependUpdateDatatype() throws {
        #expect(try status(on(.append, "k", "x", extras: [])) == 5)
        #expect(try status(on(.prepend, "k", "x", extras: [])) == 5)
        let cas = try one(on(.set, "k", "[1")).cas
        #expect(try one(Ask.get("k")).datatype == 0)
        #expect(try status(on(.append, "k", ",2]", extras: [], cas: cas + 1)) == 2)
        #expect(try status(on(.append, "k", ",2]", extras: [], cas: cas)) == 0)
        #expect(try one(Ask.get("k")).text == "[1,2]")
        #expect(try one(Ask.get("k")).datatype == 1)
        #expect(try status(on(.prepend, "k", "x", extras: [])) == 0)
        #expect(try one(Ask.get("k")).text == "x[1,2]")
        #expect(try one(Ask.get("k")).datatype == 0)
    }

    @Test func appendBeyond20MiBIsTooBig() throws {
        let value = String(repeating: "x", count: (20 << 20) - 1)
        #expect(try status(on(.set, "k", value)) == 0)
        #expect(try status(on(.append, "k", "y", extras: [])) == 0)
        #expect(try status(on(.append, "k", "y", extras: [])) == 3)
        #expect(try status(on(.prepend, "k", "y", extras: [])) == 3)
    }

    @Test func counterAnswersHaveEightBytes() throws {
        #expect(try status(Ask.counter(0x05, "n", delta: 1, expiry: .max)) == 1)
        let made = try one(Ask.counter(0x05, "n", delta: 1, initial: 10))
        #expect(made.value == big(UInt64(10)) && made.extras.count == 16)
        #expect(try one(Ask.counter(0x05, "n", delta: 5)).value == big(UInt64(15)))
        #expect(try one(Ask.counter(0x06, "n", delta: 20)).value == big(UInt64(0)))
        #expect(try one(Ask.counter(0x05, "n", delta: .max)).value == big(UInt64.max))
        #expect(try one(Ask.counter(0x05, "n", delta: 3)).value == big(UInt64(2)))
        #expect(try one(Ask.get("n")).text == "2")
        #expect(try status(on(.set, "n", "no number")) == 0)
        #expect(try status(Ask.counter(0x05, "n", delta: 1)) == 6)
        #expect(try status(on(.set, "n", "18446744073709551616")) == 0)
        #expect(try status(Ask.counter(0x06, "n", delta: 1)) == 6)
        let old = world.client(of: "guests", features: [])
        #expect(old.ask(Ask.counter(0x05, "m", delta: 1, initial: 7)).map(\.value.count) == [8])
    }

    @Test func expiredDocumentIsNotFound() throws {
        #expect(try status(Ask.set("relative", "x", expiry: 10)) == 0)
        #expect(try status(Ask.set("absolute", "x", expiry: world.time.seconds + 10)) == 0)
        #expect(try status(Ask.set("past", "x", expiry: 2_592_001)) == 0)
        #expect(try status(Ask.set("never", "x")) == 0)
        #expect(try status(Ask.get("past")) == 1)
        world.pass(milliseconds: 9_000)
        #expect(try status(Ask.get("relative")) == 0)
        #expect(try status(Ask.get("absolute")) == 0)
        world.pass(milliseconds: 2_000)
        #expect(try status(Ask.get("relative")) == 1)
        #expect(try status(Ask.get("absolute")) == 1)
        #expect(try status(Ask.get("never")) == 0)
        #expect(try status(on(.add, "relative", "again")) == 0)
    }

    @Test func preserveExpiryKeepsExpiry() throws {
        #expect(try status(Ask.set("k", "x", expiry: 10)) == 0)
        let kept = Ask.on(.set, "k", [0x79], extras: CommandTests.plain, framing: [0x50])
        #expect(try status(kept) == 0)
        world.pass(milliseconds: 11_000)
        #expect(try status(Ask.get("k")) == 1)
    }

    @Test func touchAndGetAndTouchSetExpiry() throws {
        #expect(try status(on(.touch, "k", extras: big(UInt32(1)))) == 1)
        #expect(try status(on(.getAndTouch, "k", extras: big(UInt32(1)))) == 1)
        #expect(try status(Ask.set("k", "x", expiry: 5)) == 0)
        let read = try one(on(.getAndTouch, "k", extras: big(UInt32(100))))
        #expect(read.text == "x" && read.extras == big(UInt32(7)) && read.cas != 0)
        world.pass(milliseconds: 6_000)
        #expect(try status(on(.touch, "k", extras: big(UInt32(0)))) == 0)
        world.pass(milliseconds: 200_000)
        #expect(try status(Ask.get("k")) == 0)
    }

    @Test func lockRefusesChangesWithoutItsCAS() throws {
        #expect(try status(on(.getLocked, "k", extras: big(UInt32(5)))) == 1)
        #expect(try status(on(.unlock, "k", extras: [], cas: 5)) == 1)
        #expect(try status(on(.set, "k", "x")) == 0)
        #expect(try status(on(.unlock, "k", extras: [], cas: 5)) == 0x0e)
        #expect(try status(on(.unlock, "k", extras: [])) == 4)
        let lock = try one(on(.getLocked, "k", extras: big(UInt32(5))))
        #expect(lock.text == "x" && lock.extras == [0, 0, 0, 0])
        #expect(try one(Ask.get("k")).cas == .max)
        #expect(try status(on(.getLocked, "k", extras: big(UInt32(5)))) == 9)
        for opcode in [Opcode.set, .replace] { #expect(try status(on(opcode, "k", "y")) == 9) }
        #expect(try status(on(.delete, "k", extras: [])) == 9)
        #expect(try status(on(.append, "k", "y", extras: [])) == 9)
        #expect(try status(on(.touch, "k", extras: big(UInt32(9)))) == 9)
        #expect(try status(Ask.counter(0x05, "k", delta: 1)) == 9)
        #expect(try status(on(.unlock, "k", extras: [], cas: lock.cas + 1)) == 9)
        #expect(try status(on(.unlock, "k", extras: [], cas: lock.cas)) == 0)
        #expect(try status(on(.set, "k", "y")) == 0)
        // A write with the lock's CAS unlocks; so does the end of the lock's time.
        let second = try one(on(.getLocked, "k", extras: []))
        #expect(try status(on(.set, "k", "z", cas: second.cas)) == 0)
        #expect(try status(on(.getLocked, "k", extras: big(UInt32(31)))) == 0)
        world.pass(milliseconds: 14_000)
        #expect(try status(on(.set, "k", "y")) == 9)
        world.pass(milliseconds: 1_000)
        #expect(try status(on(.set, "k", "y")) == 0)
    }

    @Test func clientWithoutExtendedErrorsGetsBasicStatuses() throws {
        let old = world.client(of: "guests", features: [])
        #expect(try status(on(.set, "k", "x")) == 0)
        #expect(old.ask(on(.unlock, "k", extras: [], cas: 5)).map(\.status) == [0x86])
        #expect(try status(on(.getLocked, "k", extras: [])) == 0)
        let refused = old.ask(on(.set, "k", "y"))
        #expect(refused.map(\.status) == [0x86])
        #expect(refused.map(\.value) == [[]])
    }

    @Test func getMetaReturnsMetadataInBothVersions() throws {
        #expect(try status(on(.getMeta, "k", extras: [2])) == 1)
        let cas = try one(Ask.set("k", "{}", expiry: world.time.seconds + 99)).cas
        let meta = try one(on(.getMeta, "k", extras: [2]))
        let expected =
            big(UInt32(0)) + big(UInt32(7)) + big(world.time.seconds + 99) + big(UInt64(1)) + [1]
        #expect(meta.extras == expected && meta.cas == cas)
        #expect(try one(on(.getMeta, "k", extras: [])).extras == expected.dropLast())
        #expect(try status(on(.getMeta, "k", extras: [3])) == 4)
        #expect(try status(on(.delete, "k", extras: [])) == 0)
        #expect(try one(on(.getMeta, "k", extras: [])).extras.prefix(4) == [0, 0, 0, 1])
    }

    @Test func quietCommandsAnswerOnlyUnexpectedOutcomes() throws {
        let silent = [
            on(.getQuiet, "none", extras: []), on(.getKeyQuiet, "none", extras: []),
            on(.setQuiet, "a", "1"), on(.addQuiet, "b", "1"), on(.replaceQuiet, "a", "2"),
            on(.appendQuiet, "a", "3", extras: []),
            on(.prependQuiet, "a", "4", extras: []), Ask.counter(0x15, "b", delta: 1),
            Ask.counter(0x16, "b", delta: 1), on(.getAndTouchQuiet, "none", extras: big(UInt32(0))),
            on(.deleteQuiet, "a", extras: []),
        ]
        for request in silent { #expect(client.ask(request).isEmpty, "\(request[1])") }
        let loud: [([UInt8], UInt16)] = [
            (on(.getQuiet, "b", extras: []), 0), (on(.getKeyQuiet, "b", extras: []), 0),
            (on(.addQuiet, "b", "1"), 2), (on(.replaceQuiet, "none", "1"), 1),
            (on(.deleteQuiet, "none", extras: []), 1),
            (on(.appendQuiet, "none", "1", extras: []), 5),
            (Ask.counter(0x15, "n", delta: 1, expiry: .max), 1),
            (on(.getAndTouchQuiet, "b", extras: big(UInt32(9))), 0),
        ]
        for (request, status) in loud { #expect(try self.status(request) == status) }
        #expect(try one(on(.getKeyQuiet, "b", extras: [])).key == Array("b".utf8))
    }

    @Test func requestsWithWrongLengthsAreInvalid() throws {
        #expect(try status(Ask.on(.get, "", [])) == 4)
        #expect(try status(Ask.on(.get, "k", [1])) == 4)
        #expect(try status(Ask.on(.get, "k", extras: [0, 0, 0, 0])) == 4)
        #expect(try status(Ask.on(.set, "k", [1])) == 4)
        #expect(try status(Ask.on(.delete, "k", [1])) == 4)
        #expect(try status(Ask.on(.increment, "k", extras: CommandTests.plain)) == 4)
        #expect(try status(Ask.on(.get, String(repeating: "k", count: 250))) == 1)
        #expect(try status(Ask.on(.get, String(repeating: "k", count: 251))) == 4)
    }

    @Test func unknownVBucketNumbersAreNotMyVBucket() throws {
        let key = Array("k".utf8)
        let config = Array("{\"rev\":1}".utf8)
        #expect(try status(frame(.get, key: key, vBucket: 64)) == 7)
        world.service.publish(
            .init(epoch: 1, revision: 1, json: config),
            ofBucket: "guests"
        )
        let reply = try one(frame(.get, key: key, vBucket: 1_023))
        #expect(reply.status == 7 && reply.value == config && reply.datatype == 1)
        let observed = try one(frame(.observeSeqno, value: big(UInt64(0)), vBucket: 64))
        #expect(observed.status == 7)
    }

    @Test func unknownFramingExtrasAndImpossibleDurabilityAreRefused() throws {
        func framed(_ framing: [UInt8], _ opcode: UInt8 = 0x01) -> [UInt8] {
            Ask.on(opcode, "k", extras: opcode == 1 ? CommandTests.plain : [], framing: framing)
        }
        #expect(try status(framed([0x60])) == 0x80)
        #expect(try status(framed([0xf0, 0x00])) == 0x80)
        // A single copy is a majority of one.
        #expect(try status(framed([0x11, 0x01])) == 0)
        #expect(try status(framed([0x13, 0x01, 0x07, 0xd0])) == 0)
        #expect(try status(Ask.on(.delete, "k")) == 0)
        #expect(try status(framed([0x11, 0x02])) == 0xa0)  // An ephemeral bucket has no disk.
        #expect(try status(framed([0x11, 0x07])) == 0xa0)
        #expect(try status(framed([0x13, 0x01, 0x00, 0x00])) == 4)
        #expect(try status(framed([0x11, 0x01], 0x00)) == 4)
        #expect(try status(framed([0x15, 0x01])) == 4)
        #expect(try status(framed([0x41, 0x61])) == 0x83)
        #expect(try status(Ask.get("k")) == 1)
    }

    /// A node that was removed from its cluster redirects clients to other nodes.
    ///
    /// If the bucket was deleted, there is no other node.
    @Test func bucketThatMovedAwayAnswersNotMyVBucket() throws {
        world.service.giveUp("guests")
        try world.service.delete("guests")
        #expect(try status(Ask.get("k")) == 7)
        #expect(try status(Ask.set("k", "v")) == 7)
        #expect(try status(frame(.observeSeqno, value: big(UInt64(0)))) == 7)
        #expect(try status(frame(.getAllVBucketSeqnos)) == 8)
        try world.service.open(TestWorld.settings("guests", .ephemeral))
        let other = world.client(of: "guests")
        #expect(other.ask(Ask.get("k")).map(\.status) == [1])
        try world.service.delete("guests")
        #expect(other.ask(Ask.get("k")).map(\.status) == [8])
    }

    @Test func unimplementedCommandsAreUnknown() throws {
        for opcode in [
            UInt8(0x3d), 0x57, 0x41, 0xf0, 0xf1, 0xbb, 0xda,
        ] {
            #expect(try status(frame(opcode)) == 0x81, "\(opcode)")
        }
    }

    @Test func fullMemoryRefusesWritesTemporarily() throws {
        try world.service.open(TestWorld.settings("small", quota: 400_000))
        let client = world.client(of: "small")
        let value = String(repeating: "x", count: 10_000)
        var refused = 0
        for number in 0..<100 {
            refused += client.ask(Ask.set("key\(number)", value)).map(\.status) == [0x86] ? 1 : 0
        }
        let bucket = try #require(world.service.bucket(named: "small"))
        #expect(refused > 50)
        #expect(bucket.engine.account.bytes <= 400_000)
        #expect(client.ask(Ask.get("key0")).map(\.text) == [value])
        #expect(client.ask(Ask.on(.delete, "key0")).map(\.status) == [0])
        #expect(client.ask(Ask.set("key0", "small")).map(\.status) == [0])
    }
}
