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
    ///   - numbers: What the nodes say of themselves, where it was asked already.
    /// - Returns: The node's object.
    func json(
        bucket: BucketRecord? = nil,
        volatile: Bool = true,
        numbers: ClusterNumbers? = nil
    ) -> JSONText {
        var members: [(String, JSONText)] = [
            ("clusterMembership", .string(node.membership.name)),
            ("recoveryType", .string(node.recovery.name)),
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
            ("cpuCount", .number(cpuCount)),
            ("ports", ports),
            ("services", .array(node.services.map(JSONText.string))),
            ("serverGroup", .string(node.group)),
            ("nodeEncryption", false),
            ("addressFamily", .string(node.host.contains(":") ? "inet6" : "inet")),
            ("addressFamilyOnly", false),
            ("externalListeners", []),
        ]
        if let alternate = node.alternate {
            members.append(("alternateAddresses", alternate.json))
        }
        if node.number == call.service.thisNode { members.append(("thisNode", true)) }
        if let bucket {
            // The share of the configured replicas that are in place.
            let silent = call.silentNodes
            let share = bucket.replication(ofNode: node.number, silent: silent)
            members.append(("replication", .double(share)))
        }
        if volatile { members += volatileMembers(numbers ?? ClusterNumbers(call, of: [node])) }
        return .object(members)
    }

    /// A node as such is as healthy as the worst of its buckets.
    private func status(of bucket: BucketRecord?) -> NodeStatus {
        guard let name = bucket?.settings.name else {
            return call.service.status(of: node.number)
        }
        return call.service.status(of: node.number, ofBucket: name)
    }

    /// Does not change: what was told long ago will do.
    private var cpuCount: Int {
        if node.number == call.service.thisNode { return Machine.cpuCount }
        return call.service.lastStatistics(of: node.number)?.machine.cores ?? 0
    }

    private var configuredHostname: String {
        let host = node.host.contains(":") ? "[\(node.host)]" : node.host
        return "\(host):\(node.ports.admin)"
    }

    private var ports: JSONText {
        var members: [(String, JSONText)] = [("direct", .number(node.ports.data))]
        if node.ports.peer != 0 { members.append(("distTCP", .number(node.ports.peer))) }
        if node.ports.adminTLS != 0 { members.append(("httpsMgmt", .number(node.ports.adminTLS))) }
        return .object(members)
    }

    /// Empty of a node that is not heard of: nobody knows.
    private func volatileMembers(_ numbers: ClusterNumbers) -> [(String, JSONText)] {
        let own = numbers.nodes[node.number]
        let machine = own?.machine ?? MachineReading()
        let isHeard = own != nil
        let memoryTotal = node.memoryTotal == 0 ? machine.memoryTotal : node.memoryTotal
        return [
            ("systemStats", isHeard ? Self.systemStats(machine) : [:]),
            (
                "interestingStats",
                isHeard ? Self.interestingStats(numbers.totals(of: [node])) : [:]
            ),
            // Text: that is how clients read it.
            ("uptime", .string("\(own?.uptimeSeconds ?? 0)")),
            // What its quota is judged by, where it is known.
            ("memoryTotal", .number(memoryTotal)),
            ("memoryFree", .number(machine.memoryFree)),
            ("mcdMemoryReserved", .number(call.state.memoryQuota >> 20)),
            ("mcdMemoryAllocated", .number(call.state.bucketQuotas() >> 20)),
        ]
    }

    private static func systemStats(_ machine: MachineReading) -> JSONText {
        [
            "cpu_utilization_rate": .double(machine.cpuPercent),
            "cpu_cores_available": .number(machine.cores),
            "swap_total": .number(machine.swapTotal),
            "swap_used": .number(machine.swapTotal - min(machine.swapTotal, machine.swapFree)),
            "mem_total": .number(machine.memoryTotal),
            "mem_free": .number(machine.memoryFree),
            "mem_limit": .number(machine.memoryTotal),
        ]
    }

    private static func interestingStats(_ totals: ClusterNumbers.Totals) -> JSONText {
        [
            "cmd_get": .double(totals.gets),
            "couch_docs_actual_disk_size": .number(totals.diskUsed),
            "couch_docs_data_size": .number(totals.diskDataUsed),
            "curr_items": .number(totals.items),
            "curr_items_tot": .number(totals.items + totals.replicaItems),
            "ep_bg_fetched": .double(totals.diskFetches),
            "get_hits": .double(totals.hits),
            "mem_used": .number(totals.memoryUsed),
            "ops": .double(totals.operations),
            "vb_active_num_non_resident": .number(totals.items - totals.residentItems),
            "vb_replica_curr_items": .number(totals.replicaItems),
        ]
    }
}
