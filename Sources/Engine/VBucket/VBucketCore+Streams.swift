package import Bytes
package import Vocabulary

/// Where a stream can read the changes after its position.
package enum ChangeSource: Hashable, Sendable {
    /// All changes are in memory: read them with this cursor.
    case memory(CursorID)
    /// The changes are on disk through a closed boundary; then call `openChanges` again. `pin` is a
    /// cursor that keeps the later changes in memory.
    case disk(through: Seqno, pin: CursorID?)
    /// The changes are on disk once the flusher has persisted them through this seqno.
    case unpersisted(Seqno)
    /// Tombstones after the reader's position were purged: the reader has to restart from zero.
    case purged
    /// The vBucket has no source yet: it loads documents, or the replica receives a snapshot.
    case notReady
}

/// The vBucket's interface for streams of changes.
extension VBucketCore {
    /// Finds a source of the changes after `seqno` and opens a cursor, in one hold of the lock.
    ///
    /// Memory has the changes if a cursor can be opened at `seqno`, or if every document is
    /// resident. After a disk scan the stream calls this again with the scan's end, so it misses no
    /// change.
    ///
    /// - Parameters:
    ///   - seqno: The reader's position.
    ///   - promised: The end of the last announced snapshot; the source has to reach it.
    ///   - pins: Whether to keep later changes in memory while the disk is read, so that a stream
    ///     whose earlier scans were outrun catches up.
    ///   - residentMax: With more documents than this, the table is not visited in one hold of the
    ///     lock.
    ///   - ignoresPurges: Whether the reader does without tombstones that were purged.
    ///   - readsDiskOnly: Whether a persistent vBucket is read from disk although memory has the
    ///     changes.
    /// - Returns: The source.
    package mutating func openChanges(
        after seqno: Seqno,
        promised: Seqno = .zero,
        pins: Bool = false,
        residentMax: Int = .max,
        ignoresPurges: Bool = false,
        readsDiskOnly: Bool = false
    ) -> ChangeSource {
        guard isLoaded else { return .notReady }
        guard openSnapshot == nil else {
            return openBesideSnapshot(after: seqno, promised: promised, residentMax: residentMax)
        }
        let readsMemory = !(readsDiskOnly && isPersistent)
        if readsMemory, let cursor = checkpoint.openCursor(at: seqno) { return .memory(cursor) }
        guard ignoresPurges || seqno == .zero || seqno >= purgeSeqno else { return .purged }
        if readsMemory, isWalkable(residentMax: residentMax) {
            return .memory(openBackfill(after: seqno))
        }
        guard persistedSeqno >= promised else { return .unpersisted(promised) }
        guard isWholeOnDisk else {
            drainEarly()
            return .unpersisted(highSeqno)
        }
        let pin = pins ? checkpoint.openCursor(at: persistedSeqno) : nil
        return .disk(through: persistedSeqno, pin: pin)
    }

    /// Whether memory has every document, and few enough to visit the table in one hold of the
    /// lock.
    func isWalkable(residentMax: Int) -> Bool {
        guard isPersistent else { return true }
        return ejectedCount == 0 && ejectedTombstoneCount == 0 && table.stubCount == 0
            && liveCount + tombstoneCount <= residentMax
    }

    /// Opens a cursor whose first snapshot, through the high seqno, has all documents and prepares
    /// after `seqno`.
    mutating func openBackfill(after seqno: Seqno, id: CursorID? = nil) -> CursorID {
        var list: [UInt64] = []
        let next = table.visit(from: 0, groupsMax: .max / 2) { item in
            if item.seqno > seqno { list.append(UInt64(UInt(bitPattern: item.address))) }
        }
        precondition(next == nil, "one visit covers the whole table")
        for prepare in prepares.list where prepare.seqno > seqno {
            list.append(UInt64(UInt(bitPattern: prepare.item.address)))
        }
        list.sort { Checkpoint.Entry(word: $0).item.seqno < Checkpoint.Entry(word: $1).item.seqno }
        // A visit may return an item twice.
        var kept = 0
        for index in list.indices where index == 0 || list[index] != list[index - 1] {
            list[kept] = list[index]
            kept += 1
        }
        list.removeLast(list.count - kept)
        let outstanding = prepares.list.map(\.seqno)
        return checkpoint.openBackfill(after: seqno, list, outstanding: outstanding, id: id)
    }

    /// The prepares outstanding at the end of a cursor's snapshot, if the snapshot comes from the
    /// table or was begun with `listsPrepares`; else nil, because the change order contains the
    /// aborts.
    package func outstanding(atEndOf cursor: CursorID) -> [Seqno]? {
        checkpoint.index(cursor).flatMap { checkpoint.cursors[$0].outstanding }
    }

