package import Vocabulary
package import Wire

/// The producer's side of one vBucket's stream of changes: decides each step, performs no I/O.
///
/// If memory has the changes after the stream's position, they are read from memory; else from disk
/// and then, without a gap, from memory. The caller (`VBucketFeed`) calls `next`, carries out the
/// step, reports the result, and calls `next` again.
///
/// - Every document is sent inside an announced snapshot, in seqno order.
/// - A snapshot ends at a closed boundary. If an announced snapshot cannot be sent to its end,
///   because its cursor was dropped, the next snapshot ends no earlier: until then the consumer's
///   copy has no consistent state.
/// - Every snapshot from the hash table or the disk begins with the list of the prepares that are
///   outstanding at its end, because it contains no aborts. So does the first snapshot that is sent
///   to its end, because the consumer may be inside a snapshot without aborts.
/// - If memory freed the following changes during three scans in a row, the fourth scan pins them.
///
/// In the mode `visibleOnly` prepares and aborts are not sent. A snapshot ends at its last visible
/// change and is not announced if it has none; `sendAdvanced` then declares that everything through
/// the boundary was sent. A prepare delays no other change: its commit has a seqno of its own.
package struct ChangeStream: Hashable, Sendable {
    /// Which changes are sent.
    package enum Mode: Hashable, Sendable {
        /// All changes: documents, tombstones, prepares, aborts; and lists of outstanding prepares.
        case replication
        /// Documents and tombstones: what clients may see.
        case visibleOnly
    }

    /// The next step of the stream.
    package enum Work: Hashable, Sendable {
        /// Find the changes after `after` (`VBucketCore.openChanges`), and release an older pin.
        case open(after: Seqno, promised: Seqno, pins: Bool)
        /// Wait until everything through this seqno is persisted, then call `next`.
        case persist(Seqno)
        /// Ask the cursor for its snapshot.
        case beginSnapshot
        case send(DCPSnapshotMarker)
        /// Read and send documents of the cursor's snapshot, none with a seqno above `last`.
        case read(bytesMax: Int, last: Seqno)
        /// Read and send a slice of documents from disk, none with a seqno above `last`.
        case scan(bytesMax: Int, last: Seqno)
        /// Send that the consumer has everything up to this seqno, although the last changes before
        /// it were not sent.
        case sendAdvanced(Seqno)
        case sendEnd(DCPStreamEnd)
        /// Wait for a change, or until the vBucket is ready.
        case sleep
        /// Wait until the consumer acknowledges bytes.
        case awaitRoom
        /// The stream is over: close its cursor and its scan.
        case done
    }

    /// The result of `Work.open`.
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
        /// The snapshot ends at `boundary`; all its changes after the marker's end are invisible.
        case announcing(DCPSnapshotMarker, boundary: Seqno)
        case sending(boundary: Seqno, isDisk: Bool)
        case advancing(Seqno)
        case ending(DCPStreamEnd)
        case over
    }

    package static let batchBytesMax = 256 << 10
    private static let scansMax = 3

    /// The stream ends after this seqno.
    package let end: Seqno
    /// Everything up to this seqno was sent.
    package private(set) var position: Seqno
    /// The end of the last announced snapshot, or of the snapshot that the consumer was in when it
    /// requested the stream.
    package private(set) var promised: Seqno
    /// Disk scans since changes were last read from memory.
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
    ///   - start: The consumer's position, from `StreamAnswer.accepted`.
    ///   - promised: The end of the snapshot that the consumer is in, from the same answer.
    ///   - end: The last seqno to send, from the same answer.
    ///   - mode: Which changes are sent.
    ///   - isOnce: Whether the stream ends after the first snapshot, for clients that request only
    ///     the present state.
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

    // MARK: Choosing the next step

    /// The next step, if the connection may send `room` bytes.
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

    /// Whether a snapshot that begins now has to begin with a list of outstanding prepares.
    package var owesList: Bool {
        mode == .replication && (listedThrough.map { position < $0 } ?? true)
    }

    /// Records that the list was sent with the marker of a snapshot through `end`.
    package mutating func listed(through end: Seqno) { listedThrough = end }

    /// Whether the next step is `Work.sleep`.
    package var isAsleep: Bool { state == .asleep }

    /// Whether the stream is over.
    package var isOver: Bool { state == .over }

    // MARK: Reporting results

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
            // The disk has less only if the copy was dropped or emptied while its file was opened.
            guard through >= promised else { return scanFailed() }
            announce(through, visible: visible, [.disk, .checkpoint])
        case .unpersisted(let seqno): state = .persisting(seqno)
        case .purged: state = .ending(.rollback)
        case .notReady: state = .asleep
        }
    }

    /// Reports the result of `Work.beginSnapshot`.
    ///
    /// - Parameters:
    ///   - end: The snapshot's boundary; nil if the cursor has read everything.
    ///   - visible: The last visible change in the snapshot; nil if it has none. Used only in the
    ///     mode `visibleOnly`.
    package mutating func found(snapshotThrough end: Seqno?, visible: Seqno? = nil) {
        guard state == .following else { return }
        guard let end else {
            state = .asleep
            return
        }
        announce(end, visible: visible ?? .zero, [.memory, .checkpoint])
    }

    /// Reports that the cursor was dropped because memory ran short.
    package mutating func cursorDropped() {
        hasCursor = false
        switch state {
        case .following, .asleep, .announcing, .sending, .advancing: state = .seeking
        case .seeking, .persisting, .ending, .over: break
        }
    }

    /// Reports that documents were sent.
    ///
    /// - Parameters:
    ///   - seqno: The last document's seqno; nil if there was none.
    ///   - isEnded: Whether the snapshot was read to its end.
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

    /// Ends the stream because the disk cannot be read, or its copy was replaced.
    package mutating func scanFailed() { finish(.backfillFailed) }

    /// Ends the stream: the vBucket's role changed, or the consumer requested it or is too slow.
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
        precondition(boundary >= promised, "a snapshot ends no earlier than the last announced one")
        guard boundary > position else {
            // The consumer has the whole snapshot, or a scan found nothing new.
            return finishSnapshot(boundary)
        }
        // The last change of an announced snapshot may be a tombstone that was purged since.
        let last = mode == .replication ? boundary : max(visible, promised)
        if last > position {
            let marker = DCPSnapshotMarker(start: position, end: last, flags: flags)
            state = .announcing(marker, boundary: boundary)
        } else if flags.contains(.memory) {
            // The cursor has to pass the invisible changes.
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
