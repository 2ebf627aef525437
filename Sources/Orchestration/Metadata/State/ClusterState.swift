package import Vocabulary

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

/// The cluster's one truth: a value that only `apply` changes.
///
/// It is what Raft replicates: the proposer picks everything random or timed (UUIDs, salts, rows),
/// so that every node that applies the same commands in the same order has the same state.
///
/// - `index` grows with every entry; fences and revisions are indexes, so they only grow, also
///   across restarts and when a bucket is deleted and made again.
/// - `nodes` is sorted by number, `buckets` by name; names are unique ignoring case.
/// - Once there is an administrator, there always is one.
package struct ClusterState: Hashable, Sendable {
    /// The index of the last entry applied.
    package internal(set) var index: UInt64 = 0
    /// Raised when an operator restarts the cluster's history; revisions compare after it.
    package internal(set) var revEpoch: UInt64 = 1
    /// The index of the last command that changed what clients see of the nodes.
    package internal(set) var rev: UInt64 = 0
    /// The Raft group; 0 before provisioning.
    package internal(set) var groupID: UInt64 = 0
    /// The groups of the epochs before, oldest first: whoever still belongs to one is behind.
    package internal(set) var pastGroups: [UInt64] = []
    /// 32 hexadecimal digits; nil before provisioning.
    package internal(set) var uuid: String?
    package internal(set) var name = ""
    package internal(set) var administrator: Administrator?
    /// For documents, in bytes, on each node.
    package internal(set) var memoryQuota: UInt64
    package internal(set) var settings = ClusterSettings()
    /// Failovers that nobody asked for, since somebody last looked.
    package internal(set) var autoFailoverCount: UInt16 = 0
    package internal(set) var nodes: [NodeRecord] = []
    package internal(set) var nextNodeNumber = NodeNumber(1)
    package internal(set) var groups = [ServerGroup.first]
    package internal(set) var buckets: [BucketRecord] = []
    package internal(set) var deletedBuckets: [DeletedBucket] = []
    /// The one that runs.
    package internal(set) var rebalance: RebalanceRecord?
    package internal(set) var lastRebalance: RebalanceOutcome?
    /// What is to be tried again, or is being tried again.
    package internal(set) var retry: RebalanceRetry?
    package internal(set) var counters = ClusterCounters()
    var proposals = ProposalTable()

    package init(memoryQuota: UInt64) {
        self.memoryQuota = memoryQuota
    }

    /// How new a state is, where one node's is compared with another's.
    package struct Age: Comparable, Sendable {
        let epoch: UInt64
        let index: UInt64

        package static func < (one: Age, other: Age) -> Bool {
            (one.epoch, one.index) < (other.epoch, other.index)
        }
    }

    package var age: Age { Age(epoch: revEpoch, index: index) }

    /// Somebody has set an administrator: from now on nothing is done without a password.
    package var isProvisioned: Bool { administrator != nil }

    package func bucket(named name: String) -> BucketRecord? {
        buckets.first { $0.settings.name == name }
    }

    package func node(number: NodeNumber) -> NodeRecord? {
        nodes.first { $0.number == number }
    }

    /// All but those that an epoch began without.
    package var members: [NodeRecord] { nodes.filter { $0.membership != .leftBehind } }

    package var leftBehind: [NodeNumber] {
        nodes.filter { $0.membership == .leftBehind }.map(\.number)
    }

    package var activeNodes: [NodeRecord] { nodes.filter { $0.membership == .active } }

    /// Nodes that clients find in the map of a bucket, in the order of their numbers.
    ///
    /// Whoever leaves stays until the rebalance ends, though it holds nothing any more: a client
    /// cuts its connections to a node that its map does not name, and what was asked there and not
    /// answered yet has failed then.
    package func servers(of bucket: BucketRecord) -> [NodeRecord] {
        let holders = bucket.holders
        let leaving = (rebalance?.ejected ?? []).filter { isActive($0) && !holders.contains($0) }
        return (holders + leaving).sorted().compactMap { node(number: $0) }
    }

    /// What the buckets take on each node, in bytes, one of them left out where it is named.
    ///
    /// The largest number there is stands for a sum that has no room in 64 bits.
    package func bucketQuotas(except name: String? = nil) -> UInt64 {
        buckets.reduce(0) { sum, bucket in
            guard bucket.settings.name != name else { return sum }
            let (next, isTooLarge) = sum.addingReportingOverflow(bucket.settings.quota)
            return isTooLarge ? .max : next
        }
    }

    /// A bucket has this name, upper or lower case.
    package func hasBucket(like name: String) -> Bool {
        let name = name.lowercased()
        return buckets.contains { $0.settings.name.lowercased() == name }
    }

    /// By node: the last entry that took writing from it, as a voter's promises ask for it.
    package var deposedAt: [NodeNumber: UInt64] {
        let fenced = nodes.filter { $0.fencedAt != 0 }.map { ($0.number, $0.fencedAt) }
        return Dictionary(uniqueKeysWithValues: fenced)
    }

    // MARK: Places, for commands

    func place(ofNode number: NodeNumber) -> Int? {
        nodes.firstIndex { $0.number == number }
    }

    func place(ofBucket name: String) -> Int? {
        buckets.firstIndex { $0.settings.name == name }
    }

    func place(ofBucket name: String, _ uuid: String) -> Int? {
        buckets.firstIndex { $0.settings.name == name && $0.settings.uuid == uuid }
    }

    func isActive(_ node: NodeNumber) -> Bool {
        self.node(number: node)?.membership == .active
    }

    /// A client sees other nodes, or sees them elsewhere.
    mutating func nodesMoved() {
        rev = index
        for place in buckets.indices { buckets[place].rev = index }
    }
}
