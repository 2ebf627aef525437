/// Where a consumer of changes is in one vBucket.
///
/// Inside a snapshot, the consumer may lack changes before its position that later changes of the
/// snapshot replaced. So the snapshot is part of the position.
package struct ChangesPosition: Hashable, Sendable {
    /// The history that the position belongs to.
    package enum Branch: Hashable, Sendable {
        /// Before the first change of any history.
        case none
        case uuid(VBucketUUID)
        /// From a token: a digest of the UUID.
        case check(BranchCheck)
        /// At the newest change, whatever it is: what a consumer without interest in the past asks.
        case latest
    }

    package var branch: Branch
    /// The last change that the consumer has; 48 bits.
    package var seqno: Seqno
    /// The start of the snapshot that the consumer is in; equal to `seqno` outside snapshots.
    package var snapshotStart: Seqno
    /// The end of that snapshot; equal to `seqno` outside snapshots.
    package var snapshotEnd: Seqno

    /// A position at the end of a snapshot.
    package init(branch: Branch, seqno: Seqno) {
        self.branch = branch
        self.seqno = seqno
        snapshotStart = seqno
        snapshotEnd = seqno
    }

    /// Before the first change.
    package static let start = ChangesPosition(branch: .none, seqno: .zero)
    /// At the newest change.
    package static let latest = ChangesPosition(branch: .latest, seqno: .zero)

    /// Whether the consumer has some changes of a snapshot, and lacks others.
    package var isInSnapshot: Bool { snapshotStart < seqno && seqno < snapshotEnd }

    /// The position before the snapshot that the consumer is in; itself outside snapshots.
    package var atSnapshotStart: ChangesPosition {
        guard isInSnapshot else { return self }
        let branch = snapshotStart == .zero ? Branch.none : branch
        return ChangesPosition(branch: branch, seqno: snapshotStart)
    }
}
