package import Vocabulary

/// The losses that a new epoch without given nodes may cause, by the agreed state alone.
package struct UnsafeFailoverImpact: Hashable, Sendable {
    /// The losses of one bucket.
    package struct Bucket: Hashable, Sendable {
        package var name: String
        /// vBuckets without a remaining copy.
        package var lost: [VBucketID]
        /// vBuckets that lose their active copy; the remaining copies may lack its last changes.
        package var doubtful: [VBucketID]
    }

    /// The affected buckets; empty if nothing is lost.
    package let buckets: [Bucket]

    package init(_ state: ClusterState, without lost: [NodeNumber]) {
        // Copies on nodes that were failed over before are given up as well.
        let gone = lost + state.gone
        buckets = state.buckets.compactMap { bucket in
            var impact = Bucket(name: bucket.settings.name, lost: [], doubtful: [])
            for (vBucket, placement) in bucket.numberedPlacements {
                let holders = [placement.chain, placement.next, placement.basis].joined()
                let isHeld = holders.contains { !gone.contains($0) }
                let isKept = placement.former.map { !gone.contains($0) } ?? false
                if !isHeld && !isKept {
                    impact.lost.append(vBucket)
                } else if let active = placement.chain.first, gone.contains(active) {
                    impact.doubtful.append(vBucket)
                }
            }
            return impact.lost.isEmpty && impact.doubtful.isEmpty ? nil : impact
        }
    }

    /// A sentence about vBuckets that have no copy left after the new epoch.
    package static func lost(_ vBuckets: [VBucketID], ofBucket name: String) -> String {
        "Of the bucket “\(name)”, \(Words.vBuckets(vBuckets))"
            + " \(vBuckets.count == 1 ? "has" : "have") no copy left: the next rebalance creates"
            + " \(vBuckets.count == 1 ? "it" : "them") empty."
    }

    /// Sentences for the operator; empty if nothing is lost.
    package var sentences: [String] {
        buckets.flatMap { bucket in
            var found: [String] = []
            if !bucket.lost.isEmpty {
                found.append(
                    "Of the bucket “\(bucket.name)”, \(Words.vBuckets(bucket.lost))"
                        + " \(bucket.lost.count == 1 ? "has" : "have") no copy there: all documents"
                        + " of \(bucket.lost.count == 1 ? "it" : "them") would be lost."
                )
            }
            if !bucket.doubtful.isEmpty {
                found.append(
                    "Of the bucket “\(bucket.name)”, the copies there of"
                        + " \(Words.vBuckets(bucket.doubtful)) may lack the last changes,"
                        + " durable ones too."
                )
            }
            return found
        }
    }
}
