import Bytes
import Engine
import Persistence
import Replication
import Testing
import Vocabulary
import Wire

/// The producer's hands: does what a `ChangeStream` says, to a real copy.
final class Sender {
    let copy: Copy
    let encoder: DCPEncoder
    var stream: ChangeStream
    var window: FlowWindow
    /// What is on its way.
    let wire = ByteWriter()
    var cursor: CursorID?
    var pin: CursorID?
    var scan: VBucketScan?
    var scans = 0
    var markers = 0
    /// Outstanding at the end of the cursor's snapshot, where that has to be told.
    private var listed: [Seqno]?

    init(_ copy: Copy, _ stream: ChangeStream, window: FlowWindow) {
        self.copy = copy
        self.stream = stream
        self.window = window
        encoder = DCPEncoder(vBucket: copy.id, opaque: 7)
    }

    deinit { letGo() }

    func letGo() {
        let (cursor, pin) = (cursor, pin)
        copy.vBucket.withCore { core in
            if let cursor { core.closeCursor(cursor) }
            if let pin { core.closeCursor(pin) }
        }
        self.cursor = nil
        self.pin = nil
        scan = nil
    }

    /// Does one thing; false where there was nothing to do.
    func step(_ random: inout SeededRandom) throws -> Bool {
        let before = wire.count
        defer { window.sent(wire.count - before) }
        switch stream.next(room: window.room) {
        case .open(let after, let promised, let pins): try open(after, promised, pins)
        case .persist: try copy.flush()
        case .beginSnapshot: return beginSnapshot()
        case .send(let marker):
            encoder.append(marker, to: wire)
            markers += 1
            let address = NodeStreamAddress(opaque: 7)
            let purge = copy.purge
            if marker.start == .zero, purge.seqno > .zero {
                NodeStreamEncoder.append(purge, at: address, to: wire)
            }
            guard let outstanding = scan?.outstanding ?? listed else { return true }
            NodeStreamEncoder.append(outstanding: outstanding, at: address, to: wire)
            stream.listed(through: marker.end)
        case .read(let bytes, let last):
            read(min(bytes, Int.random(in: 1...3_000, using: &random)), last)
        case .scan(let bytes, let last):
            try scan(min(bytes, Int.random(in: 1...3_000, using: &random)), last)
        case .sendAdvanced(let seqno): encoder.append(advancedTo: seqno, to: wire)
        case .sendEnd(let reason): encoder.append(reason, to: wire)
        case .sleep, .awaitRoom, .done: return false
        }
        return true
    }

    private func open(_ after: Seqno, _ promised: Seqno, _ pins: Bool) throws {
        scan = nil
        let source = copy.vBucket.withCore { core in
            let source = core.openChanges(after: after, promised: promised, pins: pins)
            if let pin { core.closeCursor(pin) }
            pin = nil
            return source
        }
        switch source {
        case .memory(let cursor):
            self.cursor = cursor
            stream.opened(.memory)
        case .disk(let through, let pin):
            self.pin = pin
            let scan = try copy.lane.scan(copy.id, after: after)
            #expect(scan.end >= through)
            self.scan = scan
            scans += 1
            let source = ChangeStream.Source.disk(through: scan.end, visible: scan.lastDocument)
            stream.opened(scan.isComplete ? source : .purged)
        case .unpersisted(let seqno): stream.opened(.unpersisted(seqno))
        case .purged: stream.opened(.purged)
        case .notReady: stream.opened(.notReady)
        }
    }

    /// False where everything was read.
    private func beginSnapshot() -> Bool {
        guard let cursor else { return false }
        let lists = stream.owesList
        let snapshot = copy.vBucket.withCore { core in
            let snapshot = core.snapshot(cursor, listsPrepares: lists)
            listed = core.outstanding(atEndOf: cursor)
            return snapshot
        }
        switch snapshot {
        case .range(let start, let end):
            #expect(start == stream.position)
            stream.found(snapshotThrough: end)
        case .drained:
            stream.found(snapshotThrough: nil)
            return false
        case .dropped:
            self.cursor = nil
            stream.cursorDropped()
        }
        return true
    }

