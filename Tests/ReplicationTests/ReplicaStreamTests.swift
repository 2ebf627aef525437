import Replication
import Testing
import Vocabulary
import Wire

private func request(
    _ uuid: UInt64,
    _ start: UInt64,
    _ snapshot: ClosedRange<UInt64>? = nil
) -> ReplicaStream.Step {
    .ask(
        DCPStreamRequest(
            start: Seqno(start),
            end: Seqno((1 << 48) - 1),
            uuid: VBucketUUID(uuid),
            snapshotStart: Seqno(snapshot?.lowerBound ?? start),
            snapshotEnd: Seqno(snapshot?.upperBound ?? start)
        )
    )
}

private func marker(_ start: UInt64, _ end: UInt64) -> DCPSnapshotMarker {
    DCPSnapshotMarker(start: Seqno(start), end: Seqno(end), flags: .memory)
}

@Suite struct ReplicaStreamTests {
    private func range(_ start: UInt64, _ end: UInt64) -> SnapshotRange {
        SnapshotRange(start: Seqno(start), end: Seqno(end))
    }

    @Test func emptyCopyRequestsAllChanges() {
        var stream = ReplicaStream(ResumePoint(log: log((9, 0)), high: .zero))
        #expect(stream.open() == request(0, 0))
        let theirs = log((3, 20), (2, 0))
        #expect(stream.accepted(theirs) == .follow(theirs))
        #expect(stream.received(marker(0, 30)) == .beginSnapshot(range(0, 30)))
        #expect(stream.received(changeAt: Seqno(10)) == .apply)
        #expect(stream.applied(through: Seqno(10)) == nil)
        #expect(stream.covered == .zero, "half a snapshot is nothing")
        #expect(stream.received(changeAt: Seqno(30)) == .apply)
        #expect(stream.applied(through: Seqno(30)) == theirs)
        #expect(stream.covered == Seqno(30))
    }

    @Test func connectionLostInsideSnapshotResumesInsideSnapshot() {
        var stream = ReplicaStream(ResumePoint(log: log((2, 0)), high: Seqno(20)))
        #expect(stream.open() == request(2, 20))
        _ = stream.accepted(log((3, 20), (2, 0)))
        #expect(stream.received(marker(20, 40)) == .beginSnapshot(range(20, 40)))
        _ = stream.applied(through: Seqno(33))
        stream.disconnected()
        #expect(stream.open() == request(3, 33, 20...40))
        _ = stream.accepted(log((3, 20), (2, 0)))
        #expect(stream.received(marker(33, 39)) == .refuse(.snapshot(marker(33, 39))), "too short")
        #expect(stream.received(marker(33, 45)) == .beginSnapshot(range(33, 45)))
        #expect(stream.covered == Seqno(20))
        #expect(stream.applied(through: Seqno(45)) != nil)
        #expect(stream.covered == Seqno(45))
    }

    @Test func coveredSeqnoAfterRestartInsideSnapshotIsSnapshotStart() {
        let resumePoint = ResumePoint(
            log: log((2, 0)),
            high: Seqno(33),
            openSnapshot: range(20, 40)
        )
        var stream = ReplicaStream(resumePoint)
        #expect(stream.covered == Seqno(20))
        #expect(stream.open() == request(2, 33, 20...40))
    }

