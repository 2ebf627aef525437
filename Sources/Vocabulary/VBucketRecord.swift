/// The seqnos of a snapshot, whose changes are consistent only as a whole.
package struct SnapshotRange: Hashable, Sendable {
    /// Changes up to this seqno precede the snapshot.
    package let start: Seqno
    package let end: Seqno

    package init(start: Seqno, end: Seqno) {
        self.start = start
        self.end = end
    }
}

/// A vBucket's stored state besides its documents, written in the same transaction as they are.
package struct VBucketRecord: Hashable, Sendable {
    package var id: VBucketID
    package var state: VBucketState
    package var failoverLog: FailoverLog
    /// Every change up to this seqno is in the file once the transaction is committed.
    package var highSeqno: Seqno
    /// The snapshot that contains `highSeqno`; both ends equal `highSeqno` on an active vBucket.
    package var snapshotStart: Seqno
    package var snapshotEnd: Seqno
    /// Tombstones up to this seqno may be purged.
    package var purgeSeqno: Seqno
    /// No larger CAS was ever assigned: written ten seconds ahead, for a clock that was set back.
    package var maxCAS: CAS
    /// The highest revision of any purged tombstone; a new document starts above it.
    package var maxRevision: UInt64
    /// The fence of the map that the copy followed; 0 if it followed none yet.
    package var fence: UInt64
    /// The copy was intact (in-sync); valid only after a clean stop.
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

    /// The snapshot that was received only in part; nil if the newest one is complete.
    package var openSnapshot: SnapshotRange? {
        guard highSeqno < snapshotEnd else { return nil }
        return SnapshotRange(start: snapshotStart, end: snapshotEnd)
    }
}
