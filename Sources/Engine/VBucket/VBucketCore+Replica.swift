package import Bytes
package import Vocabulary

/// The result of applying a change that the active copy sent.
package enum ApplyOutcome {
    case applied(wakesFlusher: Bool)
    /// The copy already has this change: the stream began below the copy's high seqno.
    case known
    /// A version must be fetched from disk first; then apply again.
    case wouldBlock(Wait)
    /// Memory is short: the caller retries later.
    case temporaryFailure
    /// This copy is not a replica, or the change is outside the announced snapshot.
    case refused
}

/// The replica's side: seqnos, CAS and revisions come from the active copy.
///
/// - Inside a snapshot the copy has a state that the active copy never had, so `coveredSeqno` stays
///   at the snapshot's start until its last change. The stored record does the same.
/// - A snapshot that begins inside another one replaces it and keeps its start.
extension VBucketCore {
    /// The seqno up to which the copy is complete: the last complete snapshot's end.
    package var coveredSeqno: Seqno { openSnapshot?.start ?? highSeqno }

    /// The covered seqno that would remain after a crash.
    ///
    /// The result may be lower than the persisted seqno: the stored record may still be inside a
    /// snapshot that has ended in memory since. The snapshot's end counts once it is persisted.
    package var coveredOnDisk: Seqno {
        isPersistent ? min(coveredSeqno, persistedCovered) : coveredSeqno
    }

    /// Makes the copy active.
    ///
    /// - Parameters:
    ///   - uuid: The UUID of a history that begins at the covered seqno, because another copy may
    ///     have later changes. Nil if the old active copy handed over all its changes.
    ///   - fence: The fence of the map.
    package mutating func promote(_ uuid: VBucketUUID?, fence: UInt64 = 0) {
        if let uuid {
            failoverLog.begin(uuid, at: coveredSeqno, fence: fence)
        } else {
            precondition(openSnapshot == nil, "a copy that takes over has no open snapshot")
        }
        endSnapshotEarly()
        inheritPrepares()
        state = .active
        resumeReaders()
    }

    /// Begins a snapshot that the active copy announced.
    ///
    /// - Returns: False, without a change, if this copy is not a loaded replica, or the snapshot
    ///   starts above its high seqno or ends before its changes or the open snapshot's.
    package mutating func beginSnapshot(_ range: SnapshotRange) -> Bool {
        // An announced snapshot of which no change has arrived does not restrict the next snapshot.
        let begun = coveredSeqno < highSeqno ? openSnapshot?.end : nil
        guard case .replica = state, isLoaded, range.start <= highSeqno,
            range.end >= max(highSeqno, begun ?? .zero)
        else { return false }
        let start = openSnapshot?.start ?? highSeqno
        if openSnapshot == nil { holdSnapshotStart() }
        endSnapshotEarly()
        openSnapshot = range.end > highSeqno ? SnapshotRange(start: start, end: range.end) : nil
        if openSnapshot == nil { resumeReaders() }
        return true
    }

    /// Applies a document or tombstone of the announced snapshot.
    ///
    /// - Parameters:
    ///   - meta: The metadata, with the active copy's seqno, CAS and revision.
    ///   - key: The key.
    ///   - hash: The key's hash.
    ///   - value: The value; must lie outside the table.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: `applied`, or why the change was not applied.
    package mutating func apply(
        _ meta: DocumentMeta,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        guard case .replica = state else { return .refused }
        guard isLoaded else { return .wouldBlock(.warmup) }
        guard meta.seqno > highSeqno else { return .known }
        guard let snapshot = openSnapshot, meta.seqno <= snapshot.end else { return .refused }
        let found = table.find(key, hash: hash)
        if let wait = missing(found, hash, tombstones: true) { return .wouldBlock(wait) }
        guard admits(meta, key, hash, value.count, replacing: found?.item) else {
            return .temporaryFailure
        }
        if let old = found?.item { forget(old) }
        count(meta)
        clock.advance(past: meta.cas)
        let isFirst = settle(meta, key: key, hash: hash, value, isFresh: true, at: found, turn)
        if !allowsFastWrite { completePrepare(of: key, hash) }
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Whether there is memory for the change.
    ///
    /// Even a full bucket accepts a deletion that needs no more memory than the value it replaces,
    /// and the commit of a prepare, whose value this copy already has.
    private func admits(
        _ meta: DocumentMeta,
        _ key: ByteView,
        _ hash: UInt64,
        _ count: Int,
        replacing old: Item?
    ) -> Bool {
        if meta.isDeleted, count <= old?.value.count ?? 0 { return true }
        if account.admitsCopy(count) { return true }
        return !allowsFastWrite && prepares.find(key, hash) != nil
    }

    /// Advances the high seqno past changes that the active copy did not send, because they were
    /// deduplicated, purged or invisible.
    ///
    /// - Returns: False if no snapshot is open or `seqno` is above its end.
    package mutating func advance(to seqno: Seqno) -> Bool {
        guard let snapshot = openSnapshot, seqno <= snapshot.end else { return false }
        if seqno > highSeqno {
            setPendingWakeup(isPersistent && checkpoint.isDrained)
            noteInvisible(at: seqno)
            checkpoint.advance(to: seqno)
        }
        endSnapshotIfWhole()
        return true
    }

    mutating func endSnapshotIfWhole() {
        guard let snapshot = openSnapshot, highSeqno >= snapshot.end else { return }
        openSnapshot = nil
        forgetUnannounced()
        resumeReaders()
    }

    /// Adopts the active copy's failover log up to the covered seqno.
    ///
    /// A longer log would claim changes that this copy does not have.
    package mutating func adoptHistory(_ log: FailoverLog) {
        if let known = log.truncated(to: coveredSeqno) { failoverLog = known }
    }

    /// Removes all data from memory and begins a new history, so that the copy can be rebuilt.
    ///
    /// The caller removes the copy from disk before the next commit.
    package mutating func reset(to state: VBucketState, uuid: VBucketUUID, fence: UInt64 = 0) {
        removeAll()
        self.state = state
        failoverLog = FailoverLog(first: uuid, fence: fence)
        ownership.intactFence = nil
        ownership.readyFence = nil
        ownership.servedFence = nil
        endSnapshotEarly()
        purgeSeqno = .zero
        maxRevision = 0
        persistedSeqno = .zero
        restartOrder(at: .zero)
    }
}
