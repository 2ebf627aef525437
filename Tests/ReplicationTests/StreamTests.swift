import Replication
import Testing
import Vocabulary
import Wire

private func seqno(_ value: UInt64) -> Seqno { Seqno(value) }

/// Scripts: what the stream wants, what it is told, what it wants then.
@Suite struct StreamTests {
    private func stream(
        _ start: UInt64 = 0,
        promised: UInt64 = 0,
        end: UInt64 = 1 << 40,
        isOnce: Bool = false
    ) -> ChangeStream {
        ChangeStream(
            start: seqno(start),
            promised: seqno(promised),
            end: seqno(end),
            isOnce: isOnce
        )
    }

    private func marker(
        _ start: UInt64,
        _ end: UInt64,
        _ flags: DCPSnapshotFlags
    ) -> ChangeStream.Work {
        let marker = DCPSnapshotMarker(start: seqno(start), end: seqno(end), flags: flags)
        return .send(marker)
    }

    private let memory: DCPSnapshotFlags = [.memory, .checkpoint]
    private let disk: DCPSnapshotFlags = [.disk, .checkpoint]

    private func open(
        _ after: UInt64,
        _ promised: UInt64 = 0,
        pins: Bool = false
    ) -> ChangeStream.Work {
        .open(after: seqno(after), promised: seqno(promised), pins: pins)
    }

    private func read(_ bytes: Int = 256 << 10, last: UInt64 = 1 << 40) -> ChangeStream.Work {
        .read(bytesMax: bytes, last: seqno(last))
    }

    private func scan(_ bytes: Int = 256 << 10, last: UInt64 = 1 << 40) -> ChangeStream.Work {
        .scan(bytesMax: bytes, last: seqno(last))
    }

    @Test func memoryIsStreamedSnapshotBySnapshot() {
        var stream = stream(5, promised: 5)
        #expect(stream.next(room: .max) == open(5, 5))
        stream.opened(.memory)
        #expect(stream.next(room: .max) == .beginSnapshot)
        stream.found(snapshotThrough: seqno(9))
        #expect(stream.next(room: .max) == marker(5, 9, memory))
        #expect(stream.next(room: .max) == read())
        stream.sent(through: seqno(7), isEnded: false)
        #expect(stream.next(room: 1_000) == read(1_000))
        stream.sent(through: seqno(9), isEnded: true)
        #expect(stream.next(room: .max) == .beginSnapshot)
        stream.found(snapshotThrough: nil)
        #expect(stream.next(room: .max) == .sleep)
        #expect(stream.next(room: .max) == .beginSnapshot)
        stream.found(snapshotThrough: seqno(10))
        #expect(stream.next(room: .max) == marker(9, 10, memory))
    }

    @Test func diskIsFollowedByMemoryWithoutAGap() {
        var stream = stream()
        #expect(stream.next(room: .max) == open(0))
        stream.opened(.disk(through: seqno(50), visible: seqno(50)))
        #expect(stream.next(room: .max) == marker(0, 50, disk))
        #expect(stream.next(room: .max) == scan())
        stream.sent(through: seqno(40), isEnded: false)
        #expect(stream.next(room: .max) == scan())
        stream.sent(through: nil, isEnded: true)
        #expect(stream.next(room: .max) == .sendAdvanced(seqno(50)), "its last change is dead")
        #expect(stream.next(room: .max) == open(50, 50))
        stream.opened(.memory)
        #expect(stream.next(room: .max) == .beginSnapshot)
    }

    @Test func fourthScanPinsChangesInMemory() {
        var stream = stream()
        for round in 0..<4 as Range<UInt64> {
            #expect(stream.next(room: .max) == open(round * 10, round * 10, pins: round == 3))
            stream.opened(.disk(through: seqno(round * 10 + 10), visible: seqno(round * 10 + 10)))
            #expect(stream.next(room: .max) == marker(round * 10, round * 10 + 10, disk))
            #expect(stream.next(room: .max) == scan())
            stream.sent(through: seqno(round * 10 + 10), isEnded: true)
        }
    }

