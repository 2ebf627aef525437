import Bytes
import Testing
import Vocabulary
import Wire

/// The messages between nodes in addition to DCP's.
@Suite struct NodeStreamTests {
    private let address = NodeStreamAddress(channel: 0xabcd, vBucket: VBucketID(1_023))

    private func message(_ bytes: [UInt8]) -> NodeStreamMessage? {
        bytes.withView { view in
            guard case .frame(let frame) = FrameDecoder().next(in: view) else { return nil }
            #expect(NodeStreamAddress(opaque: frame.opaque).channel == address.channel)
            return NodeStreamMessage(frame)
        }
    }

    private func answer(_ answer: NodeStreamAnswer) -> NodeStreamAnswer? {
        written { NodeStreamEncoder.append(answer, to: .max - 3, at: address, to: $0) }.withView {
            guard case .frame(let frame) = FrameDecoder().next(in: $0) else { return nil }
            #expect(frame.cas == CAS(.max - 3))
            #expect(NodeStreamAddress(opaque: frame.opaque) == address)
            return NodeStreamAnswer(frame)
        }
    }

    @Test func streamRequestAndAcknowledgementDecodeToTheSameMessage() {
        let request = DCPStreamRequest(
            flags: [.strictUUID],
            start: Seqno(5),
            end: Seqno((1 << 48) - 1),
            uuid: VBucketUUID(.max),
            snapshotStart: Seqno(4),
            snapshotEnd: Seqno(6)
        )
        let bytes = written {
            NodeStreamEncoder.append(request, fence: .max - 1, number: 7, at: address, to: $0)
        }
        guard case .streamRequest(let found, let fence) = message(bytes) else {
            Issue.record("the stream request was rejected")
            return
        }
        #expect(found == request && fence == .max - 1)
        let progress = NodeAcknowledgement(fence: 7, covered: Seqno(9), onDisk: Seqno(8))
        guard
            case .acknowledgement(let decoded) = message(
                written { NodeStreamEncoder.append(progress, at: address, to: $0) }
            )
        else {
            Issue.record("the acknowledgement was rejected")
            return
        }
        #expect(decoded == progress)
    }

    /// A change as another node sends it.
    private func sent(_ meta: DocumentMeta, _ value: [UInt8], isPrepare: Bool = false) -> [UInt8] {
        let encoder = DCPEncoder(vBucket: address.vBucket, opaque: address.opaque)
        return [107].withView { key in
            value.withView { value in
                let change = DCPChange(meta: meta, key: key, value: value)
                return written { writer in
                    if isPrepare {
                        encoder.append(prepare: change, .majority, to: writer)
                    } else {
                        encoder.append(change, to: writer)
                    }
                }
            }
        }
    }

    /// The value of a change or prepare; nil if the frame is rejected.
    private func receivedValue(_ bytes: [UInt8], _ meta: DocumentMeta) -> [UInt8]? {
        bytes.withView { view in
            guard case .frame(let frame) = NodeStreamMessage.decoder.next(in: view) else {
                return nil
            }
            switch NodeStreamMessage(frame) {
            case .changes(.change(let change)), .changes(.prepare(let change, _)):
                #expect(change.meta == meta)
                return change.value.bytes
            default: return nil
            }
        }
    }

    private static func tombstone(isExpired: Bool = false) -> DocumentMeta {
        DocumentMeta(
            seqno: Seqno(5),
            cas: CAS(6),
            revision: 7,
            expiry: 1_700_000_000,
            datatype: .xattr,
            isDeleted: true,
            isExpired: isExpired
        )
    }

    /// Pairs of one attribute that fill a stored value of `count` bytes.
    private static func attributes(count: Int) -> [UInt8] {
        let pair = Array("_sync".utf8) + [0] + [UInt8](repeating: 49, count: count - 15) + [0]
        return [pair.count + 4, pair.count].flatMap { number in
            withUnsafeBytes(of: UInt32(number).bigEndian) { Array($0) }
        } + pair
    }

    @Test func deletionHasItsValueUpToTheLargestStoredOne() {
        for count in [16, 1_000, Limits.storedValueBytesMax] {
            let value = Self.attributes(count: count)
            #expect(value.count == count)
            for isExpired in [false, true] {
                let meta = Self.tombstone(isExpired: isExpired)
                #expect(receivedValue(sent(meta, value), meta) == value)
            }
            let meta = Self.tombstone()
            #expect(receivedValue(sent(meta, value, isPrepare: true), meta) == value)
        }
        let tooLarge = Self.attributes(count: Limits.storedValueBytesMax + 1)
        let received = receivedValue(sent(Self.tombstone(), tooLarge), Self.tombstone())
        // Not the value: a failure would print all of it.
        #expect(received?.count == nil)
    }

    /// A frame with the largest stored value and the longest key fits into every bound.
    @Test func largestStoredValueFitsIntoFramesBetweenNodes() {
        let frame = Limits.storedValueBytesMax + 255 + DCPEncoder.changeBytesMax
        #expect(frame <= Limits.frameBytesMax)
        #expect(frame <= NodeService.copies.row.messageBytesMax)
    }

