package import Vocabulary

/// Why a bucket needs a rebalance.
package struct BucketImbalance: Hashable, Sendable {
    /// The raw values are Couchbase's reason codes.
    package enum Cause: String, CaseIterable, Sendable {
        /// A vBucket has more or fewer copies than the settings and the number of nodes allow.
        case replicas = "num_replicas_changed"
        /// Nodes are active for uneven numbers of vBuckets.
        case uneven = "servers_not_balanced"
        /// Some vBuckets are not served: only failed-over nodes have copies of them.
        case unserved = "vbuckets_not_served"

        package var sentence: String {
            switch self {
            case .replicas: "Copies are missing, or there are more than the bucket should have."
            case .uneven: "The nodes do not serve the same number of vBuckets."
            case .unserved: "Some vBuckets are " + BucketImbalance.unserved
            }
        }
    }

    /// The end of a sentence that begins with "… vBuckets are ".
    package static let unserved =
        "not served: only failed-over nodes have their data. Add those nodes back and rebalance. "
        + "A rebalance without them recreates these vBuckets empty."

    package var cause: Cause
    package var bucket: String

    package init(cause: Cause, bucket: String) {
        self.cause = cause
        self.bucket = bucket
    }
}

/// Whether the cluster needs a rebalance, derived from the state alone.
extension ClusterState {
    /// Nodes that the next rebalance adds or removes.
    package var waitingNodes: [NodeRecord] {
        nodes.filter { $0.membership == .inactiveAdded || $0.membership == .inactiveFailed }
    }

    package var isBalanced: Bool { waitingNodes.isEmpty && imbalances.isEmpty }

    /// Every reason, bucket by bucket; empty if no bucket needs a rebalance.
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
            // A crash changes the active node of a few vBuckets; that is no reason for a rebalance.
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

    /// The number of a bucket's vBuckets that stay unserved until a failed-over node returns or a
    /// rebalance recreates them.
    package func unserved(_ bucket: BucketRecord) -> Int {
        let failed = Set(nodes.filter { $0.membership == .inactiveFailed }.map(\.number))
        return bucket.placements.count { placement in
            let isWaiting = placement.isRestored && placement.basis.contains(where: failed.contains)
            return isWaiting || placement.chain.first.map { failed.contains($0) } ?? true
        }
    }

    /// Whether a vBucket that these nodes are active for has no usable copy elsewhere.
    ///
    /// - Parameters:
    ///   - leaving: The nodes that are to leave.
    ///   - silent: Nodes that do not answer: their copies cannot take over.
    /// - Returns: Whether documents would be lost with the leaving nodes.
    package func haveOnlyCopies(_ leaving: [NodeNumber], silent: [NodeNumber] = []) -> Bool {
        let gone = leaving + silent
        return buckets.contains { bucket in
            bucket.placements.contains { placement in
                placement.chain.first.map { leaving.contains($0) } == true
                    && placement.chain.without(gone).isEmpty
            }
        }
    }

    /// Whether every vBucket that these nodes are active for has a copy elsewhere, and an active
    /// node stays.
    ///
    /// - Parameters:
    ///   - leaving: The nodes that are to leave.
    ///   - silent: Nodes that do not answer: their copies cannot take over.
    /// - Returns: Whether the remaining nodes can take over without losing documents.
    package func canFailOverGracefully(
        _ leaving: [NodeNumber],
        silent: [NodeNumber] = []
    ) -> Bool {
        let gone = leaving + silent
        let isLeft = activeNodes.contains { !gone.contains($0.number) }
        return isLeft && !haveOnlyCopies(leaving, silent: silent)
    }
}