    private func read(_ bytes: Int, _ last: Seqno) {
        guard let cursor else { return }
        var sent: Seqno?
        let outcome = copy.vBucket.withCore { core in
            core.read(cursor, bytesMax: bytes) { item in
                guard item.seqno <= last else { return }
                encoder.append(item, to: wire)
                sent = item.seqno
            }
        }
        guard outcome != .dropped else {
            self.cursor = nil
            return stream.cursorDropped()
        }
        stream.sent(through: sent, isEnded: outcome == .ended)
    }

    private func scan(_ bytes: Int, _ last: Seqno) throws {
        guard let scan else { return }
        var sent: Seqno?
        let progress = try scan.readSlice(
            bytesMax: bytes,
            isNeeded: { [copy] key, seqno in
                copy.vBucket.withCore {
                    $0.isNeeded(key, hash: copy.hash(key), seqno: seqno, through: scan.end)
                }
            },
            prepare: { [wire, encoder] prepare in
                guard prepare.meta.seqno <= last else { return }
                viewing(prepare.key) { key in
                    viewing(prepare.value) { value in
                        let change = DCPChange(meta: prepare.meta, key: key, value: value)
                        encoder.append(prepare: change, prepare.level, to: wire)
                    }
                }
                sent = prepare.meta.seqno
            },
            visit: { [wire, encoder] meta, key, value in
                guard meta.seqno <= last else { return }
                encoder.append(DCPChange(meta: meta, key: key, value: value), to: wire)
                sent = meta.seqno
            }
        )
        stream.sent(through: sent, isEnded: progress == .ended)
    }
}

extension DCPEncoder {
    func append(_ item: Item, to writer: ByteWriter) {
        let change = DCPChange(meta: item.meta, key: item.key, value: item.value)
        if let prepare = item.abortedPrepare {
            append(DCPAbort(seqno: item.seqno, prepare: prepare, key: item.key), to: writer)
        } else if let level = item.level {
            append(prepare: change, level, to: writer)
        } else {
            append(change, to: writer)
        }
    }
}

/// The consumer's hands: does what a `ReplicaStream` says, to a real copy.
final class Receiver {
    let copy: Copy
    var stream: ReplicaStream
    var debt = FlowDebt(bytesMax: 4_000)
    /// What the copy should have, by key.
    var mirror: [[UInt8]: Change] = [:]
    var resets = 0
    /// Called with the end of each snapshot.
    var didComplete: (Seqno) -> Void = { _ in }

    init(_ copy: Copy) {
        self.copy = copy
        stream = ReplicaStream(copy.resumePoint)
    }

    /// Takes whole frames off the front of `bytes`; returns how many bytes that were, and what is to
    /// be acknowledged.
    func receive(_ bytes: ByteView) throws -> (taken: Int, acknowledged: [UInt32]) {
        var taken = 0
        var acknowledged: [UInt32] = []
        while case .frame(let frame) = FrameDecoder().next(in: bytes.dropFirst(taken)) {
            switch NodeStreamMessage(frame) {
            case .changes(let message): try take(message)
            case .outstanding(let seqnos):
                #expect(stream.receivedOutstanding() == .announce)
                let isTaken = copy.vBucket.withCore { $0.announceOutstanding(seqnos) }
                #expect(isTaken)
            case .purge(let purge):
                #expect(stream.receivedPurge() == .notePurge)
                copy.vBucket.withCore {
                    $0.notePurge(through: purge.seqno, maxRevision: purge.maxRevision)
                }
            default:
                Issue.record("a message of our own is understood")
                return (bytes.count, [])
            }
            taken += frame.byteCount
            if let bytes = debt.applied(frame.byteCount) { acknowledged.append(bytes) }
        }
        return (taken, acknowledged)
    }

