import Bytes
import Testing
import Vocabulary
import Wire

/// The records between the collector of an HTTP feed and the nodes with the copies.
@Suite struct ChangesRecordTests {
    /// Requires that a message has one record, of this number, and calls `body` with it.
    private func decode<Record: ChangesRecord>(
        _ type: Record.Type,
        _ bytes: [UInt8],
        number expected: UInt32 = 7,
        _ body: (Record) -> Void
    ) throws {
        var count = 0
        try bytes.withView { view in
            try Record.forEach(in: view) { number, record in
                #expect(number == expected)
                count += 1
                body(record)
            }
        }
        #expect(count == 1)
    }

    @Test(arguments: [true, false]) func openingDecodesToTheSameOpening(_ hasValues: Bool) throws {
        let opening = ChangesOpening(bucket: "0123abcd", hasValues: hasValues, snapshotsMax: 8)
        #expect(try ChangesOpening(decoding: opening.encoded) == opening)
    }

    @Test func openingWithoutSnapshotsIsRefused() {
        let opening = ChangesOpening(bucket: "0123abcd", hasValues: true, snapshotsMax: 0)
        #expect(throws: CodingFailure.self) { try ChangesOpening(decoding: opening.encoded) }
    }

    @Test func everyRequestDecodesToTheSameRequest() throws {
        var inside = ChangesPosition(branch: .uuid(VBucketUUID(.max)), seqno: Seqno(5))
        inside.snapshotStart = Seqno(2)
        inside.snapshotEnd = Seqno((1 << 48) - 1)
        let check = BranchCheck(bits: 0x1234_5678, width: 20)
        let positions = [
            inside, .start, .latest, ChangesPosition(branch: .check(check), seqno: Seqno(1)),
        ]
        let opens = positions.map { HTTPFeedRequest.open(VBucketID(1_023), $0) }
        for request in opens + [.close, .begin] {
            let bytes = written { request.append(7, to: $0) }
            try decode(HTTPFeedRequest.self, bytes) { #expect($0 == request) }
        }
    }

    @Test func changeDecodesWithAndWithoutValue() throws {
        let meta = DocumentMeta(seqno: Seqno(9), cas: CAS(10), datatype: [.json])
        try [UInt8]("key".utf8).withView { key in
            try [UInt8]("{}".utf8).withView { value in
                let change = DCPChange(meta: meta, key: key, value: value)
                for hasValue in [true, false] {
                    let message = ChangesMessage.change(HTTPFeedRow(change, hasValue: hasValue))
                    let bytes = written { message.append(7, to: $0) }
                    try decode(ChangesMessage.self, bytes) { message in
                        guard case .change(let row) = message else {
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
            #expect(HTTPFeedRow(change, hasValue: true).value?.bytes == Array("{}".utf8))
        }
    }

    @Test func tombstoneHasNoValue() {
        let meta = DocumentMeta(seqno: Seqno(9), isDeleted: true, isExpired: true)
        let row = HTTPFeedRow(DCPChange(meta: meta, key: .empty, value: .empty), hasValue: true)
        #expect(row.isDeleted && row.isExpired && row.value == nil)
    }

    @Test func everyMessageDecodesToTheSameMessage() throws {
        let messages: [ChangesMessage] = [
            .opened(VBucketUUID(1), start: Seqno(2), high: Seqno(3)),
            .rolledBack(VBucketUUID(1), to: Seqno(2)), .purged, .unavailable,
            .snapshot(start: Seqno(1), end: Seqno(2)), .advanced(to: Seqno(4)), .ended,
        ]
        for message in messages {
            let bytes = written { message.append(7, to: $0) }
            try decode(ChangesMessage.self, bytes) { #expect("\($0)" == "\(message)") }
        }
    }

    @Test func messageIsSequenceOfRecords() throws {
        let meta = DocumentMeta(seqno: Seqno(3), cas: CAS(77))
        let bytes = [UInt8]("key".utf8).withView { key in
            [UInt8]("{}".utf8).withView { value in
                let row = HTTPFeedRow(DCPChange(meta: meta, key: key, value: value), hasValue: true)
                return written { output in
                    ChangesMessage.snapshot(start: Seqno(2), end: Seqno(300)).append(1, to: output)
                    ChangesMessage.change(row).append(1, to: output)
                    ChangesMessage.ended.append(200, to: output)
                }
            }
        }
        #expect(
            bytes
                == hex("01 05 02 ac02")
                + hex("01 06 03 000000000000004d 04 03 6b6579 02 7b7d")
                + hex("c801 08")
        )
        var numbers: [UInt32] = []
        try bytes.withView { view in
            try ChangesMessage.forEach(in: view) { number, _ in numbers.append(number) }
        }
        #expect(numbers == [1, 1, 200])
    }

    /// The records of a message, written again; nil if the message is refused.
    private func rewritten<Record: ChangesRecord>(_ type: Record.Type, _ view: ByteView) -> [UInt8]?
    {
        let output = ByteWriter()
        do throws(CodingFailure) {
            try Record.forEach(in: view) { number, record in record.append(number, to: output) }
            return output.bytes
        } catch {
            return nil
        }
    }

    /// An accepted record has every field: its bytes, written and read again, stay the same.
    ///
    /// The bytes that arrive may differ, since a number has longer forms than its shortest.
    @Test func anyBytesAreRefusedOrDecodeToConsistentRecords() {
        func expectStable<Record: ChangesRecord>(_ type: Record.Type, _ view: ByteView) -> Int {
            guard let once = rewritten(type, view) else { return 0 }
            let twice = once.withView { rewritten(type, $0) }
            #expect(twice == once, "\(view.bytes)")
            return 1
        }
        var random = SeededRandom(seed: 4)
        var (messages, requests, openings) = (0, 0, 0)
        for _ in 0..<10_000 {
            let length = Int(random.next() % 64)
            let bytes =
                [UInt8(random.next() % 2), UInt8(random.next() % 10)]
                + (0..<length).map { _ in UInt8(random.next() & 0xff) }
            bytes.withView { view in
                messages += expectStable(ChangesMessage.self, view)
                requests += expectStable(HTTPFeedRequest.self, view)
                guard let opening = try? ChangesOpening(decoding: view, skipsRest: true) else {
                    return
                }
                let again = try? ChangesOpening(decoding: opening.encoded)
                #expect(again == opening)
                openings += 1
            }
        }
        #expect(messages > 10 && requests > 10 && openings > 10)
    }

    @Test func seqnoOfMoreThan48BitsIsRefused() {
        let bytes = written { ChangesMessage.advanced(to: Seqno(1 << 48)).append(7, to: $0) }
        #expect(throws: CodingFailure.self) { try decode(ChangesMessage.self, bytes) { _ in } }
    }
}
