package import Bytes
package import Vocabulary

/// What became of a change that came from another copy.
package enum ApplyOutcome {
    case applied(wakesFlusher: Bool)
    /// It was here already: the stream began before what this copy has.
    case known
    /// A version must be fetched from disk first; then apply again.
    case wouldBlock(Wait)
    /// Memory is short: try again in a moment.
    case temporaryFailure
    /// This copy is not a replica, or no snapshot that has the change was begun.
    case refused
}

/// A copy that follows another one: seqnos, CAS and revisions are given, not made.
///
/// - Between the first change of a snapshot and its last, the copy is what the active one was at
///   neither end: `coveredSeqno` stays at the snapshot's start, and on disk the record says so.
/// - A snapshot that begins inside another one takes its place and keeps its start.
extension VBucketCore {
    /// The largest seqno up to which nothing is missing here that an active copy had.
    package var coveredSeqno: Seqno { openSnapshot?.start ?? highSeqno }

    /// The same, of what survives a crash.
    ///
    /// The disk may have more of a snapshot than its start, and still says that it is inside it: what
    /// ended in memory since does not count before it is written.
    package var coveredOnDisk: Seqno {
        isPersistent ? min(coveredSeqno, persistedCovered) : coveredSeqno
    }

    /// Becomes the one that is written to.
    ///
    /// - Parameters:
    ///   - uuid: Names the history that begins here, at what is covered: above that another copy may
    ///     have what is missing here. Nil where the old active handed everything over.
    ///   - fence: The map's.
    package mutating func promote(_ uuid: VBucketUUID?, fence: UInt64 = 0) {
        if let uuid {
            failoverLog.begin(uuid, at: coveredSeqno, fence: fence)
        } else {
            precondition(openSnapshot == nil, "what is taken over is whole")
        }
        endSnapshotEarly()
        inheritPrepares()
        state = .active
        resumeReaders()
    }

    /// Begins a snapshot that the active copy announced; false if it cannot follow this copy's
    /// changes.
    package mutating func beginSnapshot(_ range: SnapshotRange) -> Bool {
        // A snapshot that was announced, but of which no change arrived, does not restrict the next
        // one.
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

    /// Makes a change that the active copy made.
    ///
    /// - Parameters:
    ///   - meta: Everything, seqno and CAS included.
    ///   - key: The key.
    ///   - hash: Its hash.
    ///   - value: The value; lies outside the table.
    ///   - turn: The caller's.
    /// - Returns: What came of it.
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
        guard admits(meta, key, hash, value.count) else { return .temporaryFailure }
        if let old = found?.item { forget(old) }
        count(meta)
        clock.advance(past: meta.cas)
        let isFirst = settle(meta, key: key, hash: hash, value, isFresh: true, at: found, turn)
        if !allowsFastWrite { completePrepare(of: key, hash) }
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// What a full bucket has to take all the same: a deletion makes room, and what a commit brings
    /// lies here already.
    private func admits(
        _ meta: DocumentMeta,
        _ key: ByteView,
        _ hash: UInt64,
        _ count: Int
    ) -> Bool {
        if meta.isDeleted || account.admitsCopy(count) { return true }
        return !allowsFastWrite && prepares.find(key, hash) != nil
    }

    /// The active copy's snapshot is all here, though its last change was not sent: a newer version
    /// of that key follows, or outside readers do not see it.
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

    /// Takes over as much of the active copy's history as this one has.
    ///
    /// Only up to what is covered: a longer log would claim changes that are not here.
    package mutating func adoptHistory(_ log: FailoverLog) {
        if let known = log.truncated(to: coveredSeqno) { failoverLog = known }
    }

    /// Removes all data, to be rebuilt from another copy; until then the vBucket has a UUID of its
    /// own.
    ///
    /// The caller drops the copy on disk before the next commit.
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