    /// Else a copy that is built from a promoted one would begin with nothing at each pause.
    @Test func partlyBuiltCopyResumesWithUUIDOfItsProducer() {
        var stream = ReplicaStream(ResumePoint(log: log((9, 0)), high: .zero))
        _ = stream.open()
        _ = stream.accepted(log((3, 70), (2, 0)))
        #expect(stream.received(marker(0, 90)) == .beginSnapshot(range(0, 90)))
        #expect(stream.applied(through: Seqno(50)) == nil)
        let half = ResumePoint(log: log((2, 0)), high: Seqno(50), openSnapshot: range(0, 90))
        var same = stream
        let step = same.reopen(half)
        #expect(step == request(3, 50, 0...90))
        guard case .ask(let asked) = step else { return }
        let producer = StreamOpening(
            log: log((3, 70), (2, 0)),
            high: Seqno(95),
            purged: .zero
        )
        #expect(
            producer.answer(to: asked)
                == .accepted(start: Seqno(50), promised: Seqno(90), end: asked.end)
        )
        // A copy that was emptied or otherwise changed meanwhile restarts from zero.
        var emptied = stream
        #expect(
            emptied.reopen(ResumePoint(log: log((8, 0)), high: .zero)) == request(0, 0)
        )
        var other = half
        other.high = Seqno(60)
        #expect(stream.reopen(other) == request(2, 60, 0...90))
    }

    @Test func announcedSnapshotWithoutChangesDoesNotRestrictNextOne() {
        var stream = ReplicaStream(ResumePoint(log: log((2, 0)), high: Seqno(20)))
        _ = stream.open()
        _ = stream.accepted(log((2, 0)))
        #expect(stream.received(marker(20, 40)) == .beginSnapshot(range(20, 40)))
        stream.disconnected()
        #expect(stream.open() == request(2, 20, 20...40))
        _ = stream.accepted(log((2, 0)))
        #expect(stream.received(marker(20, 30)) == .beginSnapshot(range(20, 30)))
        #expect(stream.covered == Seqno(20))
    }

    @Test func invalidMessagesOfProducerAreRefused() {
        var stream = ReplicaStream(ResumePoint(log: log((2, 0)), high: Seqno(20)))
        #expect(stream.received(marker(20, 30)) == .refuse(.notStreaming))
        #expect(stream.receivedPurge() == .refuse(.notStreaming))
        #expect(stream.received(changeAt: Seqno(21)) == .refuse(.notStreaming))
        _ = stream.open()
        _ = stream.accepted(log((2, 0)))
        #expect(stream.received(changeAt: Seqno(21)) == .refuse(.seqno(Seqno(21))))
        #expect(stream.received(marker(21, 30)) == .refuse(.snapshot(marker(21, 30))), "a gap")
        #expect(stream.received(marker(20, 20)) == .refuse(.snapshot(marker(20, 20))))
        #expect(stream.receivedPurge() == .refuse(.purge), "it is a snapshot's")
        _ = stream.received(marker(20, 30))
        #expect(stream.receivedPurge() == .notePurge)
        #expect(stream.received(changeAt: Seqno(20)) == .refuse(.seqno(Seqno(20))))
        #expect(stream.received(changeAt: Seqno(31)) == .refuse(.seqno(Seqno(31))))
        #expect(stream.received(advancedTo: Seqno(31)) == .refuse(.seqno(Seqno(31))))
        #expect(stream.received(advancedTo: Seqno(30)) == .advance(Seqno(30)))
    }

    @Test func copyWithoutChangesUnderNewUUIDRequestsStreamUnderFormerUUID() {
        var stream = ReplicaStream(ResumePoint(log: log((5, 20), (2, 0)), high: Seqno(20)))
        #expect(stream.open() == request(5, 20))
        #expect(stream.rolledBack(to: .zero) == .askLog)
        #expect(stream.told(log((2, 0))) == request(2, 20))
        _ = stream.accepted(log((2, 0)))
        #expect(stream.received(marker(20, 30)) == .beginSnapshot(range(20, 30)))
    }

    @Test func copyWithDivergentChangesRewindsToBranchPoint() {
        var stream = ReplicaStream(ResumePoint(log: log((5, 20), (2, 0)), high: Seqno(25)))
        _ = stream.open()
        #expect(stream.rolledBack(to: .zero) == .askLog)
        #expect(stream.told(log((6, 22), (2, 0))) == .rewind(to: Seqno(20)))
        #expect(stream.changesAlone == 5)
        #expect(
            stream.restart(ResumePoint(log: log((9, 0)), high: .zero)) == request(0, 0)
        )
    }

    @Test func branchInsideOpenSnapshotRewindsToSnapshotStart() {
        let resumePoint = ResumePoint(
            log: log((2, 0)),
            high: Seqno(33),
            openSnapshot: range(20, 40)
        )
        var stream = ReplicaStream(resumePoint)
        _ = stream.open()
        #expect(stream.rolledBack(to: Seqno(20)) == .askLog)
        #expect(stream.told(log((3, 30), (2, 0))) == .rewind(to: Seqno(20)))
        // What it has of an open snapshot may well be with the others.
        #expect(stream.changesAlone == 0)
    }

    @Test func rollbackToZeroWithEqualHistoryCountsNoDivergentChanges() {
        var stream = ReplicaStream(ResumePoint(log: log((2, 0)), high: Seqno(20)))
        _ = stream.open()
        #expect(stream.rolledBack(to: .zero) == .askLog)
        #expect(stream.told(log((2, 0))) == .rewind(to: .zero))
        #expect(stream.changesAlone == 0)
    }

    @Test func temporaryStreamEndReopensStreamAndFinalStreamEndStops() {
        func after(_ reason: DCPStreamEnd) -> ReplicaStream.Step {
            var stream = ReplicaStream(ResumePoint(log: log((2, 0)), high: Seqno(20)))
            _ = stream.open()
            _ = stream.accepted(log((2, 0)))
            return stream.ended(reason)
        }
        for reason in [DCPStreamEnd.slow, .rollback, .backfillFailed, .disconnected] {
            #expect(after(reason) == request(2, 20))
        }
        for reason in [DCPStreamEnd.finished, .closed, .stateChanged] {
            #expect(after(reason) == .stop)
        }
    }
}
