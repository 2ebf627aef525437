package import Vocabulary

/// How far an index has the changes of one vBucket, and in which history.
///
/// It is committed with the rows, and reopens the vBucket's feed: the index lacks every change after
/// `seqno` and has every change up to it. Inside a snapshot the index may lack changes before `seqno`
/// that later changes of the snapshot replaced; the snapshot's bounds tell the feed so.
package struct IndexPosition: Hashable, Sendable {
    package var uuid: VBucketUUID
    package var seqno: Seqno
    package var snapshotStart: Seqno
    package var snapshotEnd: Seqno

    package init(
        uuid: VBucketUUID,
        seqno: Seqno,
        snapshotStart: Seqno,
        snapshotEnd: Seqno
    ) {
        self.uuid = uuid
        self.seqno = seqno
        self.snapshotStart = snapshotStart
        self.snapshotEnd = snapshotEnd
    }

    /// The last seqno at which the index had a state that the copy had: the end of the last whole
    /// snapshot.
    ///
    /// Inside a snapshot the index may have neither the version that a document had before it, nor
    /// the one that it has at the snapshot's end.
    package var covered: Seqno { seqno == snapshotEnd ? seqno : snapshotStart }

    /// Before the first change of any history.
    package static let zero = IndexPosition(
        uuid: VBucketUUID(0),
        seqno: .zero,
        snapshotStart: .zero,
        snapshotEnd: .zero
    )
}
