package import Bytes
package import Vocabulary

extension VBucketCore {
    /// The document with `key`; the caller copies what it needs before the lock is released.
    @inline(__always)
    package mutating func get(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        guard let place = table.find(key, hash: hash) else {
            if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
            return missing(nil, hash, tombstones: false).map { .wait($0) } ?? .refused(.notFound)
        }
        if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
        let item = place.item
        let bits = item.state
        if bits.isDisjoint(with: [.deleted, .valueEjected, .locked, .hasExpiry]) {
            touchFrequency(item)
            return .done((item, item.cas))
        }
        return getSpecial(place, turn)
    }

    /// `get` for documents that are deleted, ejected, locked or have an expiry.
    private mutating func getSpecial(
        _ place: HashTable.Place,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        let item = place.item
        guard !item.isDeleted else { return .refused(.notFound) }
        if isDue(item, turn) {
            // During a hand-over or a hold the copy makes no changes, not even by expiry.
            if isWritable, !isPrepared(item) { expire(place, turn) }
            return .refused(.notFound)
        }
        touchFrequency(item)
        if item.isEjected { return .wait(.value(item.seqno)) }
        return .done((item, isLocked(item, turn) ? .locked : item.cas))
    }

    /// The document with `key` on a replica, for GET_REPLICA.
    ///
    /// The document may be older than the active copy's. If `includesDeleted`, the result may be a
    /// tombstone with its value.
    package mutating func getReplica(
        _ key: ByteView,
        hash: UInt64,
        includesDeleted: Bool = false,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .replica = state else { return .refused(.notMyVBucket) }
        guard isLoaded else { return .wait(.warmup) }
        if isBeingBuilt { return .refused(.temporaryFailure) }
        guard let place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: includesDeleted).map { .wait($0) }
                ?? .refused(.notFound)
        }
        let item = place.item
        // Only the active copy replaces an expired document by a tombstone.
        guard item.isDeleted ? includesDeleted : !isDue(item, turn) else {
            return .refused(.notFound)
        }
        if item.isEjected { return .wait(.value(item.seqno)) }
        return .done((item, item.cas))
    }

    /// Whether the copy is being built, so that a key without a document may still exist.
    private var isBeingBuilt: Bool {
        let hasNothing = coveredSeqno == .zero && !ownership.hasCaughtUp
        return ownership.exists && (ownership.isResetting || hasNothing)
    }

    /// A document's metadata on a replica.
    package func getReplicaMeta(_ key: ByteView, hash: UInt64) -> ReadResult {
        guard case .replica = state else { return .refused(.notMyVBucket) }
        guard isLoaded else { return .wait(.warmup) }
        if isBeingBuilt { return .refused(.temporaryFailure) }
        guard let item = table.find(key, hash: hash)?.item else {
            return missing(nil, hash, tombstones: true).map { .wait($0) } ?? .refused(.notFound)
        }
        return .done((item, item.cas))
    }

    /// A document's metadata, also a tombstone's.
    package mutating func getMeta(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        guard case .active = state else { return .refused(.notMyVBucket) }
        if !isReadable, let obstacle = readObstacle(key, hash) { return obstacle }
        guard var place = table.find(key, hash: hash) else {
            return missing(nil, hash, tombstones: true).map { .wait($0) } ?? .refused(.notFound)
        }
        if !place.item.isDeleted, isDue(place.item, turn) {
            guard isWritable, !isPrepared(place.item) else { return .refused(.notFound) }
            guard expire(place, turn) else { return .wait(.value(place.item.seqno)) }
            guard let tombstone = table.find(key, hash: hash) else { return .refused(.notFound) }
            place = tombstone
        }
        let item = place.item
        return .done((item, isLocked(item, turn) ? .locked : item.cas))
    }

    /// The document with `key` and its value, also a tombstone.
    package mutating func getAny(
        _ key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ReadResult {
        let result = getMeta(key, hash: hash, turn)
        guard case .done(let (item, _)) = result else { return result }
        if item.isEjected { return .wait(.value(item.seqno)) }
        if !item.isDeleted { touchFrequency(item) }
        return result
    }

    /// Turns an expired document into a tombstone with its own seqno.
    ///
    /// A read's result cannot wake the flusher, so the wakeup is deferred (`setPendingWakeup`).
    ///
    /// - Returns: False, without a change, if the tombstone has to keep attributes of a value that
    ///   is on disk only. The document does not exist for clients; `expireStub` replaces it.
    @discardableResult
    mutating func expire(_ place: HashTable.Place, _ turn: borrowing ExecutionContext) -> Bool {
        guard !awaitsAttributes(place.item) else { return false }
        bury(place, isExpired: true, turn)
        return true
    }

    /// Replaces a document by a tombstone without a client's command, and returns the tombstone.
    ///
    /// The tombstone keeps the document's system attributes, which are in memory.
    @discardableResult
    mutating func bury(
        _ place: HashTable.Place,
        isExpired: Bool,
        _ turn: borrowing ExecutionContext
    ) -> Item {
        let scratchCount = turn.scratch.count
        defer { turn.scratch.truncate(to: scratchCount) }
        let (value, datatype) = tombstoneValue(of: place.item, turn)
        let meta = DocumentMeta(
            expiry: turn.seconds,
            datatype: datatype,
            isDeleted: true,
            isExpired: isExpired
        )
        let key = place.item.key
        // The key is copied, as the item's block may be overwritten.
        withUnsafeTemporaryAllocation(byteCount: key.count, alignment: 1) { buffer in
            buffer.copyMemory(from: key.buffer)
            let put = put(
                meta,
                key: ByteView(UnsafeRawBufferPointer(buffer)),
                hash: 0,
                value: value,
                isFresh: true,
                place: place,
                turn
            )
            setPendingWakeup(put.wakesFlusher)
        }
        return place.current
    }
}

