package import Vocabulary
package import Wire

/// The producer's side of one vBucket's stream of changes: what to do next, never doing it.
///
/// Changes come from memory where memory has them, else from disk and then, without a gap, from
/// memory. Its owner calls `next`, carries out the step, reports the result, and calls again.
///
/// - Every document is sent inside a snapshot that was announced, in seqno order.
/// - A snapshot ends at a closed boundary. One that was announced and could not be sent to its end,
///   because memory ran short, is followed only by one that ends no earlier: before that the
///   consumer has nothing that makes sense.
/// - The first snapshot that is sent to its end tells which prepares are outstanding there, as do all
///   from a table or a disk: aborts leave nothing there, and the consumer may be inside such a one.
/// - After three scans that memory outran, the fourth has memory kept while it runs.
///
/// In the mode `visibleOnly` prepares and aborts are not sent. A snapshot ends at its last visible
/// change, and is not announced where it has none; then `sendAdvanced` tells that everything through
/// the boundary was sent. A prepare holds nothing back: its commit is a change with a seqno of its own.
package struct ChangeStream: Hashable, Sendable {
    /// Which changes are sent.
    package enum Mode: Hashable, Sendable {
        /// All: documents, tombstones, prepares and aborts, and lists of outstanding prepares.
        case replication
        /// Documents and tombstones: what clients may see.
        case visibleOnly
    }

    /// What to do next.
    package enum Work: Hashable, Sendable {
        /// Find the changes behind `after` (`VBucketCore.openChanges`); an older pin is let go.
        case open(after: Seqno, promised: Seqno, pins: Bool)
        /// Have everything through this persisted, then ask again.
        case persist(Seqno)
        /// Ask the cursor for its snapshot.
        case beginSnapshot
        case send(DCPSnapshotMarker)
        /// Read and send documents of the cursor's snapshot, none beyond `last`.
        case read(bytesMax: Int, last: Seqno)
        /// Read and send a slice from disk, none beyond `last`.
        case scan(bytesMax: Int, last: Seqno)
        /// The last changes up to here are not sent: say that everything up to here was.
        case sendAdvanced(Seqno)
        case sendEnd(DCPStreamEnd)
        /// Until a change comes, or the vBucket is ready.
        case sleep
        /// Until something is acknowledged.
        case awaitRoom
        /// The stream is over; cursor and scan are let go.
        case done
    }

    /// What a request for a source came to.
    package enum Source: Hashable, Sendable {
        case memory
        /// A scan through a closed boundary, and the last visible change in it.
        case disk(through: Seqno, visible: Seqno)
        case unpersisted(Seqno)
        case purged
        case notReady
    }

    private enum State: Hashable {
        case seeking
        case persisting(Seqno)
        case asleep
        case following
        /// The snapshot has changes through `boundary`, all those behind the marker's end invisible.
        case announcing(DCPSnapshotMarker, boundary: Seqno)
        case sending(boundary: Seqno, isDisk: Bool)
        case advancing(Seqno)
        case ending(DCPStreamEnd)
        case over
    }

    package static let batchBytesMax = 256 << 10
    private static let scansMax = 3

    /// The stream ends behind this.
    package let end: Seqno
    /// Everything up to here was sent.
    package private(set) var position: Seqno
    /// The end of the last snapshot that was announced, or that the consumer was in when it asked.
    package private(set) var promised: Seqno
    /// Scans in a row.
    private var scans = 0
    /// The last document that was sent.
    private var lastSent: Seqno
    private let isOnce: Bool
    private let mode: Mode
    /// The end of the last snapshot that began with a list of prepares.
    private var listedThrough: Seqno?
    private var hasCursor = false
    private var state = State.seeking

    /// - Parameters:
    ///   - start: Where the consumer stands, as `StreamAnswer.accepted` says it.
    ///   - promised: The same.
    ///   - end: The same.
    ///   - mode: Which changes are sent.
    ///   - isOnce: Ends with the first snapshot, as clients ask that want what is there now.
    package init(
        start: Seqno,
        promised: Seqno,
        end: Seqno,
        mode: Mode = .replication,
        isOnce: Bool = false
    ) {
        self.end = end
        self.mode = mode
        position = start
        lastSent = start
        self.isOnce = isOnce
        self.promised = max(promised, start)
        if start >= end { state = .ending(.finished) }
    }

    // MARK: Asking

    /// What to do next, where the connection may send `room` bytes.
    package mutating func next(room: Int) -> Work {
        switch state {
        case .seeking:
            return .open(
                after: position,
                promised: promised,
                pins: scans >= ChangeStream.scansMax
            )
        case .persisting(let seqno):
            state = .seeking
            return .persist(seqno)
        case .asleep:
            state = hasCursor ? .following : .seeking
            return .sleep
        case .over: return .done
        case .following: return .beginSnapshot
        case .announcing, .sending, .advancing, .ending: break
        }
        guard room > 0 else { return .awaitRoom }
        let bytes = min(room, ChangeStream.batchBytesMax)
        switch state {
        case .announcing(let marker, let boundary):
            promised = max(promised, marker.end)
            state = .sending(boundary: boundary, isDisk: marker.flags.contains(.disk))
            return .send(marker)
        case .sending(_, let isDisk):
            return isDisk ? .scan(bytesMax: bytes, last: end) : .read(bytesMax: bytes, last: end)
        case .advancing(let seqno):
            lastSent = seqno
            finishSnapshot(seqno)
            return .sendAdvanced(seqno)
        case .ending(let reason):
            state = .over
            return .sendEnd(reason)
        default: preconditionFailure("other states were handled above")
        }
    }

    /// A snapshot that begins now has to tell which prepares are outstanding at its end.
    package var owesList: Bool {
        mode == .replication && (listedThrough.map { position < $0 } ?? true)
    }

    /// The list was sent with the marker of a snapshot through `end`.
    package mutating func listed(through end: Seqno) { listedThrough = end }

    /// Nothing is left to do.
    package var isOver: Bool { state == .over }

    // MARK: Telling

    package mutating func opened(_ source: Source) {
        guard state == .seeking else { return }
        hasCursor = false
        switch source {
        case .memory:
            scans = 0
            hasCursor = true
            state = .following
        case .disk(let through, let visible):
            scans += 1
            // The copy was dropped, or emptied, while its file was opened.
            guard through >= promised else { return scanFailed() }
            announce(through, visible: visible, [.disk, .checkpoint])
        case .unpersisted(let seqno): state = .persisting(seqno)
        case .purged: state = .ending(.rollback)
        case .notReady: state = .asleep
        }
    }

    /// What the cursor has: a snapshot through `end`, or nothing for now where that is nil.
    ///
    /// - Parameters:
    ///   - end: The boundary.
    ///   - visible: The last visible change in the snapshot; nil where it has none. Counts in the mode
    ///     `visibleOnly`.
    package mutating func found(snapshotThrough end: Seqno?, visible: Seqno? = nil) {
        guard state == .following else { return }
        guard let end else {
            state = .asleep
            return
        }
        announce(end, visible: visible ?? .zero, [.memory, .checkpoint])
    }

    /// The cursor was dropped: memory is needed for other things.
    package mutating func cursorDropped() {
        hasCursor = false
        switch state {
        case .following, .asleep, .announcing, .sending, .advancing: state = .seeking
        case .seeking, .persisting, .ending, .over: break
        }
    }

    /// Documents through `seqno` were sent, if there was one; all of the snapshot, where it ended.
    package mutating func sent(through seqno: Seqno?, isEnded: Bool) {
        guard case .sending(let boundary, _) = state else { return }
        if let seqno {
            precondition(seqno > lastSent, "documents are sent in the order of their seqnos")
            lastSent = seqno
            position = seqno
        }
        if position >= end || (isEnded && boundary >= end) {
            state = .ending(.finished)
        } else if isEnded {
            if lastSent < boundary {
                state = .advancing(boundary)
            } else {
                finishSnapshot(boundary)
            }
        }
    }

    /// The disk could not be read, or has another copy by now.
    package mutating func scanFailed() { finish(.backfillFailed) }

    /// The stream has to end: the vBucket changed, the consumer asked, or is too slow.
    package mutating func finish(_ reason: DCPStreamEnd) {
        if state != .over { state = .ending(reason) }
    }

    /// Ends the stream without a message, after its connection was lost.
    package mutating func abandon() { state = .over }

    private mutating func announce(
        _ boundary: Seqno,
        visible: Seqno,
        _ flags: DCPSnapshotFlags
    ) {
        precondition(boundary >= promised, "a snapshot that was announced is sent to its end")
        guard boundary > position else {
            // The consumer has all of it, or a scan found nothing new.
            return finishSnapshot(boundary)
        }
        // Of a snapshot that was announced the last change may be a tombstone that was purged since.
        let last = mode == .replication ? boundary : max(visible, promised)
        if last > position {
            let marker = DCPSnapshotMarker(start: position, end: last, flags: flags)
            state = .announcing(marker, boundary: boundary)
        } else if flags.contains(.memory) {
            // The cursor has to pass what is not sent.
            state = .sending(boundary: boundary, isDisk: false)
        } else if boundary >= end {
            state = .ending(.finished)
        } else {
            state = .advancing(boundary)
        }
    }

    private mutating func finishSnapshot(_ seqno: Seqno) {
        position = max(position, seqno)
        let isFinished = position >= end || isOnce
        state = isFinished ? .ending(.finished) : hasCursor ? .following : .seeking
    }
}
