internal import Bytes
internal import Engine
internal import Persistence
internal import Replication
internal import Vocabulary
internal import Wire

/// One vBucket's changes on their way to another node: a `ChangeStream` and what it holds on to.
final class OutgoingStream {
    let address: NodeStreamAddress
    let fence: UInt64
    let bucket: OpenBucket
    let vBucket: VBucket
    let encoder: DCPEncoder
    /// Tells it from one before it at the same address.
    let ticket: UInt64
    var machine: ChangeStream
    var listener: UInt64 = 0
    /// A lane reads for it; until it has, nothing else is done.
    var isBusy = false
    var isQueued = false
    var isStarved = false
    /// Clients come first.
    var isWaiting = false
    var isOver = false
    /// Until it was sent through here, the other side builds a copy that nobody counts on.
    let buildsThrough: Seqno?
    /// When it last got somewhere, in monotonic nanoseconds.
    var movedAt: UInt64
    var scan: VBucketScan?
    private var cursor: CursorID?
    private var pin: CursorID?
    /// Outstanding at the end of the cursor's snapshot, where that has to be told.
    private var listed: [Seqno]?

    init(
        _ address: NodeStreamAddress,
        fence: UInt64,
        bucket: OpenBucket,
        vBucket: VBucket,
        ticket: UInt64,
        machine: ChangeStream,
        buildsThrough: Seqno?,
        now: UInt64
    ) {
        self.address = address
        self.fence = fence
        self.bucket = bucket
        self.vBucket = vBucket
        self.ticket = ticket
        self.machine = machine
        self.buildsThrough = buildsThrough
        movedAt = now
        encoder = DCPEncoder(vBucket: address.vBucket, opaque: address.opaque)
    }

    /// Lets go of everything; nothing is sent any more.
    func end() {
        guard !isOver else { return }
        isOver = true
        machine.abandon()
        letGo()
        bucket.traffic.ignore(address.vBucket, listener)
    }

    private func letGo() {
        scan = nil
        guard cursor != nil || pin != nil else { return }
        let (cursor, pin) = (cursor, pin)
        vBucket.withCore { core in
            if let cursor { core.closeCursor(cursor) }
            if let pin { core.closeCursor(pin) }
        }
        self.cursor = nil
        self.pin = nil
    }

    /// What it sends can wait for clients.
    var canWait: Bool { buildsThrough.map { machine.position < $0 } ?? false }

    /// Reading on from disk, so that a stream that waits for nobody's acknowledgement can be told.
    var isBackfill: Bool { scan != nil }

    // MARK: Under the vBucket's lock

    /// Finds a source; returns what only a lane can open.
    func open(after: Seqno, promised: Seqno, pins: Bool) -> (after: Seqno, through: Seqno)? {
        scan = nil
        let source: ChangeSource? = vBucket.withCore { core in
            guard core.feeds(fence) else { return nil }
            let source = core.openChanges(
                after: after,
                promised: promised,
                pins: pins,
                residentMax: OutgoingStream.residentMax
            )
            if let pin { core.closeCursor(pin) }
            pin = nil
            return source
        }
        switch source {
        case .memory(let cursor):
            self.cursor = cursor
            machine.opened(.memory)
        case .disk(let through, let pin):
            self.pin = pin
            return (after, through)
        case .unpersisted(let seqno): machine.opened(.unpersisted(seqno))
        case .purged: machine.opened(.purged)
        case .notReady: machine.opened(.notReady)
        case nil: machine.finish(.stateChanged)
        }
        return nil
    }

    /// More documents than this are not walked in one hold of the lock: the disk is read instead.
    private static let residentMax = 50_000

    func beginSnapshot() {
        guard let cursor else { return machine.cursorDropped() }
        let lists = machine.owesList
        let snapshot: CursorSnapshot? = vBucket.withCore { core in
            guard core.feeds(fence) else { return nil }
            let snapshot = core.snapshot(cursor, listsPrepares: lists)
            listed = core.outstanding(atEndOf: cursor)
            return snapshot
        }
        switch snapshot {
        case .range(_, let end): machine.found(snapshotThrough: end)
        case .drained: machine.found(snapshotThrough: nil)
        case .dropped:
            self.cursor = nil
            machine.cursorDropped()
        case nil: machine.finish(.stateChanged)
        }
    }

