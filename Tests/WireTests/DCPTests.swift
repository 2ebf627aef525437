import Bytes
import Testing
import Vocabulary
import Wire

/// A message that owns its bytes, so that messages can be compared.
private enum Owned: Equatable {
    case open(UInt32, [UInt8])
    case addStream(UInt32)
    case closeStream
    case streamRequest(DCPStreamRequest, [UInt8])
    case getFailoverLog
    case streamEnd(UInt32)
    case marker(DCPSnapshotMarker)
    case change(DocumentMeta, [UInt8], [UInt8])
    case prepare(DurabilityLevel, DocumentMeta, [UInt8], [UInt8])
    case abort(Seqno, of: Seqno, [UInt8])
    case noop
    case acknowledged(UInt32)
    case control([UInt8], [UInt8])
    case advanced(Seqno)

    init(_ message: DCPMessage) {
        switch message {
        case .open(let flags, let name): self = .open(flags, name.bytes)
        case .addStream(let flags): self = .addStream(flags)
        case .closeStream: self = .closeStream
        case .streamRequest(let request, let filter):
            self = .streamRequest(request, filter.bytes)
        case .getFailoverLog: self = .getFailoverLog
        case .streamEnd(let reason): self = .streamEnd(reason)
        case .snapshotMarker(let marker): self = .marker(marker)
        case .change(let change):
            self = .change(change.meta, change.key.bytes, change.value.bytes)
        case .prepare(let change, let level):
            self = .prepare(level, change.meta, change.key.bytes, change.value.bytes)
        case .abort(let abort): self = .abort(abort.seqno, of: abort.prepare, abort.key.bytes)
        case .noop: self = .noop
        case .bufferAcknowledgement(let bytes): self = .acknowledged(bytes)
        case .control(let key, let value): self = .control(key.bytes, value.bytes)
        case .seqnoAdvanced(let seqno): self = .advanced(seqno)
        }
    }
}

/// The message in `bytes`, which must be a whole frame; nil if it is rejected.
private func decoded(_ bytes: [UInt8]) -> Owned? {
    bytes.withView { view in
        guard case .frame(let frame) = FrameDecoder().next(in: view), frame.byteCount == view.count
        else { return nil }
        return DCPDecoder.message(in: frame).map(Owned.init)
    }
}

@Suite struct DCPTests {
    private let encoder = DCPEncoder(vBucket: VBucketID(513), opaque: 0xdead_beef)

    private func change(_ meta: DocumentMeta, _ key: String, _ value: [UInt8]) -> [UInt8] {
        Array(key.utf8).withView { key in
            value.withView { value in
                written { encoder.append(DCPChange(meta: meta, key: key, value: value), to: $0) }
            }
        }
    }

    private func prepare(
        _ meta: DocumentMeta,
        _ value: [UInt8],
        _ level: DurabilityLevel
    ) -> [UInt8] {
        [107].withView { key in
            value.withView { value in
                let change = DCPChange(meta: meta, key: key, value: value)
                return written { encoder.append(prepare: change, level, to: $0) }
            }
        }
    }

    /// The product only decodes it.
    private func addStream(flags: UInt32, to writer: ByteWriter) {
        withUnsafeBytes(of: flags.bigEndian) { flags in
            RequestEncoder.append(
                .dcpAddStream,
                to: writer,
                vBucket: encoder.vBucket,
                opaque: encoder.opaque,
                extras: ByteView(flags)
            )
        }
    }

