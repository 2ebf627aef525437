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
        private static let added: [Statistic] = [
            .replicaItems, .nonResidentItems, .memoryUsed, .diskUsed, .diskDataUsed,
        ]

        private var numbers: [Statistic: UInt64] = [:]
        /// The rates of counters in the newest sample, per second.
        private var rates: [Statistic: Double] = [:]

        fileprivate mutating func add(_ bucket: NodeStatistics.Bucket) {
            for statistic in Self.added {
                numbers[statistic, default: 0] += bucket.statistics[statistic]
            }
            rates.merge(bucket.rates, uniquingKeysWith: +)
        }

        fileprivate mutating func add(_ bucket: ViewStatistics.Bucket) {
            for (statistic, number) in bucket.numbers { numbers[statistic, default: 0] += number }
        }

        /// Sets the number of items, and the numbers that depend on it.
        fileprivate mutating func set(items: UInt64) {
            numbers[.items] = items
            numbers[.allItems] = items &+ self[.replicaItems]
            numbers[.nonResidentItems] = min(items, self[.nonResidentItems])
        }

        subscript(statistic: Statistic) -> UInt64 { numbers[statistic] ?? 0 }

        /// A statistic as JSON; a counter per second.
        func json(_ statistic: Statistic) -> JSONText {
            statistic.kind == .counter
                ? .double(rates[statistic] ?? 0) : .number(self[statistic])
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
            found[node.number] = call.service.statistics.current(of: node.number)
        }
        for node in nodes ?? call.state.nodes {
            views[node.number] = call.service.statistics.viewStatistics(of: node.number)
        }
        let visible = Set(call.visibleBuckets.map(\.settings.name))
        let counts = call.visibleBuckets.map { bucket in
            call.service.statistics.itemCounts(
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
            let items = counts.reduce(0) { $0 &+ ($1[node] ?? 0) }
            sums[node, default: Totals()].set(items: items)
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
        totals.set(items: items[name] ?? 0)
        return totals
    }

    /// Memory and disk of these nodes, as REST shows them.
    func storageTotals(of some: [NodeRecord], _ state: ClusterState) -> JSONText {
        let parts = some.map { totals(of: $0.number) }
        let memoryUsed: UInt64 = parts.reduce(0) { $0 + $1[.memoryUsed] }
        let diskUsed: UInt64 = parts.reduce(0) { $0 + $1[.diskUsed] }
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