    /// Announces a snapshot, and with it what is outstanding at its end; where it begins with
    /// nothing, also what was purged of it.
    func send(_ marker: DCPSnapshotMarker, into output: ByteWriter) {
        let beginsWithNothing = marker.start == .zero
        let purge = beginsWithNothing ? purged : nil
        guard purge != nil || !beginsWithNothing else { return machine.finish(.stateChanged) }
        encoder.append(marker, to: output)
        if let purge, purge.seqno > .zero {
            NodeStreamEncoder.append(purge, at: address, to: output)
        }
        guard let outstanding = scan?.outstanding ?? listed else { return }
        NodeStreamEncoder.append(outstanding: outstanding, at: address, to: output)
        machine.listed(through: marker.end)
    }

    /// Asked for once the source is open: what is purged later the source still has.
    private var purged: NodePurge? {
        vBucket.withCore { core in
            guard core.feeds(fence) else { return nil }
            return NodePurge(seqno: core.purgeSeqno, maxRevision: core.maxRevision)
        }
    }

    func read(_ bytes: Int, _ last: Seqno, into output: ByteWriter) {
        guard let cursor else { return machine.cursorDropped() }
        var sent: Seqno?
        let outcome: CursorRead? = vBucket.withCore { core in
            guard core.feeds(fence) else { return nil }
            return core.read(cursor, bytesMax: bytes) { item in
                guard item.seqno <= last else { return }
                encoder.append(item, to: output)
                sent = item.seqno
            }
        }
        switch outcome {
        case .more: machine.sent(through: sent, isEnded: false)
        case .ended: machine.sent(through: sent, isEnded: true)
        case .dropped:
            self.cursor = nil
            machine.cursorDropped()
        case nil: machine.finish(.stateChanged)
        }
    }

    /// Whether everything through `seqno` is on disk.
    func isPersisted(_ seqno: Seqno) -> Bool {
        vBucket.withCore { $0.durableSeqno >= seqno }
    }

    // MARK: From disk

    /// A part of a scan, encoded on another lane.
    struct Slice: Sendable {
        var bytes: [UInt8] = []
        var last: Seqno?
        var isEnded = false
    }

    /// What a lane needs to read on, without the stream itself.
    struct Reading: Sendable {
        let scan: VBucketScan
        let vBucket: VBucket
        let hash: KeyHash
        let encoder: DCPEncoder

        /// Reads a slice; on a lane that may wait for the disk.
        func slice(
            bytesMax: Int,
            last: Seqno,
            _ scratch: ByteWriter
        ) throws(StorageError) -> Slice {
            scratch.removeAll(keepingAtMost: 1 << 20)
            var slice = Slice()
            let progress = try scan.slice(
                bytesMax: bytesMax,
                isNeeded: { key, seqno in
                    vBucket.withCore {
                        $0.isNeeded(key, hash: hash(key), seqno: seqno, through: scan.end)
                    }
                },
                prepare: { prepare in
                    guard prepare.meta.seqno <= last else { return }
                    encoder.append(prepare, to: scratch)
                    slice.last = prepare.meta.seqno
                },
                visit: { meta, key, value in
                    guard meta.seqno <= last else { return }
                    let change = DCPChange(meta: meta, key: key, value: value)
                    encoder.append(change, to: scratch)
                    slice.last = meta.seqno
                }
            )
            slice.isEnded = progress == .ended
            slice.bytes = scratch.bytes
            return slice
        }
    }
}

extension DCPEncoder {
    /// Appends an entry of the change order: a version, a prepare or an abort.
    func append(_ item: Item, to writer: ByteWriter) {
        if let prepare = item.abortedPrepare {
            append(DCPAbort(seqno: item.seqno, prepare: prepare, key: item.key), to: writer)
            return
        }
        let change = DCPChange(meta: item.meta, key: item.key, value: item.value)
        if let level = item.level {
            append(prepare: change, level, to: writer)
        } else {
            append(change, to: writer)
        }
    }

    func append(_ prepare: StoredPrepare, to writer: ByteWriter) {
        prepare.key.withUnsafeBytes { key in
            prepare.value.withUnsafeBytes { value in
                let (key, value) = (ByteView(key), ByteView(value))
                let change = DCPChange(meta: prepare.meta, key: key, value: value)
                append(prepare: change, prepare.level, to: writer)
            }
        }
    }
}
