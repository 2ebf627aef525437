internal import Bytes
package import Vocabulary

/// Names a reader of a vBucket's changes; never used twice in a vBucket.
package struct CursorID: Hashable, Sendable {
    let number: UInt64
}

/// A reader of a vBucket's changes besides the flusher: a replica's stream, a client's, a view's.
///
/// Reads a snapshot at a time: what is in it was fixed when the boundary at its end was closed, in
/// one hold of the lock; the documents follow in as many as it takes.
struct Cursor {
    let id: CursorID
    /// Everything up to here was read.
    var position: Seqno
    /// Where the snapshot being read ends; equal to `position` between snapshots.
    var end: Seqno
    /// What is left of it: entries in seqno order, the newest version of each key only.
    var list: [UInt64] = []
    var next = 0
    /// The list comes from the table: it keeps versions that have no entry in the change order.
    var isBackfill = false

    /// The prepares that were outstanding where such a snapshot ends, and where one from the change
    /// order does whose reader asked: of those that were aborted the table says nothing.
    var outstanding: [Seqno]?

    /// The change order has to keep what lies behind this.
    var retained: Seqno { isBackfill ? end : position }

    var isInSnapshot: Bool { position < end }

    /// Bytes of the lists.
    var bytes: Int { (list.count + (outstanding?.count ?? 0)) * 8 }

    /// A version that the list has from the table, and that is still to be read.
    func holds(_ seqno: Seqno) -> Bool { isBackfill && seqno > position && seqno <= end }
}

/// What a cursor has to read next.
package enum CursorSnapshot: Hashable, Sendable {
    /// Documents behind `start` up to the closed boundary `end`; there may be none left of them.
    case range(start: Seqno, end: Seqno)
    /// Everything was read; `takeOwedStreamWake` tells of the next change.
    case drained
    /// Memory ran short: go on from disk.
    case dropped
}

/// How far a read of a snapshot came.
package enum CursorRead: Hashable, Sendable {
    /// There is more of the snapshot.
    case more
    /// The snapshot's end was reached.
    case ended
    case dropped
}
