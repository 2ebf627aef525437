package import Bytes
internal import Engine
internal import Persistence
internal import Replication
internal import Seams
package import Vocabulary
internal import Wire

/// The changes of one vBucket, from memory and disk without a gap, for one consumer.
///
/// `ChangeStream` decides, and the feed acts: it owns the cursor and the scan, reads memory under
/// the vBucket's lock, and reads the disk on a lane. The consumer calls `step` with its credit
/// until there is no work, and again after `wake`.
///
/// - The consumer's encoding copies each change once, directly to its destination.
/// - Nothing waits for the consumer. The pager drops the cursor of a slow consumer, whose feed then
///   continues from disk; `endIfStalled` ends a scan that does not progress.
/// - A visible-only feed belongs to one history. If the copy's history changes its UUID, or the
///   copy is dropped, the feed ends with `stateChanged`, and the consumer opens a new one with the
///   UUID that it knows.
/// - Used by one thread at a time. Other lanes only put their result into the inbox.
package final class VBucketFeed {
    /// The number of documents up to which the table is walked in one hold of the lock; above it
    /// the disk is read.
    private static let residentMax = 50_000

    /// The copy that the feed reads.
    struct Place {
        let bucket: OpenBucket
        let vBucket: VBucket
        let id: VBucketID
        /// The history that the feed belongs to.
        let uuid: VBucketUUID
    }

    /// The open readers of the feed.
    struct Source {
        var cursor: CursorID?
        /// Keeps the changes after a scan in memory.
        var pin: CursorID?
        var scan: VBucketScan?
        /// Prepares that are outstanding at the end of the cursor's snapshot; nil if they need not
        /// be listed.
        var listed: [Seqno]?
    }

    let place: Place
    let consumer: FeedConsumer
    let service: DocumentService
    let inbox = FeedInbox()
    var machine: ChangeStream
    var source = Source()
    /// A lane reads for the feed; `step` does nothing until the result is in the inbox.
    var isReading = false
    private var listener: UInt64 = 0
    private var isClosed = false
    /// When the feed last progressed, in monotonic nanoseconds.
    private var movedAt: UInt64

    init(
        _ place: Place,
        _ machine: ChangeStream,
        for consumer: FeedConsumer,
        service: DocumentService
    ) {
        self.place = place
        self.machine = machine
        self.consumer = consumer
        self.service = service
        movedAt = service.environment.time.monotonicNanoseconds()
        let wake = consumer.wake
        listener = place.bucket.traffic.listen(to: place.id) { news in
            if case .acknowledged = news { return }
            wake()
        }
    }

    deinit { close() }

    // MARK: For the consumer

    package var bucket: OpenBucket { place.bucket }

    /// The seqno through which every change was encoded.
    package var position: Seqno { machine.position }

    /// Whether the feed reads a snapshot from disk.
    var isReadingDisk: Bool { source.scan != nil }

    /// Whether a lane reads changes from disk, whose result is encoded regardless of credit.
    var isReadingChanges: Bool { isReading && source.scan != nil }

    /// Whether a lane has left a result, which the next step encodes regardless of credit.
    var hasResult: Bool { isReading && inbox.isFull }

    /// Does one step and appends its items to `output`.
    ///
    /// - Parameters:
    ///   - credit: The bytes that the consumer accepts; one change may exceed it, since changes are
    ///   not split.
    ///   - output: Where the consumer's encoding writes.
    /// - Returns: When to step again.
    package func step(credit: Int, into output: ByteWriter) -> StreamProgress {
        guard !isClosed else { return .over }
        let before = output.count
        let progress = advance(credit, output)
        if output.count > before { recordMove() }
        return progress
    }

    /// Restarts the stall timeout: the consumer itself delays the feed.
    package func recordMove() { movedAt = service.environment.time.monotonicNanoseconds() }

    /// Ends the feed with `slow` if its scan made no progress for
    /// `Limits.backfillStallMilliseconds`: an open scan keeps compaction from freeing space.
    ///
    /// - Returns: Whether the feed was ended.
    package func endIfStalled() -> Bool {
        let now = service.environment.time.monotonicNanoseconds()
        let limit = Limits.backfillStallMilliseconds * 1_000_000
        guard source.scan != nil, !isReading, now &- movedAt > limit else { return false }
        machine.finish(.slow)
        source.scan = nil
        return true
    }

    /// Releases all resources; nothing is encoded from now on.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        machine.abandon()
        source.scan = nil
        guard !bucket.traffic.isEnded else { return }
        bucket.traffic.ignore(place.id, listener)
        guard source.cursor != nil || source.pin != nil else { return }
        let (cursor, pin) = (source.cursor, source.pin)
        place.vBucket.withCore { core in
            if let cursor { core.closeCursor(cursor) }
            if let pin { core.closeCursor(pin) }
        }
    }

    var isVisibleOnly: Bool { consumer.mode == .visibleOnly }

    private func admits(_ core: borrowing VBucketCore) -> Bool {
        guard consumer.admits(core) else { return false }
        return !isVisibleOnly || (core.uuid == place.uuid && core.isThere)
    }

    // MARK: Steps

    private func advance(_ credit: Int, _ output: ByteWriter) -> StreamProgress {
        if isReading {
            guard let result = inbox.remove() else { return .asleep }
            handle(result, output)
            return .again
        }
        if bucket.isRetired { machine.finish(.stateChanged) }
        switch machine.next(room: credit) {
        case .open(let after, let promised, let pins):
            open(after: after, promised: promised, pins: pins)
        case .persist(let seqno):
            let isPersisted = place.vBucket.withCore { $0.durableSeqno >= seqno }
            guard !isPersisted else { return .again }
            bucket.disk?.flushNow(place.id)
            return .asleep
        case .beginSnapshot: beginSnapshot()
        case .send(let marker): announce(marker, output)
        case .read(let bytes, let last): read(bytes, last, to: output)
        case .scan(let bytes, let last): readDisk(bytes, last)
        case .sendAdvanced(let seqno): consumer.encode(.advanced(to: seqno), output)
        case .sendEnd(let reason):
            consumer.encode(reason == .rollback ? .purged : .end(reason), output)
            close()
            return .over
        case .sleep: return .asleep
        case .awaitRoom: return .awaitsCredit
        case .done:
            close()
            return .over
        }
        // In the step that found nothing: a change behind it wakes the consumer, which may take that
        // for a part of this step's work, and a step that only sleeps does not find it.
        if machine.isAsleep { return advance(credit, output) }
        return isReading ? .asleep : .again
    }

    private func open(after: Seqno, promised: Seqno, pins: Bool) {
        source.scan = nil
        let found: ChangeSource? = place.vBucket.withCore { core in
            guard admits(core) else { return nil }
            let found = core.openChanges(
                after: after,
                promised: promised,
                pins: pins,
                residentMax: VBucketFeed.residentMax,
                ignoresPurges: consumer.ignoresPurges,
                readsDiskOnly: consumer.readsDiskOnly
            )
            if let pin = source.pin { core.closeCursor(pin) }
            source.pin = nil
            return found
        }
        switch found {
        case .memory(let cursor):
            source.cursor = cursor
            machine.opened(.memory)
        case .disk(let through, _) where consumer.readsDiskOnly && through <= after:
            // Without changes there may be no file.
            machine.finish(.finished)
        case .disk(_, let pin):
            source.pin = pin
            openScan(after: after)
        case .unpersisted(let seqno): machine.opened(.unpersisted(seqno))
        case .purged: machine.opened(.purged)
        case .notReady: machine.opened(.notReady)
        case nil: machine.finish(.stateChanged)
        }
    }

    private func beginSnapshot() {
        guard let cursor = source.cursor else { return machine.cursorDropped() }
        let lists = machine.owesList
        var visible: Seqno?
        let snapshot: CursorSnapshot? = place.vBucket.withCore { core in
            guard admits(core) else { return nil }
            let snapshot = core.snapshot(cursor, listsPrepares: lists)
            if isVisibleOnly {
                visible = core.lastVisible(before: cursor)
            } else {
                source.listed = core.outstanding(atEndOf: cursor)
            }
            return snapshot
        }
        switch snapshot {
        case .range(_, let end): machine.found(snapshotThrough: end, visible: visible)
        case .drained: machine.found(snapshotThrough: nil)
        case .dropped:
            source.cursor = nil
            machine.cursorDropped()
        case nil: machine.finish(.stateChanged)
        }
    }

    /// Encodes a marker with the prepares that are outstanding at its end and, if the snapshot
    /// begins at zero, the purged tombstones.
    private func announce(_ marker: DCPSnapshotMarker, _ output: ByteWriter) {
        guard !isVisibleOnly else {
            let snapshot = FeedSnapshot(marker: marker, purge: nil, outstanding: nil)
            return consumer.encode(.snapshot(snapshot), output)
        }
        let beginsAtZero = marker.start == .zero
        let purge = beginsAtZero ? purged : nil
        guard purge != nil || !beginsAtZero else { return machine.finish(.stateChanged) }
        let outstanding = source.scan?.outstanding ?? source.listed
        let snapshot = FeedSnapshot(
            marker: marker,
            purge: purge.flatMap { $0.seqno > .zero ? $0 : nil },
            outstanding: outstanding
        )
        consumer.encode(.snapshot(snapshot), output)
        if outstanding != nil { machine.listed(through: marker.end) }
    }

    /// Read after the source was opened: the source still contains what is purged later.
    private var purged: NodePurge? {
        place.vBucket.withCore { core in
            guard admits(core) else { return nil }
            return NodePurge(seqno: core.purgeSeqno, maxRevision: core.maxRevision)
        }
    }

    private func read(_ bytes: Int, _ last: Seqno, to output: ByteWriter) {
        guard let cursor = source.cursor else { return machine.cursorDropped() }
        var sent: Seqno?
        let (encode, isVisibleOnly) = (consumer.encode, isVisibleOnly)
        let outcome: CursorRead? = place.vBucket.withCore { core in
            guard admits(core) else { return nil }
            return core.read(cursor, bytesMax: bytes) { item in
                let seqno = item.seqno
                guard seqno <= last, !isVisibleOnly || item.isVisible else { return }
                encode(FeedItem(item), output)
                sent = seqno
            }
        }
        switch outcome {
        case .more: machine.sent(through: sent, isEnded: false)
        case .ended: machine.sent(through: sent, isEnded: true)
        case .dropped:
            source.cursor = nil
            machine.cursorDropped()
        case nil: machine.finish(.stateChanged)
        }
    }
}

extension FeedItem {
    /// An entry of the change order.
    @inline(__always)
    fileprivate init(_ item: Item) {
        if let prepare = item.abortedPrepare {
            self = .abort(DCPAbort(seqno: item.seqno, prepare: prepare, key: item.key))
            return
        }
        let change = DCPChange(meta: item.meta, key: item.key, value: item.value)
        if let level = item.level {
            self = .prepare(change, level)
        } else {
            self = .change(change)
        }
    }
}
