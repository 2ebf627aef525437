import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary

/// Values that clients compress with snappy (HELLO 0x0a), and answers that are compressed for them.
@Suite struct SnappyTests {
    private static let snappy: UInt16 = 0x0a
    private static let plainExtras = [UInt8](repeating: 0, count: 8)
    private static let document =
        "[" + (0..<1_000).map { #"{"number":\#($0)}"# }.joined(separator: ",") + "]"

    private let world = TestWorld()
    private let client: Client
    private let plain: Client

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests", features: Features.usual + [Self.snappy])
        plain = world.client(of: "guests")
    }

    private func pack(_ bytes: [UInt8]) -> [UInt8] {
        let packed = ByteWriter()
        bytes.withUnsafeBytes { _ = Snappy.compress(ByteView($0), to: packed) }
        return packed.bytes
    }

    private func unpack(_ bytes: [UInt8]) -> [UInt8]? {
        bytes.withUnsafeBytes { bytes in
            let (view, whole) = (ByteView(bytes), ByteWriter())
            guard let count = Snappy.rawCount(of: view),
                Snappy.decompress(view, rawCount: count, to: whole)
            else { return nil }
            return whole.bytes
        }
    }

    private func set(_ value: [UInt8], datatype: UInt8, _ opcode: UInt8 = 0x01) -> [UInt8] {
        let extras = opcode == 0x0e ? [] : Self.plainExtras
        return Ask.on(opcode, "k", value, extras: extras, datatype: datatype)
    }

    // MARK: Requests

    @Test func compressedValueIsStoredInflated() throws {
        let value = pack(Array(Self.document.utf8))
        for datatype in [UInt8(2), 3] {
            #expect(client.ask(set(value, datatype: datatype)).map(\.status) == [0])
            let reply = try #require(plain.ask(Ask.get("k")).first)
            #expect(reply.text == Self.document && reply.datatype == 1)
        }
        #expect(try world.find("k")?.datatype == .json)
    }

    @Test func compressedBytesAreAppendedInflated() throws {
        #expect(client.ask(set(Array("a".utf8), datatype: 0)).map(\.status) == [0])
        #expect(client.ask(set(pack(Array("bcd".utf8)), datatype: 2, 0x0e)).map(\.status) == [0])
        #expect(plain.ask(Ask.get("k")).map(\.text) == ["abcd"])
    }

    @Test func requestsBehindCompressedOneAreExecuted() throws {
        let value = pack(Array(Self.document.utf8))
        client.send(set(value, datatype: 2) + Ask.get("none", opaque: 7) + set([1], datatype: 0))
        #expect(client.replies().map(\.status) == [0, 1, 0])
        #expect(plain.ask(Ask.get("k")).map(\.value) == [[1]])
    }

    @Test func compressedValueNeedsItsAgreement() {
        let value = pack(Array(Self.document.utf8))
        #expect(plain.ask(set(value, datatype: 2)).map(\.status) == [4])
        #expect(plain.ask(set(value, datatype: 3)).map(\.status) == [4])
        #expect(plain.ask(Ask.get("k")).map(\.status) == [1])
    }

    @Test func damagedValueIsRefused() {
        let value = pack(Array(Self.document.utf8))
        let cut = Array(value.prefix(value.count / 2))
        let another: [UInt8] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        for wrong in [[], cut, another, [5], Array(Self.document.utf8)] {
            #expect(client.ask(set(wrong, datatype: 2)).map(\.status) == [4])
        }
        #expect(plain.ask(Ask.get("k")).map(\.status) == [1])
    }

    @Test func valueWithStatedLengthAboveLimitIsTooBig() {
        // 20 MiB and one byte, as a number of seven bits each.
        let length: [UInt8] = [0x81, 0x80, 0x80, 0x0a]
        #expect(client.ask(set(length + [0, 0], datatype: 2)).map(\.status) == [3])
        #expect(plain.ask(Ask.get("k")).map(\.status) == [1])
    }

    @Test func largestValueIsInflated() throws {
        let value = [UInt8](repeating: 0x61, count: Limits.valueBytesMax)
        #expect(client.ask(set(pack(value), datatype: 2)).map(\.status) == [0])
        #expect(try world.find("k")?.value?.count == Limits.valueBytesMax)
        let larger = pack(value + [0x61])
        #expect(client.ask(set(larger, datatype: 2)).map(\.status) == [3])
    }

