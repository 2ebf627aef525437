internal import Engine
package import Vocabulary

/// Waits for the next change of some vBuckets of a bucket: for readers that have everything, and need neither
/// cursors nor feeds until then.
package final class BucketWatch: Sendable {
    private let bucket: OpenBucket
    private let listeners: [(vBucket: VBucketID, number: UInt64)]

    /// Begins to watch; `changed` is called as a listener of `ChangeTraffic`, at least once after the next
    /// change.
    package init(
        _ bucket: OpenBucket,
        _ vBuckets: [VBucketID],
        changed: @escaping @Sendable () -> Void
    ) {
        self.bucket = bucket
        let notify = { @Sendable (news: ChangeTraffic.News) in
            switch news {
            case .changed, .ownership, .retired: changed()
            case .persisted, .acknowledged: break
            }
        }
        listeners = vBuckets.map { ($0, bucket.traffic.listen(to: $0, notify)) }
        for vBucket in vBuckets {
            bucket.engine[vBucket.number]?.withCore { $0.awaitNextChange() }
        }
    }

    /// Ends the watch; a call that has begun may still arrive.
    package func cancel() {
        for (vBucket, number) in listeners { bucket.traffic.ignore(vBucket, number) }
    }
}
