package import Vocabulary
package import Wire

/// What a producer answers to a request for a vBucket's changes.
package enum StreamAnswer: Hashable, Sendable {
    /// Changes come behind `start`, up to `end`; the log is told.
    ///
    /// Before it has everything through `promised` the consumer has nothing that makes sense.
    case accepted(start: Seqno, promised: Seqno, end: Seqno)
    /// The consumer has changes that are not in this history, or lacks deletions that are forgotten
    /// here: it goes back to this seqno and asks again.
    case rollback(Seqno)
    /// The numbers contradict each other.
    case outOfRange
}

/// Decides whether a consumer's history is this one's, up to where it stands.
///
/// A consumer may stand inside a snapshot: then it has some of its changes, those that newer ones
/// in the same snapshot replaced it never got. It is on this history only if that had come to the
/// snapshot's end before another one began; else it goes back to the snapshot's start.
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
        let end = flags.contains(.toLatest) ? high : request.end
        if flags.contains(.fromLatest) {
            return .accepted(start: high, promised: high, end: max(end, high))
        }
        let start = request.start
        guard start <= end, request.snapshotStart <= start, start <= request.snapshotEnd else {
            return .outOfRange
        }
        let isStrict = flags.contains(.strictUUID) && request.uuid.value != 0
        if start == .zero, !isStrict {
            return .accepted(start: .zero, promised: .zero, end: end)
        }
        guard let upper = log.end(of: request.uuid, high: high) else { return .rollback(.zero) }
        var (first, last) = (request.snapshotStart, request.snapshotEnd)
        // At either end of a snapshot the consumer has none of it, or all.
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
    /// The last change that two copies have in common, as far as their logs tell.
    ///
    /// - Parameters:
    ///   - high: The newest change here.
    ///   - other: The other's log.
    ///   - otherHigh: The newest change there.
    /// - Returns: The history they share and how far; nil where they share none.
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
