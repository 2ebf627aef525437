package import Vocabulary
package import Wire

/// A producer's answer to a stream request.
package enum StreamAnswer: Hashable, Sendable {
    /// The producer sends its failover log, then the changes after `start` up to `end`.
    ///
    /// The consumer's copy has no consistent state before it has everything through `promised`.
    case accepted(start: Seqno, promised: Seqno, end: Seqno)
    /// The consumer has changes that are not in the producer's history, or lacks purged deletions:
    /// it rolls back to this seqno and sends another request.
    case rollback(Seqno)
    /// The seqnos of the request contradict each other; never the answer to a request from zero
    /// without a strict UUID.
    case outOfRange
}

/// Decides whether a consumer's changes, up to its position, belong to the producer's history.
///
/// A consumer inside a snapshot may lack changes before its position that later changes of the
/// snapshot replaced. So it is accepted only if the producer's part of that history contains
/// the whole snapshot; else it rolls back to the snapshot's start at most.
///
/// - A request may name seqnos that no vBucket can have: the history decides about them too. Clients
///   do not recover from `outOfRange`.
package struct StreamOpening: Hashable, Sendable {
    package var log: FailoverLog
    package var high: Seqno
    package var purged: Seqno

    package init(log: FailoverLog, high: Seqno, purged: Seqno) {
        self.log = log
        self.high = high
        self.purged = purged
    }

    package func answer(to request: DCPStreamRequest) -> StreamAnswer {
        let flags = request.flags
        // Changes on disk reach no further than the latest change.
        let isToLatest = !flags.isDisjoint(with: [.toLatest, .diskOnly])
        // Clients request an endless stream with all 64 bits set.
        let end = min(isToLatest ? high : request.end, .last)
        if flags.contains(.fromLatest) {
            return .accepted(start: high, promised: high, end: max(end, high))
        }
        let start = request.start
        let isStrict = flags.contains(.strictUUID) && request.uuid.value != 0
        // A consumer without changes needs no history and is in no snapshot, whatever range it
        // names. Clients that keep the range of their last snapshot after a rollback to zero would
        // repeat a refused request forever.
        if start == .zero, !isStrict {
            return .accepted(start: .zero, promised: .zero, end: end)
        }
        // A client that asks for the latest changes may have some that were lost, behind the end.
        let isOrdered = start <= request.end || isToLatest
        guard isOrdered, request.snapshotStart <= start, start <= request.snapshotEnd else {
            return .outOfRange
        }
        guard let upper = log.end(of: request.uuid, high: high) else { return .rollback(.zero) }
        var (first, last) = (request.snapshotStart, request.snapshotEnd)
        // At the start of a snapshot the consumer has none of its changes, at the end all.
        if start == last { first = last }
        if start == first { last = first }
        if first < purged, start != .zero, !flags.contains(.ignorePurged) {
            return .rollback(.zero)
        }
        if last <= upper { return .accepted(start: start, promised: last, end: end) }
        return .rollback(min(first, upper))
    }
}

extension FailoverLog {
    /// The last change that two copies have in common according to their failover logs.
    ///
    /// - Parameters:
    ///   - high: The high seqno of the copy with this log.
    ///   - other: The other copy's log.
    ///   - otherHigh: The high seqno of the other copy.
    /// - Returns: The newest common history and its last common seqno; nil if there is none.
    package func branchPoint(
        high: Seqno,
        _ other: FailoverLog,
        otherHigh: Seqno
    ) -> (uuid: VBucketUUID, seqno: Seqno)? {
        for entry in entries {
            guard let theirs = other.end(of: entry.uuid, high: otherHigh),
                let ours = end(of: entry.uuid, high: high)
            else { continue }
            return (entry.uuid, min(ours, theirs))
        }
        return nil
    }
}
