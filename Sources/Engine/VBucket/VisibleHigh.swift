package import Vocabulary

/// The seqno of the newest change that clients may see.
///
/// Prepares, aborts, and the changes that a replica skips (`VBucketCore.advance`) have seqnos that
/// clients never see. Only these are recorded here, so that a write of a document costs nothing.
struct VisibleHigh {
    /// The newest visible change before the invisible ones that end at `invisible`.
    private var visible = Seqno.zero
    /// The newest invisible change.
    private var invisible = Seqno.zero
    /// The newest visible change at the start of the snapshot that a replica receives.
    private var atSnapshotStart = Seqno.zero

    init() {}

    /// The state of an empty copy whose high seqno is `high`; documents are added by `noteLoaded`.
    init(loadingThrough high: Seqno) { invisible = high }

    /// The newest visible change of a copy whose newest change is `high`.
    func newest(_ high: Seqno) -> Seqno { high == invisible ? visible : high }

    /// The newest visible change up to the start of the snapshot that is being received.
    var beforeSnapshot: Seqno { atSnapshotStart }

    /// An invisible change at `seqno` follows the change at `high`.
    mutating func noteInvisible(at seqno: Seqno, after high: Seqno) {
        visible = newest(high)
        invisible = seqno
    }

    /// A snapshot begins behind the change at `high`.
    mutating func noteSnapshot(after high: Seqno) { atSnapshotStart = newest(high) }

    /// A document or tombstone was loaded from disk.
    ///
    /// - Parameters:
    ///   - seqno: Its seqno.
    ///   - snapshotStart: The start of the snapshot that was being received when the copy was
    ///     stored; the copy's high seqno if there was none.
    mutating func noteLoaded(_ seqno: Seqno, snapshotStart: Seqno) {
        visible = max(visible, seqno)
        if seqno <= snapshotStart { atSnapshotStart = max(atSnapshotStart, seqno) }
    }
}

extension VBucketCore {
    /// The seqno of the newest change that clients may see; on a replica that receives a snapshot,
    /// of those up to the snapshot's start.
    ///
    /// A visible-only stream reaches this seqno, by a change or by `sendAdvanced`. During warmup
    /// the result is too low.
    package var highVisible: Seqno {
        let covered = coveredSeqno
        let visible =
            openSnapshot == nil ? visibleHigh.newest(highSeqno) : visibleHigh.beforeSnapshot
        // A tombstone was visible before it was purged.
        return max(visible, min(purgeSeqno, covered))
    }

    /// Records a prepare, an abort or a skipped change at `seqno`, before the high seqno advances.
    mutating func noteInvisible(at seqno: Seqno) {
        visibleHigh.noteInvisible(at: seqno, after: highSeqno)
    }
}

extension Item {
    /// Whether the item is a document or a tombstone, neither a prepare nor an abort.
    package var isVisible: Bool { level == nil && abortedPrepare == nil }
}