    @Test func interruptedSnapshotIsCompletedByLongerSnapshot() {
        var stream = stream()
        _ = stream.next(room: .max)
        stream.opened(.memory)
        _ = stream.next(room: .max)
        stream.found(snapshotThrough: seqno(30))
        _ = stream.next(room: .max)
        _ = stream.next(room: .max)
        stream.sent(through: seqno(20), isEnded: false)
        stream.cursorDropped()
        #expect(stream.next(room: .max) == open(20, 30))
        stream.opened(.unpersisted(seqno(30)))
        #expect(stream.next(room: .max) == .persist(seqno(30)))
        #expect(stream.next(room: .max) == open(20, 30))
        stream.opened(.disk(through: seqno(35), visible: seqno(35)))
        #expect(stream.next(room: .max) == marker(20, 35, disk))
    }

    @Test func cursorDroppedBeforeSnapshotMarkerReopensWithoutPromise() {
        var stream = stream()
        _ = stream.next(room: .max)
        stream.opened(.memory)
        _ = stream.next(room: .max)
        stream.found(snapshotThrough: seqno(30))
        stream.cursorDropped()
        #expect(stream.next(room: .max) == open(0))
    }

    @Test func streamWithoutRoomWaits() {
        var stream = stream()
        #expect(stream.next(room: 0) == open(0), "looking for changes sends nothing")
        stream.opened(.memory)
        #expect(stream.next(room: 0) == .beginSnapshot)
        stream.found(snapshotThrough: seqno(3))
        #expect(stream.next(room: 0) == .awaitRoom)
        #expect(stream.next(room: 0) == .awaitRoom)
        #expect(stream.next(room: 1) == marker(0, 3, memory))
        #expect(stream.next(room: 0) == .awaitRoom)
        stream.finish(.closed)
        #expect(stream.next(room: 0) == .awaitRoom)
        #expect(stream.next(room: 1) == .sendEnd(.closed))
        #expect(stream.next(room: 0) == .done)
    }

    @Test func streamEndsAtItsRequestedEnd() {
        var stream = stream(end: 20)
        _ = stream.next(room: .max)
        stream.opened(.memory)
        _ = stream.next(room: .max)
        stream.found(snapshotThrough: seqno(30))
        #expect(stream.next(room: .max) == marker(0, 30, memory))
        #expect(stream.next(room: .max) == read(last: 20))
        stream.sent(through: seqno(18), isEnded: true)
        #expect(stream.next(room: .max) == .sendEnd(.finished))
        #expect(stream.isOver)

        var none = self.stream(20, promised: 20, end: 20)
        #expect(none.next(room: .max) == .sendEnd(.finished))

        var once = self.stream(isOnce: true)
        _ = once.next(room: .max)
        once.opened(.disk(through: seqno(7), visible: seqno(7)))
        _ = once.next(room: .max)
        _ = once.next(room: .max)
        once.sent(through: seqno(7), isEnded: true)
        #expect(once.next(room: .max) == .sendEnd(.finished))
    }

    @Test func failedStreamEndsWithItsReason() {
        var purged = stream(5, promised: 5)
        _ = purged.next(room: .max)
        purged.opened(.purged)
        #expect(purged.next(room: .max) == .sendEnd(.rollback))

        var damaged = stream()
        _ = damaged.next(room: .max)
        damaged.opened(.disk(through: seqno(7), visible: seqno(7)))
        _ = damaged.next(room: .max)
        damaged.scanFailed()
        #expect(damaged.next(room: .max) == .sendEnd(.backfillFailed))

        // It was dropped while its file was opened, and another one is empty by now.
        var dropped = stream(5, promised: 5)
        _ = dropped.next(room: .max)
        dropped.opened(.disk(through: seqno(0), visible: seqno(0)))
        #expect(dropped.next(room: .max) == .sendEnd(.backfillFailed))

        var waiting = stream()
        _ = waiting.next(room: .max)
        waiting.opened(.notReady)
        #expect(waiting.next(room: .max) == .sleep)
        #expect(waiting.next(room: .max) == open(0))
        waiting.abandon()
        #expect(waiting.next(room: .max) == .done)
    }
}