/// Readers that wait for the end of the snapshot that a replica is receiving.
///
/// Each reader has a cursor number already. At the snapshot's end a cursor with that number is
/// opened; if that fails, the number counts as dropped and the reader calls `openChanges` again.
struct WaitingReaders {
    struct Reader {
        let id: CursorID
        let position: Seqno
        let residentMax: Int
        /// Memory does not have all changes that the reader needs: it waits for a commit.
        var needsDisk = false
    }

    private(set) var list: [Reader] = []
    /// At least one cursor has read everything up to the snapshot's start and waits.
    var isAnyAsleep = false

    var isEmpty: Bool { list.isEmpty }

    func contains(_ id: CursorID) -> Bool { list.contains { $0.id == id } }

    mutating func add(_ reader: Reader) { list.append(reader) }

    mutating func remove(_ id: CursorID) { list.removeAll { $0.id == id } }

    mutating func removeAll() -> [Reader] { exchange(&list, with: []) }
}

/// Reads a replica that is receiving a snapshot: up to the snapshot's start, where the copy is
/// complete. Inside the snapshot, the copy has a state that the active copy never had.
///
/// - If cursors are open when a snapshot begins, the state at its start stays readable
///   (`holdBoundary`).
/// - A reader that neither memory nor disk can serve waits for the snapshot's end. Its cursor is
///   opened in the same hold of the lock that ends the snapshot, since the next snapshot may begin
///   before the reader runs.
/// - The disk can serve a reader if the last commit ended between two snapshots; if a reader needs
///   the disk, `drainEarly` makes the next commit end there.
extension VBucketCore {
    /// Whether the last commit contains only complete snapshots.
    var isWholeOnDisk: Bool {
        persistedCovered == persistedSeqno || (openSnapshot == nil && persistedSeqno == highSeqno)
    }

    /// Whether a finished disk scan through `end` has read a consistent state.
    ///
    /// On a replica, a commit during the scan may have ended inside a snapshot.
    package func isReadableOnDisk(through end: Seqno) -> Bool {
        state != .replica || (persistedSeqno == end && isWholeOnDisk)
    }

    mutating func openBesideSnapshot(
        after seqno: Seqno,
        promised: Seqno,
        residentMax: Int
    ) -> ChangeSource {
        let start = coveredSeqno
        if seqno == start || checkpoint.heldBoundary == start,
            let cursor = checkpoint.openCursor(at: seqno)
        {
            return .memory(cursor)
        }
        guard seqno == .zero || seqno >= purgeSeqno else { return .purged }
        if isPersistent, isWholeOnDisk, persistedSeqno > seqno, persistedSeqno >= promised {
            return .disk(through: persistedSeqno, pin: nil)
        }
        let id = checkpoint.nextID()
        waitingReaders.add(.init(id: id, position: seqno, residentMax: residentMax))
        return .memory(id)
    }

    mutating func snapshotBesideSnapshot(
        _ cursor: CursorID,
        listsPrepares: Bool
    ) -> CursorSnapshot {
        guard !waitingReaders.contains(cursor) else { return .drained }
        // The prepares that were outstanding at the snapshot's start are no longer known.
        let snapshot =
            listsPrepares && !checkpoint.isInSnapshot(cursor)
            ? .drained : checkpoint.snapshotThroughHeldBoundary(cursor)
        if snapshot == .drained { waitingReaders.isAnyAsleep = true }
        return snapshot
    }

    /// Keeps the present state readable for open cursors, before a snapshot begins.
    mutating func holdSnapshotStart() {
        visibleHigh.noteSnapshot(after: highSeqno)
        checkpoint.holdBoundary()
        // Waiting cursors have read everything; they can read more only after the snapshot's end.
        if checkpoint.hasWaitingCursor {
            checkpoint.hasWaitingCursor = false
            waitingReaders.isAnyAsleep = true
        }
    }

    /// Wakes or serves the waiting readers after a snapshot has ended.
    mutating func resumeReaders() {
        checkpoint.releaseBoundary()
        guard waitingReaders.isAnyAsleep || !waitingReaders.isEmpty else { return }
        waitingReaders.isAnyAsleep = false
        checkpoint.owesStreams = true
        for reader in waitingReaders.removeAll() {
            if checkpoint.openCursor(at: reader.position, id: reader.id) != nil { continue }
            guard reader.position == .zero || reader.position >= purgeSeqno else { continue }
            if isWalkable(residentMax: reader.residentMax) {
                _ = openBackfill(after: reader.position, id: reader.id)
            } else {
                drainEarly()
                var reader = reader
                reader.needsDisk = true
                waitingReaders.add(reader)
            }
        }
    }

    /// After a commit, drops the waiting readers that it can serve, so that they open the disk.
    mutating func sendWaitingReadersToDisk() {
        guard isWholeOnDisk else { return }
        for reader in waitingReaders.list where reader.needsDisk && persistedSeqno > reader.position
        {
            waitingReaders.remove(reader.id)
        }
    }
}
