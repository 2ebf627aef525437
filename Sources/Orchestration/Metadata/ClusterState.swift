internal import Vocabulary

/// Who administers the cluster.
///
/// The credentials are salted keys, opaque at this floor.
package struct Administrator: Hashable, Sendable {
    package var name: String
    package var credentials: [UInt8]

    package init(name: String, credentials: [UInt8]) {
        self.name = name
        self.credentials = credentials
    }
}

/// What an administrator may set for the whole cluster.
package struct ClusterSettings: Hashable, Sendable {
    /// Percent of superseded data at which compaction begins.
    package var fragmentationPercent: UInt16 = 30
    /// Hours that tombstones are kept.
    package var purgeIntervalHours: UInt32 = 72
    /// More buckets cost memory that nobody sees on the bucket's bill.
    package var maxBucketCount: UInt32 = 1_000

    package init() {}
}

/// The cluster's one truth: a value that only `apply` changes.
///
/// It is what Raft will replicate: the proposer picks everything random or timed (UUIDs, salts,
/// rows), so that every node that applies the same commands in the same order has the same state.
///
/// - `index` grows by every applied command; revisions are indexes, so they only grow, also across
///   restarts and when a bucket is deleted and made again.
/// - `buckets` is sorted by name; names are unique ignoring case.
/// - Once there is an administrator, there always is one.
package struct ClusterState: Hashable, Sendable {
    /// The index of the last command applied.
    package internal(set) var index: UInt64 = 0
    /// Raised when an operator restarts the cluster's history; revisions compare after it.
    package internal(set) var revEpoch: UInt64 = 1
    /// The index of the last command that changed what clients see of the nodes.
    package internal(set) var rev: UInt64 = 0
    /// 32 hexadecimal digits; nil before provisioning.
    package internal(set) var uuid: String?
    package internal(set) var name = ""
    package internal(set) var administrator: Administrator?
    /// For documents, in bytes, on each node.
    package internal(set) var memoryQuota: UInt64
    package internal(set) var nodes: [NodeRecord] = []
    package internal(set) var buckets: [BucketRecord] = []
    package internal(set) var settings = ClusterSettings()

    package init(memoryQuota: UInt64) {
        self.memoryQuota = memoryQuota
    }

    /// Somebody has set an administrator: from now on nothing is done without a password.
    package var isProvisioned: Bool { administrator != nil }

    package func bucket(named name: String) -> BucketRecord? {
        buckets.first { $0.settings.name == name }
    }

    package func node(number: UInt16) -> NodeRecord? {
        nodes.first { $0.number == number }
    }

    /// What the buckets take on each node, in bytes, one of them left out where it is named.
    package func bucketQuotas(except name: String? = nil) -> UInt64 {
        buckets.reduce(0) { $1.settings.name == name ? $0 : $0 + $1.settings.quota }
    }
}
