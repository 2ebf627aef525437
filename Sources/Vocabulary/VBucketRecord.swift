/// Changes that make sense together only: a copy that has some of them is what its origin was at
/// neither end.
package struct SnapshotRange: Hashable, Sendable {
    /// Everything up to here was there before.
    package let start: Seqno
    package let end: Seqno

    package init(start: Seqno, end: Seqno) {
        self.start = start
        self.end = end
    }
}

/// What is stored of a vBucket beside its documents, in the same transaction as they are.
package struct VBucketRecord: Hashable, Sendable {
    package var id: VBucketID
    package var state: VBucketState
    package var failoverLog: FailoverLog
    /// Everything up to here is in the file once the transaction is committed.
    package var highSeqno: Seqno
    /// The snapshot that `highSeqno` belongs to; equal to it on an active vBucket.
    package var snapshotStart: Seqno
    package var snapshotEnd: Seqno
    /// Tombstones up to here may be gone.
    package var purgeSeqno: Seqno
    /// No CAS beyond this one was ever handed out (written ahead of time, storage.md 3.8).
    package var maxCAS: CAS
    /// The highest revision of any tombstone that was purged; a new document starts above it.
    package var maxRevision: UInt64
    /// The fence of the map that the copy followed; 0 where there was none yet.
    package var fence: UInt64
    /// The copy had all that its active one had; counts only after a clean stop.
    package var isIntact: Bool

    package init(id: VBucketID, state: VBucketState, failoverLog: FailoverLog) {
        self.id = id
        self.state = state
        self.failoverLog = failoverLog
        highSeqno = .zero
        snapshotStart = .zero
        snapshotEnd = .zero
        purgeSeqno = .zero
        maxCAS = .none
        maxRevision = 0
        fence = 0
        isIntact = false
    }

    /// The snapshot that was only half received, if one was.
    package var openSnapshot: SnapshotRange? {
        guard highSeqno < snapshotEnd else { return nil }
        return SnapshotRange(start: snapshotStart, end: snapshotEnd)
    }
}
