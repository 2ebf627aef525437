import Bytes
import Testing
import Vocabulary
import Wire

@Suite struct FrameTests {
    /// SET "hello" = {"a":1}, flags 0x02000006, expiry 60, vBucket 528, datatype JSON.
    let set = hex(
        """
        80 01 0005 08 01 0210 00000014 deadbeef 0000000000000007
        02000006 0000003c 68656c6c6f 7b2261223a317d
        """
    )

    /// DELETE "k" with durability majority, a timeout of 1500 ms, and the expiry preserved.
    let flexible = hex(
        """
        08 04 05 01 00 00 0001 00000006 00000001 0000000000000000
        13 01 05dc 50 6b
        """
    )

    private func frame(_ view: ByteView, decoder: FrameDecoder = FrameDecoder()) throws -> Frame {
        guard case .frame(let frame) = decoder.next(in: view) else {
            Issue.record("no frame: \(decoder.next(in: view))")
            throw CancellationError()
        }
        return frame
    }

    @Test func plainRequestIsDecoded() throws {
        try set.withView { view in
            let frame = try frame(view)
            #expect(frame.opcode == .set)
            #expect(frame.header.magic == .request)
            #expect(frame.header.isRequest)
            #expect(frame.datatype == .json)
            #expect(frame.vBucket == VBucketID(528))
            #expect(frame.opaque == 0xdead_beef)
            #expect(frame.cas == CAS(7))
            #expect(frame.framing.isEmpty)
            #expect(frame.extras.bytes == hex("02000006 0000003c"))
            #expect(frame.key.text == "hello")
            #expect(frame.value.text == #"{"a":1}"#)
            #expect(frame.byteCount == set.count)
            #expect(frame.whole.bytes == set)
            #expect(frame.replyTo == ReplyTo(.set, opaque: 0xdead_beef))
        }
    }

    @Test func flexibleRequestHasFramingExtrasFirst() throws {
        try flexible.withView { view in
            let frame = try frame(view)
            #expect(frame.opcode == .delete)
            #expect(frame.header.isFlex)
            #expect(frame.header.isRequest)
            #expect(frame.framing.bytes == hex("13 01 05dc 50"))
            #expect(frame.extras.isEmpty)
            #expect(frame.key.text == "k")
            #expect(frame.value.isEmpty)
        }
    }

    @Test func truncatedFrameReportsExactlyTheBytesNeeded() {
        for whole in [set, flexible] {
            for length in 0..<whole.count {
                Array(whole.prefix(length)).withView { view in
                    guard case .incomplete(let needed) = FrameDecoder().next(in: view) else {
                        Issue.record("cut at \(length)")
                        return
                    }
                    #expect(needed == (length < 24 ? 24 : whole.count))
                }
            }
        }
    }

    @Test func consecutiveFramesInOneReadAreDecoded() throws {
        let stream = set + flexible + set + hex("80 0a")
        try stream.withView { view in
            var rest = view
            var opcodes: [Opcode?] = []
            for _ in 0..<3 {
                let frame = try frame(rest)
                opcodes.append(frame.opcode)
                rest = rest.dropFirst(frame.byteCount)
            }
            #expect(opcodes == [.set, .delete, .set])
            guard case .incomplete(needed: 24) = FrameDecoder().next(in: rest) else {
                Issue.record("two bytes must be an incomplete frame")
                return
            }
        }
    }

    @Test func unknownMagicIsRejectedFromTheFirstByte() {
        var known: [UInt8] = []
        for byte in UInt8.min...UInt8.max {
            for length in [1, 24] {
                let bytes = [byte] + [UInt8](repeating: 0, count: length - 1)
                bytes.withView { view in
                    if case .invalid(.magic(let found)) = FrameDecoder().next(in: view) {
                        #expect(found == byte)
                        #expect(Magic(rawValue: byte) == nil)
                    } else if length == 1 {
                        known.append(byte)
                        #expect(Magic(rawValue: byte) != nil)
                    }
                }
            }
        }
        #expect(known == [0x08, 0x18, 0x80, 0x81, 0x82, 0x83])
    }

