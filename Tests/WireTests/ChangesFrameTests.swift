import Bytes
import Testing
import Vocabulary
import Wire

/// The frames between the collector of an HTTP feed and the nodes with the copies.
@Suite struct ChangesFrameTests {
    private func frame(
        _ bytes: [UInt8],
        isFromCollector: Bool,
        _ body: (ChangesFrame) -> Void
    ) {
        bytes.withView { view in
            guard
                case .frame(let frame) = ChangesFrameDecoder(isFromCollector: isFromCollector)
                    .next(in: view), frame.byteCount == view.count
            else {
                Issue.record("the frame was not decoded")
                return
            }
            body(frame)
        }
    }

    @Test(arguments: [true, false]) func openingDecodes(_ hasValues: Bool) {
        let opening = ChangesOpening(bucket: "0123abcd", hasValues: hasValues, snapshotsMax: 8)
        frame(written { opening.append(to: $0) }, isFromCollector: true) { frame in
            #expect(frame.kind == .begin && frame.number == 0)
            #expect(ChangesOpening(frame.payload) == opening)
        }
    }

    @Test func streamRequestDecodesWithEveryBranch() {
        var inside = ChangesPosition(branch: .uuid(VBucketUUID(.max)), seqno: Seqno(5))
        inside.snapshotStart = Seqno(2)
        inside.snapshotEnd = Seqno((1 << 48) - 1)
        let check = BranchCheck(bits: 0x1234_5678, width: 20)
        let positions = [
            inside, .start, .latest, ChangesPosition(branch: .check(check), seqno: Seqno(1)),
        ]
        for position in positions {
            let request = ChangesStreamRequest(vBucket: VBucketID(1_023), position: position)
            frame(written { request.append(7, to: $0) }, isFromCollector: true) { frame in
                #expect(frame.kind == .open && frame.number == 7)
                #expect((try? ChangesStreamRequest(decoding: frame.payload)) == request)
            }
        }
    }

    @Test func changeDecodesWithAndWithoutValue() {
        let meta = DocumentMeta(seqno: Seqno(9), cas: CAS(10), datatype: [.json])
        [UInt8]("key".utf8).withView { key in
            [UInt8]("{}".utf8).withView { value in
                let change = DCPChange(meta: meta, key: key, value: value)
                for hasValue in [true, false] {
                    let message = ChangesMessage.change(ChangesRow(change, hasValue: hasValue))
                    frame(written { message.append(3, to: $0) }, isFromCollector: false) { frame in
                        guard case .change(let row) = try? ChangesMessage(frame) else {
                            Issue.record("the change was not decoded")
                            return
                        }
                        #expect(row.seqno == Seqno(9) && row.cas == CAS(10))
                        #expect(!row.isDeleted && row.key.equals(key))
                        #expect(row.value?.bytes == (hasValue ? value.bytes : nil))
                    }
                }
            }
        }
    }

    @Test func valueHasNoExtendedAttributes() {
        let meta = DocumentMeta(seqno: Seqno(9), cas: CAS(10), datatype: [.json, .xattr])
        [UInt8]([0, 0, 0, 2, 1, 1] + Array("{}".utf8)).withView { value in
            let change = DCPChange(meta: meta, key: .empty, value: value)
            #expect(ChangesRow(change, hasValue: true).value?.bytes == Array("{}".utf8))
        }
    }

    @Test func tombstoneHasNoValue() {
        let meta = DocumentMeta(seqno: Seqno(9), isDeleted: true, isExpired: true)
        let row = ChangesRow(DCPChange(meta: meta, key: .empty, value: .empty), hasValue: true)
        #expect(row.isDeleted && row.isExpired && row.value == nil)
    }

    @Test func everyMessageDecodesToItself() {
        let messages: [ChangesMessage] = [
            .opened(VBucketUUID(1), start: Seqno(2), high: Seqno(3)),
            .rolledBack(VBucketUUID(1), to: Seqno(2)), .purged, .unavailable,
            .snapshot(start: Seqno(1), end: Seqno(2)), .advanced(to: Seqno(4)), .ended,
        ]
        for message in messages {
            frame(written { message.append(1, to: $0) }, isFromCollector: false) { frame in
                let decoded = try? ChangesMessage(frame)
                #expect(decoded.map { "\($0)" } == "\(message)")
            }
        }
    }

    @Test func anyBytesAreDecodedOrRefused() {
        var random = SeededRandom(seed: 4)
        for _ in 0..<5_000 {
            let kind = UInt8(random.next() % 26)
            let length = Int(random.next() % 64)
            let payload = (0..<length).map { _ in UInt8(random.next() & 0xff) }
            let bytes = written {
                $0.append(bigEndian: UInt32(length))
                $0.append(bigEndian: UInt32(random.next() % 2))
                $0.append(kind)
                $0.append(payload)
            }
            for isFromCollector in [true, false] {
                bytes.withView { view in
                    let decoder = ChangesFrameDecoder(isFromCollector: isFromCollector)
                    guard case .frame(let frame) = decoder.next(in: view) else { return }
                    #expect(frame.byteCount == bytes.count)
                    _ = try? ChangesMessage(frame)
                    _ = ChangesOpening(frame.payload)
                    _ = try? ChangesStreamRequest(decoding: frame.payload)
                }
            }
        }
    }

    @Test func seqnoOfMoreThan48BitsIsRefused() {
        let message = ChangesMessage.advanced(to: Seqno(1 << 48))
        frame(written { message.append(1, to: $0) }, isFromCollector: false) { frame in
            #expect((try? ChangesMessage(frame)) == nil)
        }
    }
}