    /// The snapshot that a cursor reads next; a new snapshot closes a boundary.
    ///
    /// - Parameters:
    ///   - cursor: The cursor.
    ///   - listsPrepares: Whether to list the outstanding prepares. A reader inside a snapshot from
    ///     the table or the disk needs the list: such a snapshot contains no aborts.
    /// - Returns: The snapshot's range, `drained` or `dropped`.
    package mutating func snapshot(
        _ cursor: CursorID,
        listsPrepares: Bool = false
    ) -> CursorSnapshot {
        guard openSnapshot == nil else {
            return snapshotBesideSnapshot(cursor, listsPrepares: listsPrepares)
        }
        if !waitingReaders.isEmpty { waitingReaders.remove(cursor) }
        let isNew = listsPrepares && !checkpoint.isInSnapshot(cursor)
        let snapshot = checkpoint.snapshot(cursor)
        if isNew, case .range = snapshot {
            checkpoint.note(outstanding: prepares.list.map(\.seqno), for: cursor)
        }
        return snapshot
    }

    /// Has `takeOwedStreamWake` return true at the next change, for a reader without a cursor.
    package mutating func awaitNextChange() { checkpoint.hasWaitingCursor = true }

    /// Reads the next part of a cursor's snapshot; calls `visit` with each document under the lock.
    package mutating func read(
        _ cursor: CursorID,
        bytesMax: Int,
        _ visit: (Item) -> Void
    ) -> CursorRead {
        checkpoint.read(cursor, bytesMax: bytesMax, visit)
    }

    /// The last visible change that a cursor has yet to read of its snapshot; nil if there is none.
    package func lastVisible(before cursor: CursorID) -> Seqno? { checkpoint.lastVisible(cursor) }

    /// Closes a cursor and frees what only it had to read.
    package mutating func closeCursor(_ cursor: CursorID) {
        checkpoint.closeCursor(cursor)
        waitingReaders.remove(cursor)
    }

    /// Closes the slowest cursor (`Checkpoint.slowestCursor`); nil if there is none to close.
    package mutating func dropSlowestCursor() -> CursorID? {
        guard let slowest = checkpoint.slowestCursor else { return nil }
        checkpoint.closeCursor(slowest)
        // The cursor's reader may be waiting and has to be woken.
        checkpoint.owesStreams = true
        return slowest
    }

    /// Closes all cursors; returns how many there were.
    package mutating func dropCursors() -> Int {
        let ids = checkpoint.cursors.map(\.id)
        for id in ids { checkpoint.closeCursor(id) }
        if !ids.isEmpty { checkpoint.owesStreams = true }
        return ids.count
    }

    /// Whether the senders of streams have to be woken; resets that flag.
    @inline(__always)
    package mutating func takeOwedStreamWake() -> Bool {
        guard checkpoint.owesStreams else { return false }
        checkpoint.owesStreams = false
        return true
    }

    /// Whether a reader of the disk has to send the version of `key` at `seqno` for a snapshot
    /// through `end`.
    ///
    /// True if the version is the newest, or if its replacement is not in the snapshot. If memory
    /// has only stubs, any stub with the key's hash bits and a seqno above `end` counts as the
    /// replacement: sending a version too many is harmless, as the newer one follows.
    package func isNeeded(
        _ key: ByteView,
        hash: UInt64,
        seqno: Seqno,
        through end: Seqno
    ) -> Bool {
        if let item = table.find(key, hash: hash)?.item {
            return item.seqno == seqno || item.seqno > end
        }
        return table.findStub(hash) { $0.seqno == seqno.value || $0.seqno > end.value } != nil
    }
}

extension Bucket {
    /// Drops cursors of the vBuckets whose checkpoints hold the most memory, until all checkpoints
    /// are within their share of the quota, a fifth.
    ///
    /// - Returns: The vBuckets whose streams continue from disk.
    package func dropSlowCursors() -> [VBucketID] {
        guard account.checkpointBytes > account.checkpointShare else { return [] }
        var holders: [(vBucket: VBucket, bytes: Int)] = []
        for vBucket in all {
            let bytes = vBucket.withCore {
                $0.checkpoint.slowestCursor == nil ? 0 : $0.checkpoint.bytesHeld
            }
            if bytes > 0 { holders.append((vBucket, bytes)) }
        }
        var dropped: [VBucketID] = []
        for holder in holders.sorted(by: { $0.bytes > $1.bytes }) {
            holder.vBucket.withCore { core in
                var isDropped = false
                while account.checkpointBytes > account.checkpointShare,
                    core.dropSlowestCursor() != nil
                {
                    isDropped = true
                }
                if isDropped { dropped.append(core.id) }
            }
        }
        return dropped
    }
}