    private func frames(_ random: inout SeededRandom) -> [([UInt8], Owned)] {
        func seqno() -> Seqno { Seqno(random.next() & (1 << 48 - 1) | 1) }
        let value = (0..<Int.random(in: 0..<40, using: &random)).map { UInt8($0) }
        var mutation = DocumentMeta(
            seqno: seqno(),
            cas: CAS(random.next()),
            revision: random.next() >> 1,
            flags: UInt32.random(in: 0...UInt32.max, using: &random),
            expiry: UInt32.random(in: 0...UInt32.max, using: &random),
            datatype: Datatype(rawValue: UInt8.random(in: 0..<8, using: &random))
        )
        var frames: [([UInt8], Owned)] = []
        func add(_ owned: Owned, _ body: (ByteWriter) -> Void) {
            frames.append((written(body), owned))
        }
        frames.append((change(mutation, "key", value), .change(mutation, Array("key".utf8), value)))
        let level = DurabilityLevel(rawValue: UInt8.random(in: 1...3, using: &random)) ?? .majority
        frames.append((prepare(mutation, value, level), .prepare(level, mutation, [107], value)))
        mutation.isDeleted = true
        frames.append((prepare(mutation, [], level), .prepare(level, mutation, [107], [])))
        let (given, up) = (Seqno(random.next() >> 17 | 1), Seqno(1 << 47 | random.next() >> 18))
        add(.abort(up, of: given, [107])) { writer in
            [107].withView { key in
                encoder.append(DCPAbort(seqno: up, prepare: given, key: key), to: writer)
            }
        }
        mutation.flags = 0
        frames.append((change(mutation, "k", value), .change(mutation, Array("k".utf8), value)))
        mutation.isExpired = true
        frames.append((change(mutation, "x", []), .change(mutation, Array("x".utf8), [])))
        let request = DCPStreamRequest(
            flags: .strictUUID,
            start: seqno(),
            end: Seqno((1 << 48) - 1),
            uuid: VBucketUUID(random.next()),
            snapshotStart: seqno(),
            snapshotEnd: seqno()
        )
        add(.streamRequest(request, [])) { encoder.append(request, to: $0) }
        var marker = DCPSnapshotMarker(start: .zero, end: seqno(), flags: [.disk, .checkpoint])
        add(.marker(marker)) { encoder.append(marker, to: $0) }
        marker.maxVisible = seqno()
        marker.highCompleted = seqno()
        add(.marker(marker)) { encoder.append(marker, to: $0) }
        for reason in DCPStreamEnd.allCases {
            add(.streamEnd(reason.rawValue)) { encoder.append(reason, to: $0) }
        }
        add(.acknowledged(77)) { encoder.append(acknowledged: 77, to: $0) }
        let high = seqno()
        add(.advanced(high)) { encoder.append(advancedTo: high, to: $0) }
        add(.noop) { encoder.appendNoop(to: $0) }
        add(.closeStream) { encoder.appendCloseStream(to: $0) }
        add(.addStream(3)) { addStream(flags: 3, to: $0) }
        add(.getFailoverLog) { encoder.appendGetFailoverLog(to: $0) }
        let (name, text) = (Array("enable_noop".utf8), Array("true".utf8))
        add(.control(name, text)) { writer in
            name.withView { key in
                text.withView { encoder.appendControl(key: key, value: $0, to: writer) }
            }
        }
        add(.open(1, name)) { writer in
            name.withView { encoder.appendOpen(flags: 1, name: $0, to: writer) }
        }
        return frames
    }