    /// The store reads attributes without a check.
    @Test func changeWithInvalidAttributesIsRejected() {
        let valid = Self.attributes(count: 20)
        var long = valid
        long[3] += 1
        let invalid: [[UInt8]] = [[], [0, 0], long, Array(valid.dropLast())]
        for value in invalid {
            var document = Self.tombstone()
            document.isDeleted = false
            for meta in [Self.tombstone(), Self.tombstone(isExpired: true), document] {
                #expect(receivedValue(sent(meta, value), meta) == nil)
                #expect(receivedValue(sent(meta, valid), meta) == valid)
            }
            let prepare = sent(Self.tombstone(), value, isPrepare: true)
            #expect(receivedValue(prepare, Self.tombstone()) == nil)
        }
    }

    /// A later release adds fields at the end of the extras.
    @Test func unknownExtrasAreSkipped() {
        let progress = NodeAcknowledgement(fence: 7, covered: Seqno(9), onDisk: Seqno(8))
        let purge = NodePurge(seqno: Seqno(3), maxRevision: 4)
        let messages = [
            written { NodeStreamEncoder.append(progress, at: address, to: $0) },
            written { NodeStreamEncoder.append(purge, at: address, to: $0) },
            written { NodeStreamEncoder.closeStream(at: address, to: $0) },
        ]
        for bytes in messages {
            var later = bytes + [1, 2, 3]
            later[4] += 3
            later[11] += 3
            switch message(later) {
            case .acknowledgement(let told)?: #expect(told == progress)
            case .purge(let told)?: #expect(told == purge)
            case .closeStream?: break
            default: Issue.record("\(later)")
            }
            var short = bytes
            if short[4] > 0 {
                short.removeLast()
                short[4] -= 1
                short[11] -= 1
                #expect(message(short) == nil)
            }
        }
    }

    @Test func nodeStreamAnswersDecodeToTheSameAnswer() {
        var log = FailoverLog(first: VBucketUUID(1), fence: 2)
        log.begin(VBucketUUID(.max), at: Seqno(77), fence: .max)
        for expected in [
            NodeStreamAnswer.accepted(high: Seqno(99), log), .rollback(Seqno(3), log),
            .refused(.keyExists), .refused(.temporaryFailure),
        ] {
            #expect(answer(expected) == expected)
        }
    }

    @Test func openChannelAndCloseStreamAreDecoded() {
        let opening = written {
            NodeStreamEncoder.openChannel(0xabcd, bucket: "0123", to: $0)
        }
        if case .openChannel(let uuid) = message(opening) {
            opening.withView { _ in #expect(uuid.count == 4) }
        } else {
            Issue.record("the open channel message was rejected")
        }
        let closing = written { NodeStreamEncoder.closeStream(at: address, to: $0) }
        guard case .closeStream = message(closing) else {
            Issue.record("the close stream message was rejected")
            return
        }
    }

    @Test func outstandingPreparesDecodeAndMalformedListsAreRejected() {
        for seqnos in [[], [1], [4, 5, 1 << 48 - 1]] as [[UInt64]] {
            let bytes = written {
                NodeStreamEncoder.append(
                    outstanding: seqnos.map { Seqno($0) },
                    at: address,
                    to: $0
                )
            }
            guard case .outstanding(let found) = message(bytes) else {
                Issue.record("the list was rejected")
                return
            }
            #expect(found.map(\.value) == seqnos)
        }
        for seqnos in [[0], [5, 5], [6, 5], [1 << 48]] as [[UInt64]] {
            let bytes = written {
                NodeStreamEncoder.append(
                    outstanding: seqnos.map { Seqno($0) },
                    at: address,
                    to: $0
                )
            }
            #expect(message(bytes) == nil, "\(seqnos)")
        }
        var random = SeededRandom(seed: 5)
        for _ in 0..<10_000 {
            var bytes = written {
                NodeStreamEncoder.append(outstanding: [Seqno(3), Seqno(9)], at: address, to: $0)
            }
            let cut = Int.random(in: 0...16, using: &random)
            bytes.removeLast(cut)
            bytes[11] -= UInt8(cut)
            let place = Int.random(in: 24...40, using: &random)
            if place < bytes.count { bytes[place] = UInt8.random(in: 0...255, using: &random) }
            guard let found = message(bytes) else { continue }
            guard case .outstanding(let seqnos) = found else {
                Issue.record("decoded as another message")
                return
            }
            #expect(cut % 8 == 0 && seqnos.count == (16 - cut) / 8)
        }
    }

    @Test func purgeDecodesAndOutOfRangeNumbersAreRejected() {
        let last: UInt64 = 1 << 63 - 1
        let numbers: [(UInt64, UInt64)] = [
            (1, 0), (1 << 48 - 1, last), (1 << 48, 1), (1, last + 1),
        ]
        for (seqno, revision) in numbers {
            let purge = NodePurge(seqno: Seqno(seqno), maxRevision: revision)
            let bytes = written { NodeStreamEncoder.append(purge, at: address, to: $0) }
            guard seqno < 1 << 48, revision <= last else {
                #expect(message(bytes) == nil, "seqno or revision out of range")
                continue
            }
            guard case .purge(let found) = message(bytes) else {
                Issue.record("the purge was rejected")
                return
            }
            #expect(found == purge)
        }
    }

    @Test func nodeMessagesWithWrongLengthsAreRejected() {
        let request = written {
            NodeStreamEncoder.append(
                NodeAcknowledgement(fence: 1, covered: .zero, onDisk: .zero),
                at: address,
                to: $0
            )
        }
        // Without the bucket, and with too few extras.
        for opcode in [UInt8(0xf0), 0xf1] {
            var bytes = request
            bytes[1] = opcode
            #expect(message(bytes) == nil)
        }
    }
}
