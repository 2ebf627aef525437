package import Bytes
package import Vocabulary

/// Durable writes on a replica, or on a copy that is loaded from disk.
///
/// - The copy decides nothing: it keeps a prepare until a change of the key, an abort, or a list of
///   outstanding prepares without it completes it.
/// - A snapshot from the active copy's table or disk contains no aborts, so it begins with the list
///   of the prepares that are outstanding at its end.
extension VBucketCore {
    /// Applies a prepare of the active copy.
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
        // An earlier prepare of the key was aborted: its commit would have preceded this prepare.
        completePrepare(of: key, hash)
        clock.advance(past: meta.cas)
        let item = makePrepare(
            meta,
            level,
            key: key,
            hash: hash,
            value: value,
            isInherited: false,
            turn: turn
        )
        noteInvisible(at: meta.seqno)
        let isFirst = checkpoint.append(item, seqno: meta.seqno, arena: turn.arena)
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Applies an abort of the active copy; `prepare` may be unknown to this copy.
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

    /// Stores the list of prepares that are outstanding at the open snapshot's end.
    ///
    /// Other prepares are removed when the snapshot is complete, not before: until then this copy
    /// counts with its state at the snapshot's start, and has to keep what it acknowledged there.
    ///
    /// - Returns: False if no snapshot is open.
    package mutating func announceOutstanding(_ seqnos: some Sequence<Seqno>) -> Bool {
        guard case .replica = state, openSnapshot != nil else { return false }
        announcedPrepares = Set(seqnos)
        return true
    }

    /// Completes the prepares that are not in the list of the snapshot that has ended.
    mutating func forgetUnannounced() {
        guard let announced = announcedPrepares else { return }
        announcedPrepares = nil
        for prepare in prepares.list where !announced.contains(prepare.seqno) { complete(prepare) }
    }

    /// Discards the open snapshot and its list of prepares, because its remaining changes will not
    /// be received; purges above the high seqno concern only those changes.
    mutating func endSnapshotEarly() {
        openSnapshot = nil
        announcedPrepares = nil
        purgeSeqno = min(purgeSeqno, highSeqno)
    }

    /// Completes the prepare of a changed key, if it has one.
    mutating func completePrepare(of key: ByteView, _ hash: UInt64) {
        if let prepare = prepares.find(key, hash) { complete(prepare) }
    }

    /// Loads a prepare from disk, after all documents; prepares are loaded in the order of seqnos.
    ///
    /// The prepare may have been committed before the restart, so its key is hidden until the prepare
    /// is completed. A prepare that a later change of its key has completed is not loaded, even if it
    /// is on disk.
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
        _ = makePrepare(
            meta,
            level,
            key: key,
            hash: hash,
            value: value,
            isInherited: true,
            turn: turn
        )
    }
}