    @Test func partsLongerThanTheBodyAreRejectedByHeader() {
        let headers = [
            hex("80 01 0005 08 00 0000 0000000c 00000000 0000000000000000"),
            hex("80 00 ffff 00 00 0000 0000fffe 00000000 0000000000000000"),
            hex("08 00 ff ff ff 00 0000 000002fc 00000000 0000000000000000"),
        ]
        for header in headers {
            header.withView { view in
                guard case .invalid(.lengths(let refused)) = FrameDecoder().next(in: view) else {
                    Issue.record("accepted \(header)")
                    return
                }
                #expect(refused.valueCount == -1)
            }
        }
    }

    @Test func oversizedValueIsSkippedAndOversizedFrameIsAnError() {
        func outcome(bodyCount: UInt32, _ decoder: FrameDecoder = FrameDecoder()) -> String {
            let bytes = written { writer in
                writer.append(hex("80 01 0001 08 00 0000"))
                writer.append(bigEndian: bodyCount)
                writer.append(hex("0000002a 0000000000000000"))
            }
            return bytes.withView { view in
                switch decoder.next(in: view) {
                case .incomplete(let needed): "needs \(needed)"
                case .frame: "frame"
                case .valueTooBig(let header): "skip \(header.frameCount), answer \(header.opaque)"
                case .invalid(.tooLong(let header)): "too long for \(header.opaque)"
                case .invalid: "nonsense"
                }
            }
        }
        let value = 20 << 20
        #expect(outcome(bodyCount: UInt32(value + 9)) == "needs \(value + 33)")
        #expect(outcome(bodyCount: UInt32(value + 10)) == "skip \(value + 34), answer 42")
        #expect(outcome(bodyCount: 30 << 20 - 24) == "skip \(30 << 20), answer 42")
        #expect(outcome(bodyCount: 30 << 20 - 23) == "too long for 42")
        #expect(outcome(bodyCount: .max) == "too long for 42")
        let early = FrameDecoder(frameBytesMax: Limits.frameBytesMaxBeforeLogin)
        #expect(outcome(bodyCount: 4_096 - 24, early) == "needs 4096")
        #expect(outcome(bodyCount: 4_096 - 23, early) == "too long for 42")
    }

    /// A document of the largest size has room for system attributes beside its body.
    @Test(arguments: [(0xa2, 4), (0xd1, 0), (0xd1, 1)] as [(UInt8, UInt8)])
    func valueWithAttributesHasMoreRoom(opcode: UInt8, datatype: UInt8) {
        func isTooBig(_ count: Int, opcode: UInt8, datatype: UInt8) -> Bool {
            let bytes = written { writer in
                writer.append([0x80, opcode, 0, 1, 0, datatype, 0, 0])
                writer.append(bigEndian: UInt32(count + 1))
                writer.append(hex("0000002a 0000000000000000"))
            }
            return bytes.withView { view in
                if case .valueTooBig = FrameDecoder().next(in: view) { true } else { false }
            }
        }
        let most = Limits.storedValueBytesMax + 1 << 16
        #expect(!isTooBig(most, opcode: opcode, datatype: datatype))
        #expect(isTooBig(most + 1, opcode: opcode, datatype: datatype))
        #expect(isTooBig(Limits.valueBytesMax + 1, opcode: 0x01, datatype: 1))
    }

    @Test func randomBytesNeverCrashAndFramesStayInBounds() {
        var random = SeededRandom(seed: 11)
        let magics: [UInt8] = [0x80, 0x81, 0x82, 0x83, 0x08, 0x18]
        var frames = 0
        for round in 0..<60_000 {
            var bytes = (0..<Int.random(in: 0...120, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            if bytes.count > 24, round % 4 > 0 {
                // A valid magic and small lengths make a valid frame likely.
                bytes[0] = magics[Int.random(in: 0..<6, using: &random)]
                for place in [2, 8, 9, 10] { bytes[place] = 0 }
                for place in [3, 4] { bytes[place] &= 15 }
                bytes[11] &= 63
            }
            bytes.withView { view in
                guard case .frame(let frame) = FrameDecoder().next(in: view) else { return }
                frames += 1
                #expect(frame.byteCount <= view.count)
                let parts = [frame.framing, frame.extras, frame.key, frame.value]
                #expect(parts.map(\.count).reduce(24, +) == frame.byteCount)
                let joined = parts.flatMap(\.bytes)
                #expect(joined == Array(bytes[24..<frame.byteCount]))
                _ = FramingExtras.parse(frame.framing)
                _ = FeatureSet(frame.value)
            }
        }
        #expect(frames > 5_000)
    }
}
