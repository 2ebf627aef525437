package import Vocabulary
package import Wire

/// Checks a producer's answer to a stream request by the failover log of the producer.
///
/// - A request is accepted only if the producer's history has the whole snapshot that the client is
///   in.
/// - A rollback is announced only if it does not, and no further back than necessary.
package enum ConsumerRules {
    /// The flaw of an accepted request; nil if there is none.
    package static func flaw(
        accepting request: DCPStreamRequest,
        _ log: FailoverLog
    ) -> String? {
        guard request.start > .zero else { return nil }
        let needed = range(request)
        guard let end = log.end(of: request.uuid, high: endless) else {
            return "a stream from \(request.start.value) of a history that it does not have"
        }
        guard end < needed.last else { return nil }
        return "a stream from \(request.start.value) without a rollback, although changes behind "
            + "\(end.value) were lost, and the client has those up to \(needed.last.value)"
    }

    /// Checks an announced rollback.
    ///
    /// - Parameters:
    ///   - request: The refused request.
    ///   - seqno: The announced seqno.
    ///   - log: The producer's failover log after that: later promotions only shorten a history.
    ///   - purged: The seqno up to which the producer may have purged tombstones.
    /// - Returns: A sentence on the flaw; nil if there is none.
    package static func flaw(
        rollingBack request: DCPStreamRequest,
        to seqno: Seqno,
        _ log: FailoverLog,
        purged: Seqno
    ) -> String? {
        let needed = range(request)
        let text = "a rollback from \(request.start.value) to \(seqno.value)"
        guard seqno < request.start else { return "\(text), which leads nowhere" }
        if seqno == .zero, needed.first < purged { return nil }
        guard let end = log.end(of: request.uuid, high: endless) else {
            return seqno == .zero ? nil : "\(text), although it does not have the history"
        }
        guard end < needed.last else {
            return "\(text), although its history has everything up to \(needed.last.value)"
        }
        if seqno > needed.first {
            return "\(text), inside the client's snapshot from \(needed.first.value)"
        }
        guard seqno < min(needed.first, end) else { return nil }
        return "\(text), although changes up to \(min(needed.first, end).value) are shared"
    }

    /// The bounds of the client's progress: at a snapshot's start none of its changes, at its end all.
    private static func range(_ request: DCPStreamRequest) -> (first: Seqno, last: Seqno) {
        var (first, last) = (request.snapshotStart, request.snapshotEnd)
        if request.start == last { first = last }
        if request.start == first { last = first }
        return (first, last)
    }

    private static let endless = Seqno(.max)
}
