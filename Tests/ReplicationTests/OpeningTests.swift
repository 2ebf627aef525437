import Replication
import Testing
import Vocabulary
import Wire

/// A failover log of UUIDs with their first seqnos.
func log(_ entries: (UInt64, UInt64)...) -> FailoverLog {
    let entries = entries.map {
        FailoverLog.Entry(uuid: VBucketUUID($0.0), seqno: Seqno($0.1))
    }
    guard let log = FailoverLog(entries: entries) else { preconditionFailure("no such log") }
    return log
}

@Suite struct OpeningTests {
    /// Histories: 1 from 0 to 50, 2 from 50 to 80, 3 from 80 to 100; purged through 10.
    private let opening = StreamOpening(
        log: log((3, 80), (2, 50), (1, 0)),
        high: Seqno(100),
        purged: Seqno(10)
    )

    private func answer(
        _ uuid: UInt64,
        start: UInt64,
        _ snapshot: ClosedRange<UInt64>? = nil,
        end: UInt64 = 1 << 40,
        flags: DCPStreamRequest.Flags = []
    ) -> StreamAnswer {
        opening.answer(
            to: DCPStreamRequest(
                flags: flags,
                start: Seqno(start),
                end: Seqno(end),
                uuid: VBucketUUID(uuid),
                snapshotStart: Seqno(snapshot?.lowerBound ?? start),
                snapshotEnd: Seqno(snapshot?.upperBound ?? start)
            )
        )
    }

    private func accepted(
        _ start: UInt64,
        promised: UInt64? = nil,
        end: UInt64 = 1 << 40
    ) -> StreamAnswer {
        .accepted(start: Seqno(start), promised: Seqno(promised ?? start), end: Seqno(end))
    }

    @Test func positionOnHistoryIsAccepted() {
        #expect(answer(3, start: 100) == accepted(100))
        #expect(answer(3, start: 90) == accepted(90))
        #expect(answer(2, start: 80) == accepted(80))
        #expect(answer(2, start: 60) == accepted(60))
        #expect(answer(1, start: 50) == accepted(50))
    }

    @Test func startFromZeroIsAcceptedUnlessUUIDIsStrictAndUnknown() {
        #expect(answer(0, start: 0) == accepted(0))
        #expect(answer(77, start: 0) == accepted(0))
        #expect(answer(77, start: 0, flags: .strictUUID) == .rollback(.zero))
        #expect(answer(0, start: 0, flags: .strictUUID) == accepted(0))
    }

    /// Sync Gateway 1.4.1 repeated such a request hundreds of times a second after a rollback to zero.
    @Test func startFromZeroIsAcceptedWithSnapshotRangeOfEarlierPosition() {
        #expect(answer(3, start: 0, 7...9) == accepted(0))
        #expect(answer(77, start: 0, 7...9) == accepted(0), "an unknown history")
        #expect(answer(0, start: 0, 7...9) == accepted(0))
        #expect(answer(3, start: 0, 7...9, end: 40) == accepted(0, end: 40))
        #expect(answer(3, start: 0, 7...9, flags: .toLatest) == accepted(0, end: 100))
        #expect(answer(3, start: 0, 7...9, flags: .activeOnly) == accepted(0))
        #expect(answer(3, start: 1, 7...9) == .outOfRange, "only zero")
    }

    @Test func strictStartFromZeroIsRefusedOutsideItsSnapshotRange() {
        #expect(answer(3, start: 0, 7...9, flags: .strictUUID) == .outOfRange)
        #expect(answer(77, start: 0, 7...9, flags: .strictUUID) == .outOfRange)
        #expect(answer(3, start: 0, 0...9, flags: .strictUUID) == accepted(0))
        // Without a UUID there is none to compare.
        #expect(answer(0, start: 0, 7...9, flags: .strictUUID) == accepted(0))
    }

    @Test func divergedConsumerRollsBackToBranchPoint() {
        #expect(answer(1, start: 51) == .rollback(Seqno(50)))
        #expect(answer(2, start: 99) == .rollback(Seqno(80)))
        #expect(answer(3, start: 101) == .rollback(Seqno(100)))
        #expect(answer(9, start: 60) == .rollback(.zero), "nothing in common")
    }

    @Test func partialSnapshotIsAcceptedOnlyIfHistoryContainsAllOfIt() {
        #expect(answer(2, start: 70, 60...80) == accepted(70, promised: 80))
        #expect(answer(2, start: 70, 60...81) == .rollback(Seqno(60)), "the split snapshot")
        #expect(answer(2, start: 79, 60...90) == .rollback(Seqno(60)))
        #expect(answer(2, start: 85, 82...90) == .rollback(Seqno(80)))
        // At its ends a consumer has all of it, or nothing.
        #expect(answer(2, start: 80, 60...80) == accepted(80))
        #expect(answer(2, start: 80, 80...95) == accepted(80))
        #expect(answer(3, start: 95, 81...100) == accepted(95, promised: 100))
        #expect(answer(3, start: 95, 81...120) == .rollback(Seqno(81)))
    }

    @Test func startBelowPurgeSeqnoRollsBackToZeroUnlessPurgesAreIgnored() {
        #expect(answer(1, start: 9) == .rollback(.zero))
        #expect(answer(1, start: 10) == accepted(10))
        #expect(answer(1, start: 12, 8...20) == .rollback(.zero))
        #expect(answer(1, start: 9, flags: .ignorePurged) == accepted(9))
        #expect(answer(1, start: 20, 8...20) == accepted(20))
    }

    @Test func contradictorySeqnosAreRefused() {
        #expect(answer(3, start: 90, end: 89) == .outOfRange)
        #expect(answer(3, start: 90, 91...95) == .outOfRange)
        #expect(answer(3, start: 90, 80...85) == .outOfRange)
    }

    @Test func flagsSetStartAndEndOfStream() {
        #expect(answer(3, start: 90, flags: .toLatest) == accepted(90, end: 100))
        // What the client has behind the end was lost.
        #expect(answer(3, start: 101, flags: .toLatest) == .rollback(Seqno(100)))
        #expect(answer(2, start: 120, flags: .toLatest) == .rollback(Seqno(80)))
        #expect(answer(3, start: 90, end: 95, flags: .diskOnly) == accepted(90, end: 100))
        #expect(answer(3, start: 90, flags: .fromLatest) == accepted(100))
    }

    @Test func branchPointOfTwoFailoverLogsIsTheirLastCommonSeqno() {
        let ours = opening.log
        func point(_ other: FailoverLog, _ high: UInt64) -> [UInt64]? {
            ours.branchPoint(high: Seqno(100), other, otherHigh: Seqno(high))
                .map { [$0.uuid.value, $0.seqno.value] }
        }
        #expect(point(ours, 100) == [3, 100])
        #expect(point(ours, 90) == [3, 90])
        #expect(point(log((4, 70), (2, 50), (1, 0)), 90) == [2, 70])
        #expect(point(log((5, 85), (2, 50), (1, 0)), 90) == [2, 80])
        #expect(point(log((9, 0)), 90) == nil)
    }
}
