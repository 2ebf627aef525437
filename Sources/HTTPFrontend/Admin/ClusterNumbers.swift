internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// What the nodes say of themselves, asked once for one answer, and sums of it.
///
/// - A node that is not heard of counts nothing: after a failover others count what it had.
/// - Only buckets that whoever asks may see count.
struct ClusterNumbers {
    struct Totals {
        var items: UInt64 = 0
        var replicaItems: UInt64 = 0
        var residentItems: UInt64 = 0
        var memoryUsed: UInt64 = 0
        var diskUsed: UInt64 = 0
        var diskDataUsed: UInt64 = 0
        // A second, as of the newest one.
        var gets = 0.0
        var hits = 0.0
        var diskFetches = 0.0
        var operations = 0.0

        fileprivate mutating func add(_ bucket: NodeStatistics.Bucket) {
            let one = bucket.statistics
            items += one.items
            replicaItems += one.replicaItems
            residentItems += min(one.residentItems, one.items)
            memoryUsed += one.memoryUsed
            diskUsed += one.diskUsed
            diskDataUsed += one.diskDataUsed
            gets += bucket.rates[.gets] ?? 0
            hits += bucket.rates[.hits] ?? 0
            diskFetches += bucket.rates[.diskFetches] ?? 0
            operations += bucket.rates[.operations] ?? 0
        }
    }

    /// Of those that are heard.
    let nodes: [NodeNumber: NodeStatistics]
    private let visible: Set<String>

    /// - Parameters:
    ///   - call: Who asks.
    ///   - nodes: Whom it is about; nil for all.
    init(_ call: Call, of nodes: [NodeRecord]? = nil) {
        var heard: [NodeNumber: NodeStatistics] = [:]
        for node in nodes ?? call.state.nodes {
            heard[node.number] = call.service.statistics(of: node.number)
        }
        self.nodes = heard
        visible = Set(call.visibleBuckets.map(\.settings.name))
    }

    func totals(of some: [NodeRecord]) -> Totals {
        var totals = Totals()
        for node in some {
            for bucket in nodes[node.number]?.buckets ?? [] where visible.contains(bucket.name) {
                totals.add(bucket)
            }
        }
        return totals
    }

    /// One bucket on all nodes.
    func totals(ofBucket name: String) -> Totals {
        var totals = Totals()
        for node in nodes.values {
            if let bucket = node.bucket(named: name) { totals.add(bucket) }
        }
        return totals
    }

    /// Memory and disk of these nodes, as REST shows them.
    func storageTotals(of some: [NodeRecord], _ state: ClusterState) -> JSONText {
        let totals = totals(of: some)
        let heard = some.compactMap { nodes[$0.number] }
        func sum(_ number: (NodeStatistics) -> UInt64) -> UInt64 {
            heard.reduce(0) { $0 + number($1) }
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
