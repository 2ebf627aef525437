package import Vocabulary

/// Readers of a replica that wait for the end of the snapshot that it receives.
///
/// Each has a cursor's name already. Once the snapshot has ended, that is a cursor, or it is dropped
/// and the reader looks for another source.
struct WaitingReaders {
    struct Reader {
        let id: CursorID
        let position: Seqno
        let residentMax: Int
        /// Memory does not have what it lacks.
        var needsDisk = false
    }

    private(set) var list: [Reader] = []
    /// A reader has read everything up to the snapshot's start.
    var isAnyAsleep = false

    var isEmpty: Bool { list.isEmpty }

    func contains(_ id: CursorID) -> Bool { list.contains { $0.id == id } }

    mutating func add(_ reader: Reader) { list.append(reader) }

    mutating func remove(_ id: CursorID) { list.removeAll { $0.id == id } }

    mutating func removeAll() -> [Reader] {
        defer { list = [] }
        return list
    }
}

/// Reading a replica while it receives a snapshot: up to the snapshot's start, where nothing is
/// missing. What the copy has of the snapshot is a state that the active one never had.
///
/// - Where cursors are open as a snapshot begins, the order keeps what was there (`holdBoundary`).
/// - A reader that memory and disk cannot serve waits for the snapshot's end. It is served there under
///   the same hold of the lock, since the next snapshot may begin before the reader comes.
/// - The disk serves a reader where its last commit was made between two snapshots; one is made there
///   (`drainEarly`) where a reader needs it.
extension VBucketCore {
    /// The last commit has all of the snapshots that it has anything of.
    var isWholeOnDisk: Bool {
        persistedCovered == persistedSeqno || (openSnapshot == nil && persistedSeqno == highSeqno)
    }

    /// Whether a scan that ends at `end` is a state for a reader.
    ///
    /// On a replica a later commit may have come between: it may be inside a snapshot.
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
        // Which prepares are outstanding at the snapshot's start is not known any more.
        let snapshot =
            listsPrepares && !checkpoint.isInSnapshot(cursor)
            ? .drained : checkpoint.snapshotThroughHeldBoundary(cursor)
        if snapshot == .drained { waitingReaders.isAnyAsleep = true }
        return snapshot
    }

    /// A snapshot begins: what is here now stays readable where anything reads.
    mutating func holdSnapshotStart() {
        visibleHigh.noteSnapshot(after: highSeqno)
        checkpoint.holdBoundary()
        // They have read everything, and there is nothing for them before the snapshot's end.
        if checkpoint.hasWaitingCursor {
            checkpoint.hasWaitingCursor = false
            waitingReaders.isAnyAsleep = true
        }
    }

    /// No snapshot is being received: readers go on.
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

    /// A commit was made: readers that it serves look for their source again.
    mutating func sendWaitingReadersToDisk() {
        guard isWholeOnDisk else { return }
        for reader in waitingReaders.list where reader.needsDisk && persistedSeqno > reader.position
        {
            waitingReaders.remove(reader.id)
        }
    }
}
