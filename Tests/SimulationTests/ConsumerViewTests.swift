import Bytes
import Simulation
import Testing
import Vocabulary
import Wire

/// The checker of outside consumers is fed what it has to find.
@Suite struct ConsumerViewTests {
    private static let first = VBucketUUID(1)
    private static let second = VBucketUUID(2)

    private func log(_ entries: (VBucketUUID, UInt64)...) throws -> FailoverLog {
        try #require(
            FailoverLog(
                entries: entries.map { FailoverLog.Entry(uuid: $0.0, seqno: Seqno($0.1)) }
            )
        )
    }

    private func snapshot(_ start: UInt64, _ end: UInt64, _ view: inout ConsumerView) {
        let marker = DCPSnapshotMarker(start: Seqno(start), end: Seqno(end), flags: .memory)
        view.receive(.snapshotMarker(marker))
    }

    private func change(
        _ seqno: UInt64,
        _ key: String,
        isDeleted: Bool = false,
        _ view: inout ConsumerView,
        isPrepare: Bool = false
    ) {
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
        meta.isDeleted = isDeleted
        let (key, value) = (Array(key.utf8), Array("\(seqno)".utf8))
        key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                let change = DCPChange(meta: meta, key: ByteView(key), value: ByteView(value))
                view.receive(isPrepare ? .prepare(change, .majority) : .change(change))
            }
        }
    }

    private func version(_ seqno: UInt64, isDeleted: Bool = false) -> CopyContent.Version {
        CopyContent.Version(
            seqno: Seqno(seqno),
            cas: CAS(seqno),
            value: isDeleted ? nil : Array("\(seqno)".utf8),
            isDeleted: isDeleted
        )
    }

    /// Two snapshots: `a` at 1, `b` at 3, then `a` again at 5.
    private func view() throws -> ConsumerView {
        var view = ConsumerView()
        view.accept(try log((Self.first, 0)))
        snapshot(0, 3, &view)
        change(1, "a", &view)
        change(3, "b", &view)
        snapshot(4, 5, &view)
        change(5, "a", &view)
        return view
    }

    // MARK: Order

    @Test func snapshotMayBeginBehindInvisibleChanges() throws {
        let view = try view()
        #expect(view.flaw == nil && view.position == Seqno(5) && !view.isInSnapshot)
        #expect(view.documents == [Array("a".utf8): version(5), Array("b".utf8): version(3)])
        #expect(view.counts.changes == 3)
    }

    @Test func eachMessageThatNoClientMayReceiveIsFound() throws {
        var prepared = try view()
        snapshot(5, 6, &prepared)
        change(6, "c", &prepared, isPrepare: true)
        #expect(prepared.flaw?.hasPrefix("a prepare") == true)

        var outside = try view()
        change(6, "c", &outside)
        #expect(outside.flaw?.hasPrefix("a change at 6") == true)

        var repeated = try view()
        snapshot(5, 7, &repeated)
        change(5, "a", &repeated)
        #expect(repeated.flaw?.hasPrefix("a change at 5") == true)

        var behind = try view()
        snapshot(3, 7, &behind)
        #expect(behind.flaw?.hasPrefix("a snapshot") == true)

        var shorter = try view()
        snapshot(5, 9, &shorter)
        change(6, "c", &shorter)
        snapshot(6, 8, &shorter)
        #expect(shorter.flaw?.hasPrefix("a snapshot") == true)

        var advanced = try view()
        advanced.receive(.seqnoAdvanced(Seqno(6)))
        #expect(advanced.flaw != nil)
    }

    // MARK: Positions

    @Test func requestInsideASnapshotNamesTheSnapshot() throws {
        var view = try view()
        snapshot(7, 9, &view)
        change(8, "c", &view)
        let request = view.request()
        #expect(request.start == Seqno(8) && request.uuid == Self.first)
        #expect(request.snapshotStart == Seqno(5) && request.snapshotEnd == Seqno(9))
    }

    @Test func rollbackRestoresTheLastWholeSnapshot() throws {
        var view = try view()
        view.accept(try log((Self.second, 4), (Self.first, 0)))
        view.rollBack(to: Seqno(4))
        #expect(view.position == Seqno(3) && view.uuid == Self.first)
        #expect(view.documents == [Array("a".utf8): version(1), Array("b".utf8): version(3)])
        view.rollBack(to: Seqno(2))
        #expect(view.position == .zero && view.uuid == VBucketUUID(0))
        #expect(view.documents.isEmpty)
        // What was received remains known.
        #expect(view.received[Array("a".utf8)]?.count == 2)
    }

    // MARK: Rollbacks

    private func request(
        _ start: UInt64,
        in snapshot: ClosedRange<UInt64>? = nil
    ) -> DCPStreamRequest {
        DCPStreamRequest(
            start: Seqno(start),
            end: Seqno(1_000),
            uuid: Self.first,
            snapshotStart: Seqno(snapshot?.lowerBound ?? start),
            snapshotEnd: Seqno(snapshot?.upperBound ?? start)
        )
    }

    @Test func acceptedRequestNeedsItsWholeSnapshotInTheHistory() throws {
        let log = try log((Self.second, 10), (Self.first, 0))
        #expect(ConsumerRules.flaw(accepting: request(10), log) == nil)
        #expect(ConsumerRules.flaw(accepting: request(11), log) != nil)
        #expect(ConsumerRules.flaw(accepting: request(9, in: 5...12), log) != nil)
        // At its start, a client has nothing of a snapshot.
        #expect(ConsumerRules.flaw(accepting: request(9, in: 9...12), log) == nil)
        #expect(ConsumerRules.flaw(accepting: request(0), try self.log((Self.second, 0))) == nil)
        #expect(ConsumerRules.flaw(accepting: request(1), try self.log((Self.second, 0))) != nil)
    }

    @Test func announcedRollbackNeedsALostChange() throws {
        let log = try log((Self.second, 10), (Self.first, 0))
        func flaw(_ request: DCPStreamRequest, _ seqno: UInt64, purged: UInt64 = 0) -> String? {
            ConsumerRules.flaw(
                rollingBack: request,
                to: Seqno(seqno),
                log,
                purged: Seqno(purged)
            )
        }
        #expect(flaw(request(11), 10) == nil)
        #expect(flaw(request(11, in: 8...12), 8) == nil)
        #expect(flaw(request(10), 9) != nil, "nothing was lost")
        #expect(flaw(request(11), 3) != nil, "further back than necessary")
        #expect(flaw(request(11, in: 8...12), 9) != nil, "inside the snapshot")
        #expect(flaw(request(11), 11) != nil, "it leads nowhere")
        #expect(flaw(request(10), 0, purged: 11) == nil, "tombstones were purged")
        let other = try self.log((Self.second, 0))
        let unknown = request(11)
        #expect(
            ConsumerRules.flaw(rollingBack: unknown, to: .zero, other, purged: .zero) == nil
        )
        #expect(
            ConsumerRules.flaw(rollingBack: unknown, to: Seqno(5), other, purged: .zero) != nil
        )
    }

    // MARK: Contents

    private func comparison(
        _ versions: [String: CopyContent.Version],
        purged: UInt64 = 0
    ) -> ConsumerComparison {
        var all: [[UInt8]: CopyContent.Version] = [:]
        for (key, version) in versions { all[Array(key.utf8)] = version }
        return ConsumerComparison(versions: all, purged: Seqno(purged), isComplete: true)
    }

    @Test func copyWithNewerChangesAgrees() throws {
        let view = try view()
        let newer = comparison(["a": version(5), "b": version(6), "c": version(7)])
        #expect(newer.flaw(in: view) == nil)
        #expect(newer.finalFlaw(in: view) != nil)
        #expect(comparison(["a": version(5), "b": version(3)]).finalFlaw(in: view) == nil)
    }

    @Test func gapsAndLostChangesAreFound() throws {
        let view = try view()
        let gap = comparison(["a": version(5), "b": version(3), "c": version(2)])
        #expect(gap.flaw(in: view)?.hasPrefix("c is 2") == true)
        let lost = comparison(["a": version(1), "b": version(3)])
        #expect(lost.flaw(in: view)?.hasPrefix("a is 1") == true)
        #expect(comparison(["a": version(5)]).flaw(in: view)?.hasPrefix("b is nothing") == true)
        let deletion = ["a": version(5), "b": version(3), "d": version(4, isDeleted: true)]
        #expect(comparison(deletion).flaw(in: view) != nil, "a deletion appears")
        #expect(comparison(deletion, purged: 4).flaw(in: view) == nil)
    }

    @Test func snapshotWithoutItsLastChangeIsFoundAtTheEnd() throws {
        var view = try view()
        snapshot(5, 8, &view)
        change(6, "c", &view)
        let copy = comparison(["a": version(5), "b": version(3), "c": version(6)])
        #expect(copy.flaw(in: view) == nil)
        #expect(copy.finalFlaw(in: view) != nil)
    }
}