    @Test func encodedDCPMessagesDecodeToTheSameMessage() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<200 {
            for (bytes, message) in frames(&random) {
                #expect(decoded(bytes) == message)
                #expect(bytes[6] == 2 && bytes[7] == 1, "the vBucket is in the header")
                #expect(Array(bytes[12..<16]) == hex("deadbeef"))
            }
        }
    }

    @Test func shortFormOfDeletionOmitsTimeAndExpiration() {
        var short = encoder
        short.includesDeleteTimes = false
        short.distinguishesExpirations = false
        let meta = DocumentMeta(
            seqno: Seqno(9),
            cas: CAS(4),
            revision: 2,
            expiry: 1_700_000_000,
            isDeleted: true,
            isExpired: true
        )
        let bytes = Array("key".utf8).withView { key in
            written { short.append(DCPChange(meta: meta, key: key, value: .empty), to: $0) }
        }
        #expect(bytes[1] == 0x58 && bytes[4] == 18)
        var expected = meta
        expected.expiry = 0
        expected.isExpired = false
        #expect(decoded(bytes) == .change(expected, Array("key".utf8), []))
    }

    /// The next revision would overflow.
    @Test func revisionWithoutSuccessorIsRejected() {
        for revision in [1 << 63 - 1, 1 << 63, .max] as [UInt64] {
            let meta = DocumentMeta(seqno: Seqno(9), cas: CAS(4), revision: revision)
            let bytes = Array("key".utf8).withView { key in
                written { encoder.append(DCPChange(meta: meta, key: key, value: .empty), to: $0) }
            }
            #expect((decoded(bytes) == nil) == (revision >= 1 << 63))
        }
    }

    /// The expected bytes follow the protocol's documentation, field by field.
    @Test func mutationHasTheProtocolsLayout() {
        let bytes = hex(
            """
            80 57 0001 1f 01 0201 00000024 00000009 0000000000000abc
            0000000000000005 0000000000000003 000000aa 000000bb 00000000 0000 00
            6b 7b7d7d7d
            """
        )
        let meta = DocumentMeta(
            seqno: Seqno(5),
            cas: CAS(0xabc),
            revision: 3,
            flags: 0xaa,
            expiry: 0xbb,
            datatype: .json
        )
        #expect(decoded(bytes) == .change(meta, Array("k".utf8), Array("{}}}".utf8)))
        let ours = DCPEncoder(vBucket: VBucketID(0x201), opaque: 9)
        let again = Array("k".utf8).withView { key in
            Array("{}}}".utf8).withView { value in
                written { ours.append(DCPChange(meta: meta, key: key, value: value), to: $0) }
            }
        }
        #expect(again == bytes)
    }

    /// The expected bytes follow the protocol's documentation, field by field.
    @Test func prepareAndAbortHaveTheProtocolsLayout() {
        let bytes = hex(
            """
            80 60 0001 1f 01 0201 00000022 deadbeef 0000000000000abc
            0000000000000005 0000000000000003 000000aa 000000bb 00000000 00 01 03
            6b 7b7d
            """
        )
        let meta = DocumentMeta(
            seqno: Seqno(5),
            cas: CAS(0xabc),
            revision: 3,
            flags: 0xaa,
            expiry: 0xbb,
            datatype: .json,
            isDeleted: true
        )
        let value = Array("{}".utf8)
        #expect(decoded(bytes) == .prepare(.persistToMajority, meta, [107], value))
        #expect(prepare(meta, value, .persistToMajority) == bytes)
        for (place, wrong) in [(24 + 29, 2), (24 + 30, 0), (24 + 30, 4)] {
            var other = bytes
            other[place] = UInt8(wrong)
            #expect(decoded(other) == nil, "invalid Boolean or durability level")
        }
        let abort = hex(
            """
            80 63 0001 10 00 0201 00000011 deadbeef 0000000000000000
            0000000000000005 0000000000000009 6b
            """
        )
        #expect(decoded(abort) == .abort(Seqno(9), of: Seqno(5), [107]))
        var backwards = abort
        backwards[24 + 7] = 9
        #expect(decoded(backwards) == nil, "the abort's seqno is above the prepare's")
    }

    @Test func truncatedOrOverlongDCPFramesAreRejected() {
        var random = SeededRandom(seed: 8)
        for (bytes, message) in frames(&random) {
            let extras = Int(bytes[4])
            for cut in 0..<bytes.count where cut != bytes.count {
                #expect(decoded(Array(bytes[..<cut])) == nil)
            }
            guard extras > 0, case let body = bytes.count - 24, body == extras else { continue }
            // A whole frame, but with extras of another length.
            for wrong in [0, extras - 1, extras + 1, 255] where ![18, 20, 21, 31].contains(wrong) {
                var other = Array(bytes[..<24]) + [UInt8](repeating: 0, count: wrong)
                other[4] = UInt8(wrong)
                other[11] = UInt8(wrong)
                #expect(decoded(other) == nil, "\(message) with \(wrong) bytes of extras")
            }
        }
    }

    @Test func invalidSeqnosAndEmptyKeysAreRejected() {
        let meta = DocumentMeta(seqno: Seqno(1), cas: CAS(1))
        var bytes = change(meta, "key", [])
        bytes[24 + 1] = 1
        #expect(decoded(bytes) == nil, "a seqno has 48 bits")
        bytes = change(DocumentMeta(cas: CAS(1)), "key", [])
        #expect(decoded(bytes) == nil, "no change has seqno zero")
        bytes = change(meta, "", [])
        #expect(decoded(bytes) == nil, "a document has a key")
        let backwards = DCPSnapshotMarker(start: Seqno(5), end: Seqno(4), flags: .memory)
        #expect(decoded(written { encoder.append(backwards, to: $0) }) == nil)
    }

    @Test func randomDCPBytesNeverCrashTheDecoder() {
        var random = SeededRandom(seed: 9)
        let templates = frames(&random).map(\.0)
        var accepted = 0
        for _ in 0..<100_000 {
            guard var bytes = templates.randomElement(using: &random) else { return }
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] =
                    UInt8.random(in: 0...255, using: &random)
            }
            if decoded(bytes) != nil { accepted += 1 }
        }
        #expect(accepted > 1_000, "most changed bytes are in numbers without invalid values")
    }

    @Test func failoverLogDecodesAndMalformedLogsAreRejected() {
        let entries = (0..<25).map { index in
            FailoverLog.Entry(
                uuid: VBucketUUID(UInt64(index + 1)),
                seqno: Seqno(UInt64(25 - index))
            )
        }
        guard let log = FailoverLog(entries: entries) else {
            Issue.record("a log with 25 entries is valid")
            return
        }
        let bytes = written { DCPEncoder.append(log, to: $0) }
        #expect(bytes.withView { DCPDecoder.failoverLog($0) } == log)
        #expect([].withView { DCPDecoder.failoverLog($0) } == nil)
        #expect(Array(bytes.dropLast()).withView { DCPDecoder.failoverLog($0) } == nil)
        #expect((bytes + bytes).withView { DCPDecoder.failoverLog($0) } == nil, "too long")
        let backwards = Array(bytes[16..<32] + bytes[0..<16])
        #expect(backwards.withView { DCPDecoder.failoverLog($0) } == nil)
        let zeros = [UInt8](repeating: 0, count: 16)
        #expect(zeros.withView { DCPDecoder.failoverLog($0) } == nil, "UUID 0 is invalid")
        #expect(hex("00000000000000ff").withView { DCPDecoder.rollback($0) } == Seqno(255))
        #expect(hex("ff").withView { DCPDecoder.rollback($0) } == nil)
    }
}
