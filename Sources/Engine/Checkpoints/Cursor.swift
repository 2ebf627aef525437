package import Vocabulary

/// The number of a cursor; never reused in a vBucket.
package struct CursorID: Hashable, Sendable {
    let number: UInt64
}

/// A reader of a vBucket's changes besides the flusher: a replica's stream, a client's, a view's.
///
/// A cursor reads one snapshot at a time. The snapshot's content is fixed when its boundary is
/// closed, in one hold of the lock; the documents are read in slices, one hold of the lock each.
struct Cursor {
    let id: CursorID
    /// The cursor has read everything up to this seqno.
    var position: Seqno
    /// The end of the snapshot being read; equal to `position` between snapshots.
    var end: Seqno
    /// The snapshot's entries in seqno order, the newest version of each key only; those before
    /// `next` were read.
    var list: [UInt64] = []
    var next = 0
    /// The list comes from the table: it keeps versions that have no entry in the change order.
    var isBackfill = false

    /// The prepares that are outstanding at the snapshot's end; nil for a snapshot from the change
    /// order whose reader did not request the list.
    ///
    /// The table has no record of an abort, so a reader of a backfill needs the list.
    var outstanding: [Seqno]?

    /// The change order has to keep the changes after this seqno.
    var retained: Seqno { isBackfill ? end : position }

    var isInSnapshot: Bool { position < end }

    /// Bytes of the lists.
    var bytes: Int { (list.count + (outstanding?.count ?? 0)) * 8 }

    /// Whether a backfill has yet to read the version at `seqno`.
    func holds(_ seqno: Seqno) -> Bool { isBackfill && seqno > position && seqno <= end }
}

/// The next snapshot for a cursor to read.
package enum CursorSnapshot: Hashable, Sendable {
    /// The changes after `start` up to the closed boundary `end`; all of them may be deduplicated.
    case range(start: Seqno, end: Seqno)
    /// The cursor has read everything; `takeOwedStreamWake` returns true at the next change.
    case drained
    /// The cursor was dropped because memory ran short: continue from disk.
    case dropped
}

/// The result of reading a part of a snapshot.
package enum CursorRead: Hashable, Sendable {
    /// The snapshot has more changes.
    case more
    /// The snapshot's end was reached.
    case ended
    case dropped
}
