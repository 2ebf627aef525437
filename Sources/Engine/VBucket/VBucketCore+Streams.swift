package import Bytes
package import Vocabulary

/// Where the changes behind some seqno are to be had.
package enum ChangeSource: Hashable, Sendable {
    /// In memory, all of them: read with this cursor.
    case memory(CursorID)
    /// On disk through a closed boundary, then somewhere again; `pin` keeps what comes behind it.
    case disk(through: Seqno, pin: CursorID?)
    /// On disk, once more of memory is persisted: through `seqno` at least.
    case unpersisted(Seqno)
    /// Nowhere: tombstones behind `seqno` were forgotten, so the reader has to begin anew.
    case purged
    /// Nowhere yet: documents are being loaded, or a snapshot is being received.
    case notReady
}

/// What streams of changes ask of a vBucket.
extension VBucketCore {
    /// Finds the changes behind `seqno` and holds on to them, in one hold of the lock.
    ///
    /// Memory has them if a cursor can be placed, or if every document is here. A disk scan that has
    /// reached its end comes here again, and so no change falls between the two.
    ///
    /// - Parameters:
    ///   - seqno: What the reader has.
    ///   - promised: The end of a snapshot that it was told of; the source has to reach it.
    ///   - pins: Memory is to be kept while the disk is read: that has to come to an end.
    ///   - residentMax: With more documents than this, the table is not walked in one go.
    /// - Returns: Where they are.
    package mutating func openChanges(
        after seqno: Seqno,
        promised: Seqno = .zero,
        pins: Bool = false,
        residentMax: Int = .max
    ) -> ChangeSource {
        guard isLoaded else { return .notReady }
        guard openSnapshot == nil else {
            return openBesideSnapshot(after: seqno, promised: promised, residentMax: residentMax)
        }
        if let cursor = checkpoint.openCursor(at: seqno) { return .memory(cursor) }
        guard seqno == .zero || seqno >= purgeSeqno else { return .purged }
        if isWalkable(residentMax: residentMax) { return .memory(openBackfill(after: seqno)) }
        guard persistedSeqno >= promised else { return .unpersisted(promised) }
        guard isWholeOnDisk else {
            drainEarly()
            return .unpersisted(highSeqno)
        }
        let pin = pins ? checkpoint.openCursor(at: persistedSeqno) : nil
        return .disk(through: persistedSeqno, pin: pin)
    }

    /// Memory has every document, few enough to walk the table in one hold of the lock.
    func isWalkable(residentMax: Int) -> Bool {
        guard isPersistent else { return true }
        return ejectedCount == 0 && table.stubCount == 0
            && liveCount + tombstoneCount <= residentMax
    }

    /// All documents newer than `seqno`, and prepares, as one snapshot through the high seqno.
    mutating func openBackfill(after seqno: Seqno, id: CursorID? = nil) -> CursorID {
        var list: [UInt64] = []
        let next = table.visit(from: 0, groupsMax: .max / 2) { item in
            if item.seqno > seqno { list.append(UInt64(UInt(bitPattern: item.address))) }
        }
        precondition(next == nil, "one visit sees everything")
        for prepare in prepares.list where prepare.seqno > seqno {
            list.append(UInt64(UInt(bitPattern: prepare.item.address)))
        }
        list.sort { Checkpoint.Entry(word: $0).item.seqno < Checkpoint.Entry(word: $1).item.seqno }
        // A visit may see some twice.
        var kept = 0
        for index in list.indices where index == 0 || list[index] != list[index - 1] {
            list[kept] = list[index]
            kept += 1
        }
        list.removeLast(list.count - kept)
        let outstanding = prepares.list.map(\.seqno)
        return checkpoint.openBackfill(after: seqno, list, outstanding: outstanding, id: id)
    }

    /// The prepares outstanding at the end of a cursor's snapshot, where that comes from the table or
    /// was begun with `listsPrepares`; from the change order aborts come one by one, and it is nil.
    package func outstanding(atEndOf cursor: CursorID) -> [Seqno]? {
        checkpoint.index(cursor).flatMap { checkpoint.cursors[$0].outstanding }
    }

    /// What a cursor reads next; closes a boundary where it begins a snapshot.
    ///
    /// - Parameters:
    ///   - cursor: Whose.
    ///   - listsPrepares: The reader may be inside a snapshot that came from the table or the disk: of
    ///     the aborts among what it has of that it knows nothing.
    /// - Returns: Its range.
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

    /// Reads on in a cursor's snapshot; `visit` gets each document while the lock is held.
    package mutating func read(
        _ cursor: CursorID,
        bytesMax: Int,
        _ visit: (Item) -> Void
    ) -> CursorRead {
        checkpoint.read(cursor, bytesMax: bytesMax, visit)
    }

    /// The last visible change of those that a cursor has still to read of its snapshot; nil where it
    /// has none.
    package func lastVisible(before cursor: CursorID) -> Seqno? { checkpoint.lastVisible(cursor) }

    /// Ends a cursor.
    package mutating func closeCursor(_ cursor: CursorID) {
        checkpoint.closeCursor(cursor)
        waitingReaders.remove(cursor)
    }

    /// Ends the cursor that keeps the most from being forgotten, if any is behind the flusher.
    package mutating func dropSlowestCursor() -> CursorID? {
        guard let slowest = checkpoint.slowestCursor else { return nil }
        checkpoint.closeCursor(slowest)
        // The cursor's reader may be waiting and has to be woken.
        checkpoint.owesStreams = true
        return slowest
    }

    /// Ends all cursors, wherever they are; how many there were.
    package mutating func dropCursors() -> Int {
        let ids = checkpoint.cursors.map(\.id)
        for id in ids { checkpoint.closeCursor(id) }
        if !ids.isEmpty { checkpoint.owesStreams = true }
        return ids.count
    }

    /// Whether the senders of streams have to be woken; true once.
    @inline(__always)
    package mutating func takeOwedStreamWake() -> Bool {
        guard checkpoint.owesStreams else { return false }
        checkpoint.owesStreams = false
        return true
    }

    /// Whether a reader of the disk has to send the version of `key` at `seqno` for a snapshot
    /// through `end`.
    ///
    /// It has where the version is the newest, or where what replaced it is not in the snapshot. Of
    /// a key that memory has let go, any stub that may be its own and is not in the snapshot will do:
    /// a version too many is followed by the newer one.
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
    /// Drops the cursors that hold most, until change orders are back within their share of the
    /// quota: a fifth.
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