    private func take(_ message: DCPMessage) throws {
        switch message {
        case .snapshotMarker(let marker):
            guard case .beginSnapshot(let range) = stream.received(marker) else {
                Issue.record("\(marker) was refused at \(stream.high)")
                return
            }
            let isBegun = copy.vBucket.withCore { $0.beginSnapshot(range) }
            #expect(isBegun)
        case .change(let change): try take(change)
        case .prepare(let change, let level): take(change, level)
        case .abort(let abort): take(abort)
        case .seqnoAdvanced(let seqno):
            #expect(stream.received(advancedTo: seqno) == .advance(seqno))
            let isAdvanced = copy.vBucket.withCore { $0.advance(to: seqno) }
            #expect(isAdvanced)
            applied(seqno)
        default: Issue.record("\(message) was not expected")
        }
    }

    private func take(_ change: DCPChange) throws {
        let seqno = change.meta.seqno
        guard stream.received(changeAt: seqno) == .apply else {
            Issue.record("seqno \(seqno.value) was refused at \(stream.high)")
            return
        }
        for _ in 0..<10 {
            let outcome = copy.vBucket.withCore { core in
                core.apply(
                    change.meta,
                    key: change.key,
                    hash: copy.hash(change.key),
                    value: change.value,
                    copy.turn
                )
            }
            switch outcome {
            case .applied:
                let key = change.key.bytes
                mirror[key] = Change(key: key, meta: change.meta, value: change.value.bytes)
                return applied(seqno)
            case .wouldBlock(.metadata(let missing)): try copy.restore(missing)
            default:
                Issue.record("a change came to \(outcome)")
                return
            }
        }
        Issue.record("a change was never applied")
    }

    private func take(_ change: DCPChange, _ level: DurabilityLevel) {
        let seqno = change.meta.seqno
        #expect(stream.received(changeAt: seqno) == .apply)
        let outcome = copy.vBucket.withCore { core in
            core.applyPrepare(
                change.meta,
                level: level,
                key: change.key,
                hash: copy.hash(change.key),
                value: change.value,
                copy.turn
            )
        }
        guard case .applied = outcome else {
            Issue.record("a prepare came to \(outcome)")
            return
        }
        applied(seqno)
    }

    private func take(_ abort: DCPAbort) {
        #expect(stream.received(changeAt: abort.seqno) == .apply)
        let outcome = copy.vBucket.withCore { core in
            core.applyAbort(
                at: abort.seqno,
                of: abort.prepare,
                key: abort.key,
                hash: copy.hash(abort.key),
                copy.turn
            )
        }
        guard case .applied = outcome else {
            Issue.record("an abort came to \(outcome)")
            return
        }
        applied(abort.seqno)
    }

    private func applied(_ seqno: Seqno) {
        if let log = stream.applied(through: seqno) {
            copy.vBucket.withCore { $0.adoptHistory(log) }
            didComplete(seqno)
        }
        let covered = copy.vBucket.withCore { $0.coveredSeqno }
        #expect(covered == stream.covered)
    }

    /// Agrees with a producer on where to begin; the stream that this gives.
    func open(_ producer: Copy) throws -> (ChangeStream)? {
        var step = stream.open()
        for _ in 0..<6 {
            let opening = producer.vBucket.withCore {
                StreamOpening(log: $0.failoverLog, high: $0.highSeqno, purged: $0.purgeSeqno)
            }
            switch step {
            case .ask(let request):
                switch opening.answer(to: request) {
                case .accepted(let start, let promised, let end):
                    guard case .follow(let log) = stream.accepted(opening.log) else { return nil }
                    copy.vBucket.withCore { $0.adoptHistory(log) }
                    return ChangeStream(start: start, promised: promised, end: end)
                case .rollback(let seqno): step = stream.rolledBack(to: seqno)
                case .outOfRange:
                    Issue.record("\(request) was out of range")
                    return nil
                }
            case .askLog: step = stream.told(opening.log)
            case .rewind:
                try copy.reset()
                mirror = [:]
                resets += 1
                step = stream.restart(copy.resumePoint)
            case .follow, .stop:
                Issue.record("\(step) while opening")
                return nil
            }
        }
        Issue.record("the two do not agree")
        return nil
    }
}
