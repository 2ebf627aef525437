import Bytes
import Simulation
import Testing
import Vocabulary

/// The checker of attributes is fed what it has to find.
@Suite struct AttributeLedgerTests {
    private let key = Array("attributed0-1".utf8)

    private func hex(_ number: UInt64, digits: Int = 16) -> String {
        let text = String(number, radix: 16)
        return "0x" + String(repeating: "0", count: digits - text.count) + text
    }

    private func mark(
        _ name: String,
        cas: UInt64,
        seqno: UInt64,
        body: String = "1"
    ) -> String {
        let checksum = Array(body.utf8).withUnsafeBytes { CRC32C.checksum(ByteView($0)) }
        return #"{"name":"\#(name)","cas":"\#(hex(cas.byteSwapped))","#
            + #""seqno":"\#(hex(seqno))","crc":"\#(hex(UInt64(checksum), digits: 8))"}"#
    }

    private func version(
        cas: UInt64,
        seqno: UInt64,
        _ attributes: [(String, String)],
        body: String = "1",
        isDeleted: Bool = false,
        form: AttributeForm = .whole
    ) -> CopyContent.Version {
        let writer = ByteWriter()
        let pairs = XattrWriter.begin(writer)
        for (key, value) in attributes {
            Array(key.utf8).withUnsafeBytes { key in
                Array(value.utf8).withUnsafeBytes { value in
                    pairs.append(key: ByteView(key), value: ByteView(value))
                }
            }
        }
        let hasAttributes = pairs.end()
        if !isDeleted { writer.append(text: body) }
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(cas))
        meta.isDeleted = isDeleted
        meta.datatype = hasAttributes ? .xattr : []
        return withExtendedLifetime(writer) { CopyContent.Version(meta, writer.view, form: form) }
    }

    private func sees(
        _ version: CopyContent.Version,
        _ ledger: inout AttributeLedger,
        isPrepare: Bool = false,
        log: FailoverLog? = nil
    ) -> String? {
        let source = AttributeLedger.Source("a copy", log: log, isPrepare: isPrepare)
        return ledger.sees(version, of: key, in: "b", by: source)
    }

    /// A log whose newest history began at a seqno.
    private func log(_ uuid: UInt64, since seqno: UInt64) -> FailoverLog {
        var log = FailoverLog(first: VBucketUUID(1))
        log.begin(VBucketUUID(uuid), at: Seqno(seqno))
        return log
    }

    @Test func versionsOfOneHistoryAreComparedWhereCASNamesSeveral() {
        let first = version(cas: 70, seqno: 7, [("_sync", mark("w", cas: 70, seqno: 7))])
        let other = version(cas: 70, seqno: 7, [("_sync", mark("v", cas: 70, seqno: 7))])
        // Seqno 7 is of history 2 or 3, or of history 1 in a log whose newest history began there.
        let table: [(one: FailoverLog, two: FailoverLog?, isFlaw: Bool)] = [
            (log(2, since: 6), log(2, since: 6), true),
            (log(2, since: 6), log(3, since: 6), false),
            (log(2, since: 7), log(3, since: 7), true),
            (log(2, since: 7), log(2, since: 6), false),
            (log(2, since: 6), nil, false),
        ]
        for row in table {
            var ledger = AttributeLedger(namesHistories: true)
            #expect(sees(first, &ledger, log: row.one) == nil)
            #expect((sees(other, &ledger, log: row.two) != nil) == row.isFlaw, "\(row)")
        }
    }

    @Test func acknowledgedWriteIsComparedInItsHistory() {
        let found = version(cas: 80, seqno: 8, [("_sync", mark("w", cas: 70, seqno: 7))])
        let wrong = AttributeLedger.Expectation(isDeleted: true, names: [:], own: nil)
        for (history, isFlaw) in [(UInt64(2), true), (3, false), (nil, false)] {
            var ledger = AttributeLedger(namesHistories: true)
            #expect(sees(found, &ledger, log: log(2, since: 6)) == nil)
            let flaw = ledger.expect(
                wrong,
                of: key,
                in: "b",
                cas: CAS(80),
                history: history.map { VBucketUUID($0) }
            )
            #expect((flaw != nil) == isFlaw)
        }
    }

    @Test func versionWithRightNumbersHasNoFlaw() {
        var ledger = AttributeLedger()
        let attributes = [
            ("_sync", mark("w", cas: 70, seqno: 7)), ("note", mark("w", cas: 70, seqno: 7)),
        ]
        #expect(sees(version(cas: 70, seqno: 7, attributes), &ledger) == nil)
        #expect(sees(version(cas: 70, seqno: 7, [], form: .bodies), &ledger) == nil)
        let kept = version(cas: 80, seqno: 8, attributes, body: "2")
        #expect(sees(kept, &ledger) == nil)
        #expect(ledger.expanded == 2 && ledger.compared == 1)
    }

    @Test func wrongNumbersAndPlaceholdersAreFound() {
        let flaws = [
            mark("w", cas: 71, seqno: 7), mark("w", cas: 70, seqno: 6),
            mark("w", cas: 70, seqno: 7, body: "2"), mark("w", cas: 70, seqno: 0),
            #"{"name":"w","cas":"${Mutation.CAS}","seqno":"0x0000000000000007","crc":"0x00000000"}"#,
        ]
        for text in flaws {
            var ledger = AttributeLedger()
            #expect(sees(version(cas: 70, seqno: 7, [("_sync", text)]), &ledger) != nil, "\(text)")
        }
    }

    @Test func seqnoOfDurableWriteIsThatOfThePrepare() {
        var ledger = AttributeLedger()
        let right = [("_sync", mark("w.durable", cas: 70, seqno: 7))]
        #expect(sees(version(cas: 70, seqno: 7, right), &ledger, isPrepare: true) == nil)
        #expect(sees(version(cas: 70, seqno: 9, right), &ledger) == nil)
        let wrong = [("_sync", mark("w.durable", cas: 70, seqno: 9))]
        var other = AttributeLedger()
        #expect(sees(version(cas: 70, seqno: 9, wrong), &other) != nil)
    }

    @Test func sourcesThatDifferAreFound() {
        let attributes = [("_sync", mark("w", cas: 70, seqno: 7))]
        let first = version(cas: 70, seqno: 7, attributes)
        let others = [
            version(cas: 70, seqno: 7, []),
            version(cas: 70, seqno: 7, [], body: "2", form: .bodies),
            version(cas: 70, seqno: 7, attributes, form: .bodies),
            version(cas: 70, seqno: 7, [("_sync", mark("v", cas: 70, seqno: 7))]),
        ]
        for other in others {
            var ledger = AttributeLedger()
            #expect(sees(first, &ledger) == nil)
            #expect(sees(other, &ledger) != nil, "\(other)")
        }
        // A client of a feed may be first.
        var ledger = AttributeLedger()
        #expect(sees(others[1], &ledger) == nil)
        #expect(sees(first, &ledger) != nil)
    }

    @Test func tombstoneHasNoAttributeOfTheUser() {
        var ledger = AttributeLedger()
        let system = [("_sync", mark("w", cas: 70, seqno: 7))]
        let user = [("note", mark("w", cas: 70, seqno: 7))]
        #expect(sees(version(cas: 80, seqno: 8, system, isDeleted: true), &ledger) == nil)
        #expect(sees(version(cas: 90, seqno: 9, user, isDeleted: true), &ledger) != nil)
    }

    @Test(arguments: [false, true])
    func acknowledgedWriteHasItsAttributes(isSeenFirst: Bool) {
        let found = version(cas: 80, seqno: 8, [("_sync", mark("w", cas: 70, seqno: 7))])
        let table: [(AttributeLedger.Expectation, Bool)] = [
            (.init(isDeleted: false, names: ["_sync": "w"], own: nil), true),
            (.init(isDeleted: false, names: ["_sync": "w"], own: "w"), false),
            (.init(isDeleted: false, names: [:], own: nil), false),
            (.init(isDeleted: false, names: ["_sync": "w", "note": "w"], own: nil), false),
            (.init(isDeleted: true, names: ["_sync": "w"], own: nil), false),
        ]
        for (expectation, isRight) in table {
            var ledger = AttributeLedger()
            let early = isSeenFirst ? sees(found, &ledger) : nil
            let flaw = ledger.expect(expectation, of: key, in: "b", cas: CAS(80), history: nil)
            let late = isSeenFirst ? nil : sees(found, &ledger)
            #expect(early == nil)
            #expect(((flaw ?? late) == nil) == isRight, "\(expectation)")
            #expect(ledger.confirmed == 1)
        }
    }
}
