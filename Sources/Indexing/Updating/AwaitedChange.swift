package import Vocabulary

/// A change of a vBucket that a query waits for.
///
/// Seqnos count within one history: after a failover or a rollback, another change may have the same
/// seqno. So an index has an awaited change only if it follows the history of the change.
package struct AwaitedChange: Hashable, Sendable {
    package let seqno: Seqno
    /// The history that the seqno is of; nil if any history counts.
    package let uuid: VBucketUUID?

    /// The change at `seqno` of the history `uuid`.
    package init(_ seqno: Seqno, of uuid: VBucketUUID? = nil) {
        self.seqno = seqno
        self.uuid = uuid
    }

    /// Only the completeness of a vBucket is awaited, not a change.
    package static let complete = AwaitedChange(.zero)
}
