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
        var residentItems: UInt64 = 0
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
            items += statistics.items
            replicaItems += statistics.replicaItems
            residentItems += min(statistics.residentItems, statistics.items)
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
    private let visible: Set<String>

    /// - Parameters:
    ///   - call: The request, whose identity decides which buckets are counted.
    ///   - nodes: The nodes to collect; nil for all.
    init(_ call: Call, of nodes: [NodeRecord]? = nil) {
        var found: [NodeNumber: NodeStatistics] = [:]
        var views: [NodeNumber: ViewStatistics] = [:]
        for node in nodes ?? call.state.nodes {
            found[node.number] = call.service.statistics(of: node.number)
            views[node.number] = call.service.viewStatistics(of: node.number)
        }
        self.nodes = found
        self.views = views
        visible = Set(call.visibleBuckets.map(\.settings.name))
    }

    func totals(of some: [NodeRecord]) -> Totals {
        var totals = Totals()
        for node in some {
            for bucket in nodes[node.number]?.buckets ?? [] where visible.contains(bucket.name) {
                totals.add(bucket)
            }
            for bucket in views[node.number]?.buckets ?? [] where visible.contains(bucket.name) {
                totals.add(bucket)
            }
        }
        return totals
    }

    /// The sums of one bucket over all nodes.
    func totals(ofBucket name: String) -> Totals {
        var totals = Totals()
        for node in nodes.values {
            if let bucket = node.bucket(named: name) { totals.add(bucket) }
        }
        for node in views.values {
            if let bucket = node.bucket(named: name) { totals.add(bucket) }
        }
        return totals
    }

    /// Memory and disk of these nodes, as REST shows them.
    func storageTotals(of some: [NodeRecord], _ state: ClusterState) -> JSONText {
        let totals = totals(of: some)
        let statistics = some.compactMap { nodes[$0.number] }
        func sum(_ number: (NodeStatistics) -> UInt64) -> UInt64 {
            statistics.reduce(0) { $0 + number($1) }
        }
        let memory = sum { $0.machine.memoryTotal }
        let free = sum { $0.machine.memoryFree }
        let disk = sum(\.diskTotal)
        let room = sum(\.diskFree)
        let holders = UInt64(max(some.count { $0.membership == .active }, 1))
        let quotaUsed = state.bucketQuotas()
        return [
            "ram": [
                "total": .number(memory),
                "quotaTotal": .number(state.memoryQuota * holders),
                "quotaUsed": .number(quotaUsed * holders),
                "used": .number(memory - min(memory, free)),
                "usedByData": .number(totals.memoryUsed),
                "quotaUsedPerNode": .number(quotaUsed),
                "quotaTotalPerNode": .number(state.memoryQuota),
            ],
            "hdd": [
                "total": .number(disk),
                "quotaTotal": .number(disk),
                "used": .number(disk - min(disk, room)),
                "usedByData": .number(totals.diskUsed),
                "free": .number(room),
            ],
        ]
    }
}
