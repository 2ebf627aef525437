internal import Vocabulary

/// The vBuckets of a bucket that have fewer copies than the bucket's settings require.
///
/// A cluster with too few nodes for the copies is balanced, and has lost redundancy all the same.
package struct LostRedundancy: Hashable, Sendable {
    package let bucket: String
    /// The number of vBuckets that have a copy, but fewer than configured.
    package let vBuckets: Int
    /// A sentence for an operator: the number of vBuckets, the bucket, and the cure.
    package let sentence: String
}

extension ClusterState {
    /// Each bucket with a vBucket that has fewer copies than configured.
    ///
    /// Copies on failed-over nodes do not count. A vBucket without any copy is not in it: it is
    /// `unserved`, and a rebalance is no cure of that.
    package var lostRedundancy: [LostRedundancy] {
        let failed = nodes.filter {
            $0.membership == .inactiveFailed || $0.membership == .leftBehind
        }.map(\.number)
        return buckets.compactMap { bucket in
            let wanted = bucket.settings.replicas + 1
            let count = bucket.placements.count { placement in
                let copies = placement.chain.count { !failed.contains($0) }
                return copies > 0 && copies < wanted
            }
            guard count > 0 else { return nil }
            let replicas = Words.count(bucket.settings.replicas, "replica")
            let sentence =
                "\(count) of \(Words.count(bucket.placements.count, "vBucket")) of bucket "
                + "\(bucket.settings.name) \(count == 1 ? "has" : "have") fewer copies than configured "
                + "(\(replicas)): the loss of one more node can lose documents. \(cure(of: bucket))"
            return LostRedundancy(
                bucket: bucket.settings.name,
                vBuckets: count,
                sentence: sentence
            )
        }
    }

    private func cure(of bucket: BucketRecord) -> String {
        if rebalance != nil {
            return "A rebalance is running; the alert ends when the copies exist."
        }
        if unserved(bucket) > 0 {
            return "Add the failed-over nodes back, then rebalance."
        }
        // Added nodes take part in the next rebalance, failed-over ones without recovery do not.
        let usable = nodes.count {
            $0.membership == .active || $0.membership == .inactiveAdded
        }
        let missing = bucket.settings.replicas + 1 - usable
        guard missing > 0 else { return "Rebalance to create the missing copies." }
        return
            "Add \(missing == 1 ? "a node" : "\(missing) nodes") and rebalance, or set the bucket's "
            + "number of replicas to \(max(0, usable - 1))."
    }
}
