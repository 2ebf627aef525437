import Replication
import Testing
import Vocabulary
import Wire

private func seqno(_ value: UInt64) -> Seqno { Seqno(value) }

/// The same scripts as `StreamTests`, of a stream that sends only what clients may see.
@Suite struct VisibleStreamTests {
    private let memory: DCPSnapshotFlags = [.memory, .checkpoint]
    private let disk: DCPSnapshotFlags = [.disk, .checkpoint]

    private func stream(_ start: UInt64 = 0, promised: UInt64 = 0, end: UInt64 = 1 << 40)
        -> ChangeStream
    {
        ChangeStream(
            start: seqno(start),
            promised: seqno(promised),
            end: seqno(end),
            mode: .visibleOnly
        )
    }

    private func marker(
        _ start: UInt64,
        _ end: UInt64,
        _ flags: DCPSnapshotFlags
    ) -> ChangeStream.Work {
        .send(DCPSnapshotMarker(start: seqno(start), end: seqno(end), flags: flags))
    }

    private func isRead(_ work: ChangeStream.Work) -> Bool {
        if case .read = work { true } else { false }
    }

    private func isScan(_ work: ChangeStream.Work) -> Bool {
        if case .scan = work { true } else { false }
    }

    /// A stream whose cursor has a snapshot.
    private func found(
        _ boundary: UInt64,
        visible: UInt64?,
        _ stream: ChangeStream
    ) -> ChangeStream {
        var stream = stream
        _ = stream.next(room: .max)
        stream.opened(.memory)
        #expect(stream.next(room: .max) == .beginSnapshot)
        stream.found(snapshotThrough: seqno(boundary), visible: visible.map(seqno))
        return stream
    }

    @Test func snapshotEndsAtLastVisibleChangeThenAdvances() {
        var stream = found(9, visible: 6, stream(2, promised: 2))
        #expect(!stream.owesList, "clients are told no prepares")
        #expect(stream.next(room: .max) == marker(2, 6, memory))
        #expect(isRead(stream.next(room: .max)))
        stream.sent(through: seqno(6), isEnded: true)
        #expect(stream.position == seqno(6))
        #expect(stream.next(room: 0) == .awaitRoom, "advancing is sent, too")
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(9)))
        #expect(stream.position == seqno(9))
        #expect(stream.next(room: .max) == .beginSnapshot)
    }

    @Test func snapshotWithoutVisibleChangeIsReadAndNotAnnounced() {
        var stream = found(9, visible: nil, stream(5, promised: 5))
        #expect(isRead(stream.next(room: .max)), "the cursor has to pass what is not sent")
        stream.sent(through: nil, isEnded: false)
        #expect(isRead(stream.next(room: .max)))
        stream.sent(through: nil, isEnded: true)
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(9)))
    }

    @Test func diskEndsAtItsNewestDocument() {
        var stream = stream()
        _ = stream.next(room: .max)
        stream.opened(.disk(through: seqno(50), visible: seqno(48)))
        #expect(stream.next(room: .max) == marker(0, 48, disk))
        #expect(isScan(stream.next(room: .max)))
        stream.sent(through: seqno(48), isEnded: true)
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(50)))
        #expect(
            stream.next(room: .max) == .open(after: seqno(50), promised: seqno(48), pins: false)
        )
    }

    @Test func diskWithoutVisibleChangeIsNotScanned() {
        var stream = stream(48, promised: 48)
        _ = stream.next(room: .max)
        stream.opened(.disk(through: seqno(50), visible: seqno(48)))
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(50)))
        guard case .open = stream.next(room: .max) else {
            Issue.record("the stream looks for memory again")
            return
        }
    }

    @Test func interruptedSnapshotEndsAtItsAnnouncedEndIfThatIsPurged() {
        var stream = found(30, visible: 28, stream())
        #expect(stream.next(room: .max) == marker(0, 28, memory))
        _ = stream.next(room: .max)
        stream.sent(through: seqno(20), isEnded: false)
        stream.cursorDropped()
        #expect(
            stream.next(room: .max) == .open(after: seqno(20), promised: seqno(28), pins: false)
        )
        // The change at 28 was a tombstone that was purged since.
        stream.opened(.disk(through: seqno(30), visible: seqno(25)))
        #expect(stream.next(room: .max) == marker(20, 28, disk))
        _ = stream.next(room: .max)
        stream.sent(through: seqno(25), isEnded: true)
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(30)))
    }

    @Test(arguments: [20, 25, 30] as [UInt64])
    func streamEndsAtBoundaryThatReachesItsEnd(_ end: UInt64) {
        var fromMemory = found(30, visible: 18, stream(end: end))
        #expect(fromMemory.next(room: .max) == marker(0, 18, memory))
        _ = fromMemory.next(room: .max)
        fromMemory.sent(through: seqno(18), isEnded: true)
        #expect(fromMemory.next(room: .max) == .sendEnd(.finished))

        var invisible = found(30, visible: nil, stream(18, promised: 18, end: end))
        _ = invisible.next(room: .max)
        invisible.sent(through: nil, isEnded: true)
        #expect(invisible.next(room: .max) == .sendEnd(.finished))

        var fromDisk = stream(18, promised: 18, end: end)
        _ = fromDisk.next(room: .max)
        fromDisk.opened(.disk(through: seqno(30), visible: seqno(18)))
        #expect(fromDisk.next(room: .max) == .sendEnd(.finished))
    }

    @Test func streamWithEndBeyondSnapshotContinues() {
        var stream = found(30, visible: 18, stream(end: 31))
        _ = stream.next(room: .max)
        _ = stream.next(room: .max)
        stream.sent(through: seqno(18), isEnded: true)
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(30)))
        #expect(stream.next(room: .max) == .beginSnapshot)
    }
}