    // MARK: Answers

    @Test func largeAnswerIsCompressedForClientThatAgreed() throws {
        _ = client.ask(set(Array(Self.document.utf8), datatype: 0))
        let cas = try #require(plain.ask(Ask.get("k")).first).cas
        for opcode in [UInt8(0x00), 0x0c] {
            let reply = try #require(client.ask(Ask.on(opcode, "k")).first)
            #expect(reply.datatype == 3 && reply.cas == cas && reply.extras.count == 4)
            #expect(reply.key == (opcode == 0 ? [] : Array("k".utf8)))
            #expect(reply.value.count < Self.document.utf8.count / 2)
            #expect(unpack(reply.value) == Array(Self.document.utf8))
        }
    }

    @Test func compressedAnswerKeepsItsDuration() throws {
        let features = Features.usual + [Self.snappy, Features.tracing]
        let traced = world.client(of: "guests", features: features)
        _ = client.ask(set(Array(Self.document.utf8), datatype: 0))
        let reply = try #require(traced.ask(Ask.get("k")).first)
        #expect(reply.framing.count == 3 && reply.datatype == 3)
        #expect(unpack(reply.value) == Array(Self.document.utf8))
    }

    @Test func answerIsPlainIfCompressionSavesLittle() throws {
        var state: UInt64 = 1
        let noise = (0..<10_000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 56)
        }
        let large = [UInt8](repeating: 0x61, count: 1 << 20)
        for value in [Array("{}".utf8), [UInt8](repeating: 0x61, count: 4_095), noise, large] {
            _ = client.ask(set(value, datatype: 0))
            let reply = try #require(client.ask(Ask.get("k")).first)
            #expect(reply.value == value && reply.datatype & 2 == 0)
        }
    }

    @Test func mapInRefusalIsPlain() throws {
        let map = Array(Self.document.utf8)
        world.service.publish(.init(epoch: 1, revision: 1, json: map), ofBucket: "guests")
        let elsewhere = frame(0x00, key: Array("k".utf8), vBucket: 64)
        let reply = try #require(client.ask(elsewhere).first)
        #expect(reply.status == 7 && reply.datatype == 1 && reply.value == map)
    }

    @Test func answersInPipelineAreCompressedOneByOne() throws {
        _ = client.ask(set(Array(Self.document.utf8), datatype: 0))
        client.send(Ask.get("k", opaque: 1) + Ask.get("none", opaque: 2) + Ask.get("k", opaque: 3))
        let replies = client.replies()
        #expect(replies.map(\.opaque) == [1, 2, 3])
        #expect(replies.map(\.datatype) == [3, 0, 3])
        #expect(
            replies.filter { $0.status == 0 }.allSatisfy {
                unpack($0.value) == Array(Self.document.utf8)
            }
        )
    }

    // MARK: DCP

    @Test func streamIsCompressedAfterItsControl() throws {
        _ = client.ask(set(Array(Self.document.utf8), datatype: 0))
        let number = VBucketID(ofKey: Array("k".utf8), count: 64).number
        let zeros = [UInt8](repeating: 0, count: 24)
        let request = frame(
            0x53,
            extras: zeros.prefix(16) + big(UInt64.max) + zeros,
            vBucket: number,
            opaque: 7
        )
        let opening = frame(0x50, key: Array("s".utf8), extras: big(UInt32(0)) + big(UInt32(1)))
        let name = Array("force_value_compression".utf8)
        let control = frame(0x5e, key: name, value: Array("true".utf8))
        let reader = world.client(of: "guests", features: Features.usual + [Self.snappy])
        #expect(reader.ask(opening + control).map(\.status) == [0, 0])
        reader.send(request)
        reader.settle()
        let change = try #require(reader.messages().first { $0.opcode == 0x57 })
        #expect(change.datatype == 3 && change.key == Array("k".utf8))
        #expect(unpack(change.value) == Array(Self.document.utf8))
        let refused = plain.ask(opening + control).map(\.status)
        #expect(refused == [0, 4])
    }
}
