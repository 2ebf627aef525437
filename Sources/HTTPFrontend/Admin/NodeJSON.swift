internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A node as REST shows it.
struct NodeJSON {
    let call: Call
    let node: NodeRecord

    init(_ call: Call, _ node: NodeRecord) {
        self.call = call
        self.node = node
    }

    var hostname: String { ConfigurationJSON.name(node, port: node.ports.admin, call.naming) }

    /// - Parameters:
    ///   - bucket: The bucket whose node this is; nil where it stands for itself.
    ///   - volatile: Whether to show what changes all the time; not in streams, which would never
    ///     come to rest.
    /// - Returns: The node's object.
    func json(bucket: BucketRecord? = nil, volatile: Bool = true) -> JSONText {
        var members: [(String, JSONText)] = [
            ("clusterMembership", "active"),
            ("recoveryType", "none"),
            ("status", .string(status(of: bucket).rawValue)),
            ("otpNode", .string(node.otpNode)),
            ("hostname", .string(hostname)),
            ("configuredHostname", .string(configuredHostname)),
            ("nodeUUID", .string(node.uuid)),
            ("clusterCompatibility", .number(Release.clusterCompatibility)),
            ("version", .string(Release.couchbaseVersion)),
            ("prod", "server"),
            ("prodName", "Couchbase Server"),
            ("os", .string("\(Machine.architecture)-pc-linux-gnu")),
            ("cpuCount", .number(Machine.cpuCount)),
            ("ports", ports),
            ("services", ["kv"]),
            ("nodeEncryption", false),
            ("addressFamily", .string(node.host.contains(":") ? "inet6" : "inet")),
            ("addressFamilyOnly", false),
            ("externalListeners", []),
        ]
        if node.number == call.service.thisNode { members.append(("thisNode", true)) }
        if let bucket {
            // The share of the configured replicas that are in place.
            let settings = bucket.settings
            members.append(("replication", .double(Self.replication(bucket.rows, settings))))
        }
        if volatile { members += volatileMembers }
        return .object(members)
    }

    /// A node as such is as healthy as the worst of its buckets.
    private func status(of bucket: BucketRecord?) -> NodeStatus {
        guard let name = bucket?.settings.name else { return call.service.nodeStatus }
        return call.service.status(ofBucket: name)
    }

    static func replication(_ rows: VBucketRows, _ settings: BucketSettings) -> Double {
        guard settings.replicas > 0 else { return 1 }
        let placed = (0..<rows.count).reduce(0) { sum, row in
            sum + rows[row].dropFirst().count { $0 != VBucketRows.none }
        }
        return Double(placed) / Double(rows.count * settings.replicas)
    }

    private var configuredHostname: String {
        let host = node.host.contains(":") ? "[\(node.host)]" : node.host
        return "\(host):\(node.ports.admin)"
    }

    private var ports: JSONText {
        var members: [(String, JSONText)] = [("direct", .number(node.ports.data))]
        if node.ports.adminTLS != 0 { members.append(("httpsMgmt", .number(node.ports.adminTLS))) }
        return .object(members)
    }

    private var volatileMembers: [(String, JSONText)] {
        let memory = Machine.memory
        let now = call.service.wallMilliseconds
        return [
            (
                "systemStats",
                [
                    "cpu_utilization_rate": .double(call.machine.cpuPercent(nowMilliseconds: now)),
                    "cpu_cores_available": .number(Machine.cpuCount),
                    "swap_total": .number(memory.swapTotal),
                    "swap_used": .number(memory.swapTotal - min(memory.swapTotal, memory.swapFree)),
                    "mem_total": .number(memory.total),
                    "mem_free": .number(memory.free),
                    "mem_limit": .number(memory.total),
                ]
            ),
            ("interestingStats", interestingStats),
            // Text: that is how clients read it.
            ("uptime", .string("\(call.service.uptimeSeconds)")),
            ("memoryTotal", .number(memory.total)),
            ("memoryFree", .number(memory.free)),
            ("mcdMemoryReserved", .number(call.state.memoryQuota >> 20)),
            ("mcdMemoryAllocated", .number(call.state.bucketQuotas() >> 20)),
        ]
    }

    private var interestingStats: JSONText {
        let totals = Totals(call)
        return [
            "cmd_get": .double(totals.rate(.cmdGet)),
            "couch_docs_actual_disk_size": .number(totals.diskUsed),
            "couch_docs_data_size": .number(totals.diskDataUsed),
            "curr_items": .number(totals.items),
            "curr_items_tot": .number(totals.items),
            "ep_bg_fetched": .double(totals.rate(.backgroundFetched)),
            "get_hits": .double(totals.rate(.getHits)),
            "mem_used": .number(totals.memoryUsed),
            "ops": .double(totals.rate(.ops)),
            "vb_active_num_non_resident": .number(totals.items - totals.residentItems),
            "vb_replica_curr_items": 0,
        ]
    }
}

/// All buckets of this node together.
struct Totals {
    private let call: Call
    private(set) var items: UInt64 = 0
    private(set) var residentItems: UInt64 = 0
    private(set) var memoryUsed: UInt64 = 0
    private(set) var diskUsed: UInt64 = 0
    private(set) var diskDataUsed: UInt64 = 0

    init(_ call: Call) {
        self.call = call
        for bucket in call.visibleBuckets {
            let name = bucket.settings.name
            guard let one = call.service.dataPlane.statistics(ofBucket: name) else { continue }
            items += one.items
            residentItems += min(one.residentItems, one.items)
            memoryUsed += one.memoryUsed
            diskUsed += one.diskUsed
            diskDataUsed += one.diskDataUsed
        }
    }

    /// Per second, as of the newest second.
    func rate(_ statistic: SampledStatistic) -> Double {
        call.visibleBuckets.reduce(0) {
            $0 + call.service.sampler.newest(statistic, ofBucket: $1.settings.name)
        }
    }
}
