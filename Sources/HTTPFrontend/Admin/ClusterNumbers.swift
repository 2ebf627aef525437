internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// The nodes' statistics, collected once for one reply, and their sums.
///
/// - A node without current statistics contributes nothing: after a failover the promoted copies on
///   other nodes are counted instead.
/// - Sums contain only buckets that are visible to the request's identity.
struct ClusterNumbers {
    struct Totals {
        var items: UInt64 = 0
        var replicaItems: UInt64 = 0
        /// Documents whose value is not in memory.
        var nonResidentItems: UInt64 = 0
        var memoryUsed: UInt64 = 0
        var diskUsed: UInt64 = 0
        var diskDataUsed: UInt64 = 0
        // Rates per second, from the newest sample.
        var gets = 0.0
        var hits = 0.0
        var diskFetches = 0.0
        var operations = 0.0
        // Index files.
        var viewsDiskUsed: UInt64 = 0
        var viewsDataUsed: UInt64 = 0

        fileprivate mutating func add(_ bucket: NodeStatistics.Bucket) {
            let statistics = bucket.statistics
            replicaItems += statistics.replicaItems
            nonResidentItems +=
                statistics.items - min(statistics.residentItems, statistics.items)
            memoryUsed += statistics.memoryUsed
            diskUsed += statistics.diskUsed
            diskDataUsed += statistics.diskDataUsed
            gets += bucket.rates[.gets] ?? 0
            hits += bucket.rates[.hits] ?? 0
            diskFetches += bucket.rates[.diskFetches] ?? 0
            operations += bucket.rates[.operations] ?? 0
        }

        fileprivate mutating func add(_ bucket: ViewStatistics.Bucket) {
            viewsDiskUsed += bucket.diskUsed
            viewsDataUsed += bucket.dataUsed
        }
    }

    /// Nodes with current statistics only.
    let nodes: [NodeNumber: NodeStatistics]
    /// Nodes with views only.
    let views: [NodeNumber: ViewStatistics]
    /// Nodes that are unhealthy from this node's view.
    let silentNodes: [NodeNumber]
    /// The sums of each node over the visible buckets.
    private let sums: [NodeNumber: Totals]
    /// The documents of each visible bucket, by name.
    private let items: [String: UInt64]

    /// - Parameters:
    ///   - call: The request, whose identity decides which buckets are counted.
    ///   - nodes: The nodes to collect; nil for all.
    init(_ call: Call, of nodes: [NodeRecord]? = nil) {
        var found: [NodeNumber: NodeStatistics] = [:]
        var views: [NodeNumber: ViewStatistics] = [:]
        // The documents of a vBucket may be in the reports of several nodes, so all are needed.
        for node in call.state.nodes {
            found[node.number] = call.service.statistics(of: node.number)
        }
        for node in nodes ?? call.state.nodes {
            views[node.number] = call.service.viewStatistics(of: node.number)
        }
        let visible = Set(call.visibleBuckets.map(\.settings.name))
        let counts = call.visibleBuckets.map { bucket in
            call.service.itemCounts(
                of: bucket,
                found.mapValues { $0.copies(ofBucket: bucket.settings.name) }
            )
        }
        if let nodes { found = found.filter { found in nodes.contains { $0.number == found.key } } }
        var sums: [NodeNumber: Totals] = [:]
        for (node, statistics) in found {
            for bucket in statistics.buckets where visible.contains(bucket.name) {
                sums[node, default: Totals()].add(bucket)
            }
        }
        for (node, statistics) in views {
            for bucket in statistics.buckets where visible.contains(bucket.name) {
                sums[node, default: Totals()].add(bucket)
            }
        }
        for node in found.keys {
            sums[node, default: Totals()].items = counts.reduce(0) { $0 &+ ($1[node] ?? 0) }
        }
        items = Dictionary(
            zip(call.visibleBuckets.map(\.settings.name), counts.map { $0.values.reduce(0, &+) })
        ) { $0 + $1 }
        self.nodes = found
        self.views = views
        self.sums = sums
        silentNodes = call.silentNodes
    }

    /// The sums of one node over the visible buckets.
    func totals(of node: NodeNumber) -> Totals { sums[node] ?? Totals() }

    /// The sums of one bucket over all nodes.
    func totals(ofBucket name: String) -> Totals {
        var totals = Totals()
        for node in nodes.values {
            if let bucket = node.bucket(named: name) { totals.add(bucket) }
        }
        for node in views.values {
            if let bucket = node.bucket(named: name) { totals.add(bucket) }
        }
        totals.items = items[name] ?? 0
        return totals
    }

    /// Memory and disk of these nodes, as REST shows them.
    func storageTotals(of some: [NodeRecord], _ state: ClusterState) -> JSONText {
        let parts = some.map { totals(of: $0.number) }
        let memoryUsed: UInt64 = parts.reduce(0) { $0 + $1.memoryUsed }
        let diskUsed: UInt64 = parts.reduce(0) { $0 + $1.diskUsed }
        let statistics = some.compactMap { nodes[$0.number] }
        func sum(_ number: (NodeStatistics) -> UInt64) -> UInt64 {
            statistics.reduce(0) { $0 + number($1) }
        }
        let memory = sum { $0.machine.memoryTotal }
        let free = sum { $0.machine.memoryFree }
        // A disk that several nodes share counts once.
        var disks: Set<UInt64> = []
        let separate = statistics.filter {
            $0.machine.diskIdentity == 0 || disks.insert($0.machine.diskIdentity).inserted
        }
        let disk = separate.reduce(0) { $0 + $1.diskTotal }
        let room = separate.reduce(0) { $0 + $1.diskFree }
        let holders = UInt64(max(some.count { $0.membership == .active }, 1))
        let quotaUsed = state.bucketQuotas()
        return [
            "ram": [
                "total": .number(memory),
                "quotaTotal": .number(
                    ClusterState.bytes(ofQuota: state.memoryQuota, onNodes: holders)
                ),
                "quotaUsed": .number(
                    ClusterState.bytes(ofQuota: quotaUsed, onNodes: holders)
                ),
                "used": .number(memory - min(memory, free)),
                "usedByData": .number(memoryUsed),
                "quotaUsedPerNode": .number(quotaUsed),
                "quotaTotalPerNode": .number(state.memoryQuota),
            ],
            "hdd": [
                "total": .number(disk),
                "quotaTotal": .number(disk),
                "used": .number(disk - min(disk, room)),
                "usedByData": .number(diskUsed),
                "free": .number(room),
            ],
        ]
    }
}
