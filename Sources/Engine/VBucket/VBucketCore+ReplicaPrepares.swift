package import Bytes
package import Vocabulary

/// Durable writes on a copy that follows another one, or that comes back from disk.
///
/// - It decides nothing: it keeps what was prepared until a change of the key, an abort or a list of
///   what is outstanding says that it is completed.
/// - Where changes come from a table or a disk, aborts leave nothing to be sent: then the snapshot
///   begins with the list of the prepares that are outstanding at its end.
extension VBucketCore {
    /// Takes up what the active copy prepared.
    package mutating func applyPrepare(
        _ meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        if let obstacle = obstacle(at: meta.seqno) { return obstacle }
        guard account.admitsCopy(value.count) else { return .temporaryFailure }
        // What was prepared before was aborted: a commit would have come ahead of this.
        completePrepare(of: key, hash)
        clock.advance(past: meta.cas)
        let item = makePrepare(meta, level, key, hash, value, isInherited: false, turn)
        noteInvisible(at: meta.seqno)
        let isFirst = checkpoint.append(item, seqno: meta.seqno, arena: turn.arena)
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Forgets what the active copy gave up; a prepare that is not here is nothing to forget.
    package mutating func applyAbort(
        at seqno: Seqno,
        of prepare: Seqno,
        key: ByteView,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        if let obstacle = obstacle(at: seqno) { return obstacle }
        let isFirst = appendAbort(of: prepare, at: seqno, key, turn)
        completePrepare(of: key, hash)
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    private func obstacle(at seqno: Seqno) -> ApplyOutcome? {
        guard case .replica = state else { return .refused }
        guard isLoaded else { return .wouldBlock(.warmup) }
        guard seqno > highSeqno else { return .known }
        guard let snapshot = openSnapshot, seqno <= snapshot.end else { return .refused }
        return nil
    }

    /// The snapshot that begins ends with exactly these prepares outstanding.
    ///
    /// Other prepares are removed when the snapshot is complete, not before: until then this copy
    /// counts with its state at the snapshot's start, and has to keep what it acknowledged there.
    ///
    /// - Returns: False where no snapshot has begun.
    package mutating func announceOutstanding(_ seqnos: some Sequence<Seqno>) -> Bool {
        guard case .replica = state, openSnapshot != nil else { return false }
        announcedPrepares = Set(seqnos)
        return true
    }

    /// A snapshot ended: what is not outstanding at its end is completed.
    mutating func forgetUnannounced() {
        guard let announced = announcedPrepares else { return }
        announcedPrepares = nil
        for prepare in prepares.list where !announced.contains(prepare.seqno) { complete(prepare) }
    }

    /// Nothing more comes of the snapshot that was being received; its list says nothing either, and
    /// what was purged of the rest is not missing here.
    mutating func endSnapshotEarly() {
        openSnapshot = nil
        announcedPrepares = nil
        purgeSeqno = min(purgeSeqno, highSeqno)
    }

    /// A change of the key was made.
    mutating func completePrepare(of key: ByteView, _ hash: UInt64) {
        if let prepare = prepares.find(key, hash) { complete(prepare) }
    }

    /// Loads a prepare from disk, after all documents; prepares are loaded in the order of seqnos.
    ///
    /// It may have been committed before the restart, so its key is hidden until it is completed.
    /// A prepare that a later change of its key has completed is not loaded, even if it is on disk.
    package mutating func loadPrepare(
        _ meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) {
        precondition(!isLoaded, "documents are loaded before requests are served")
        if let newest = table.find(key, hash: hash)?.item.seqno, newest > meta.seqno {
            return completedPrepares.append(meta.seqno)
        }
        completePrepare(of: key, hash)
        clock.advance(past: meta.cas)
        _ = makePrepare(meta, level, key, hash, value, isInherited: true, turn)
    }
}
