package import Vocabulary

/// What a new epoch without these nodes may cost, as far as the map alone can tell.
package struct EpochStake: Hashable, Sendable {
    package struct Bucket: Hashable, Sendable {
        package var name: String
        /// No copy is left.
        package var lost: [VBucketID]
        /// The active copy is gone; what is left of the others may lack its last changes.
        package var doubtful: [VBucketID]
    }

    /// Those that it costs something.
    package let buckets: [Bucket]

    package init(_ state: ClusterState, without lost: [NodeNumber]) {
        // What those have who were failed over before is given up with them.
        let gone = lost + state.gone
        buckets = state.buckets.compactMap { bucket in
            var stake = Bucket(name: bucket.settings.name, lost: [], doubtful: [])
            for (number, placement) in bucket.placements.enumerated() {
                let holders = [placement.chain, placement.next, placement.basis].joined()
                let isHeld = holders.contains { !gone.contains($0) }
                let isKept = placement.former.map { !gone.contains($0) } ?? false
                let vBucket = VBucketID(UInt16(number))
                if !isHeld && !isKept {
                    stake.lost.append(vBucket)
                } else if let active = placement.chain.first, gone.contains(active) {
                    stake.doubtful.append(vBucket)
                }
            }
            return stake.lost.isEmpty && stake.doubtful.isEmpty ? nil : stake
        }
    }

    /// Of vBuckets without a copy, once it has come to that.
    package static func lost(_ vBuckets: [VBucketID], ofBucket name: String) -> String {
        "Of the bucket “\(name)”, \(Words.vBuckets(vBuckets))"
            + " \(vBuckets.count == 1 ? "has" : "have") no copy left: the next rebalance creates"
            + " \(vBuckets.count == 1 ? "it" : "them") empty."
    }

    /// In words, for whoever has to decide.
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
