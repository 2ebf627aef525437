package import Vocabulary

/// Why a bucket's copies are not where they should be; a rebalance would change that.
package struct BucketImbalance: Hashable, Sendable {
    package enum Cause: String, CaseIterable, Sendable {
        /// More or fewer copies than the bucket should have, although nodes are there.
        case replicas = "num_replicas_changed"
        /// Nodes serve uneven numbers of vBuckets.
        case uneven = "servers_not_balanced"
        /// Nobody serves some vBuckets: whoever has them was failed over, and nobody else has anything.
        case unserved = "vbuckets_not_served"

        package var sentence: String {
            switch self {
            case .replicas: "Copies are missing, or there are more than the bucket should have."
            case .uneven: "The nodes do not serve the same number of vBuckets."
            case .unserved: "Some vBuckets are " + BucketImbalance.unserved
            }
        }
    }

    /// The end of a sentence about vBuckets.
    package static let unserved =
        "served by nobody: what they held is with nodes that were failed over. Add those back and "
        + "rebalance; a rebalance without them makes these vBuckets anew, empty."

    package var cause: Cause
    package var bucket: String

    package init(cause: Cause, bucket: String) {
        self.cause = cause
        self.bucket = bucket
    }
}

/// What a rebalance would change, read off the state alone.
extension ClusterState {
    /// Nodes that wait for a rebalance to come in or to go.
    package var waitingNodes: [NodeRecord] {
        nodes.filter { $0.membership == .inactiveAdded || $0.membership == .inactiveFailed }
    }

    package var isBalanced: Bool { waitingNodes.isEmpty && imbalances.isEmpty }

    package var imbalances: [BucketImbalance] {
        let active = activeNodes.map(\.number)
        guard !active.isEmpty else { return [] }
        var found: [BucketImbalance] = []
        for bucket in buckets {
            let name = bucket.settings.name
            let copies = min(bucket.settings.replicas + 1, active.count)
            if bucket.placements.contains(where: { $0.chain.count != copies }) {
                found.append(BucketImbalance(cause: .replicas, bucket: name))
            }
            var served = Dictionary(uniqueKeysWithValues: active.map { ($0, 0) })
            for placement in bucket.placements {
                if let first = placement.chain.first { served[first, default: 0] += 1 }
            }
            let numbers = served.values
            // A few change hands whenever a node crashes: that is no reason for a rebalance.
            let most = max(1, bucket.placements.count / 100)
            if (numbers.max() ?? 0) - (numbers.min() ?? 0) > most {
                found.append(BucketImbalance(cause: .uneven, bucket: name))
            }
            if unserved(bucket) > 0 {
                found.append(BucketImbalance(cause: .unserved, bucket: name))
            }
        }
        return found
    }

    /// How many vBuckets of a bucket nobody serves until a node comes back or they are made anew.
    package func unserved(_ bucket: BucketRecord) -> Int {
        let failed = Set(nodes.filter { $0.membership == .inactiveFailed }.map(\.number))
        return bucket.placements.count { placement in
            let isWaiting = placement.isRestored && placement.basis.contains(where: failed.contains)
            return isWaiting || placement.chain.first.map { failed.contains($0) } ?? true
        }
    }

    /// Something that these nodes serve has no copy elsewhere.
    ///
    /// - Parameters:
    ///   - leaving: Who would go.
    ///   - silent: Nodes that do not answer: what they have takes nothing over.
    /// - Returns: Whether documents go with them.
    package func haveOnlyCopies(_ leaving: [NodeNumber], silent: [NodeNumber] = []) -> Bool {
        let gone = leaving + silent
        return buckets.contains { bucket in
            bucket.placements.contains { placement in
                placement.chain.first.map { leaving.contains($0) } == true
                    && placement.chain.without(gone).isEmpty
            }
        }
    }

    /// Every vBucket that these nodes serve has a copy elsewhere, and somebody is left.
    ///
    /// - Parameters:
    ///   - leaving: Who would go.
    ///   - silent: Nodes that do not answer: what they have takes nothing over.
    /// - Returns: Whether others can take over without losing anything.
    package func canFailOverGracefully(
        _ leaving: [NodeNumber],
        silent: [NodeNumber] = []
    ) -> Bool {
        let gone = leaving + silent
        let isLeft = activeNodes.contains { !gone.contains($0.number) }
        return isLeft && !haveOnlyCopies(leaving, silent: silent)
    }
}
