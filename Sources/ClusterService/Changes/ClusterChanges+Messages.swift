internal import Bytes
internal import Orchestration
package import Vocabulary
internal import Wire

/// The messages of nodes, on the task of the feed's consumer.
extension ClusterChanges {
    /// Handles a message of a link.
    ///
    /// - Returns: What the consumer gets, and what is wrong with the rest of the message.
    static func handle(
        _ message: [UInt8],
        _ collector: inout Collector,
        _ now: UInt64
    ) -> (events: [ChangesEvent], flaw: CodingFailure?) {
        message.withUnsafeBytes { buffer in
            var events: [ChangesEvent] = []
            do throws(CodingFailure) {
                try ChangesMessage.forEach(in: ByteView(buffer)) { number, message in
                    if let event = handle(message, number, &collector, now) { events.append(event) }
                }
                return (events, nil)
            } catch {
                return (events, error)
            }
        }
    }

    private static func handle(
        _ message: ChangesMessage,
        _ number: UInt32,
        _ collector: inout Collector,
        _ now: UInt64
    ) -> ChangesEvent? {
        switch message {
        case .opened(let uuid, let start, let high):
            collector.machine.open(number, as: uuid, start: start, high: high)
        case .rolledBack(let uuid, let seqno):
            collector.retryAt = now
            let rollback = collector.machine.rollBack(number, to: seqno, of: uuid)
            return rollback.map { .rollback($0.vBucket, $0.seqno) }
        case .purged:
            switch collector.machine.purge(number) {
            case .ignored: break
            case .restarted(let rollback):
                collector.retryAt = now
                return rollback.map { .rollback($0.vBucket, $0.seqno) }
            case .refused(let vBucket): return .purged(vBucket)
            }
        case .unavailable, .ended:
            collector.machine.end(number)
            collector.retryAt = collector.retryAt ?? now + ClusterChanges.retryNanoseconds
        case .snapshot(let start, let end):
            collector.machine.beginSnapshot(number, from: start, to: end)
        case .change(let row):
            let vBucket = collector.machine.change(number, row.seqno)
            return vBucket.map { .change(ChangedDocument(row, $0)) }
        case .advanced(let seqno): collector.machine.advance(number, to: seqno)
        }
        return nil
    }
}

/// An event for the consumer of an HTTP feed.
package enum ChangesEvent: Sendable {
    case change(ChangedDocument)
    /// A failover lost changes of the vBucket after the seqno. Changes may repeat.
    case rollback(VBucketID, Seqno)
    /// Deletions after the position in this vBucket were purged: the consumer has to start over.
    case purged(VBucketID)
    /// The feed ends: a sentence for its consumer.
    case failed(String)
    /// The feed is complete.
    case end
}

/// A changed document.
package struct ChangedDocument: Sendable {
    package let vBucket: VBucketID
    package let seqno: Seqno
    package let cas: CAS
    package let isDeleted: Bool
    /// The document expired; it is also deleted.
    package let isExpired: Bool
    package let key: [UInt8]
    /// Nil if the feed has no values, or the document is deleted.
    package let value: [UInt8]?

    init(_ row: HTTPFeedRow, _ vBucket: VBucketID) {
        self.vBucket = vBucket
        seqno = row.seqno
        cas = row.cas
        isDeleted = row.isDeleted
        isExpired = row.isExpired
        key = row.key.bytes
        value = row.value?.bytes
    }
}
