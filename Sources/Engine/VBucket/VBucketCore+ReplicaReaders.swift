package import Vocabulary

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
