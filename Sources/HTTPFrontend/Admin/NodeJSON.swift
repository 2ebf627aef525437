internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A node as REST shows it.
struct NodeJSON {
    let call: Call
    let node: NodeRecord

    var hostname: String { ConfigurationJSON.name(node, port: node.ports.admin, call.naming) }

    /// - Parameters:
    ///   - bucket: The bucket in whose object this node is shown; nil for the node alone.
    ///   - volatile: Whether to include statistics, which change all the time; false for streams,
    ///     which send only when the JSON changes.
    ///   - numbers: The nodes' statistics if they were collected already; nil to collect this
    ///     node's.
    ///   - silent: The unhealthy nodes if they were determined already; nil to determine them.
    /// - Returns: The node's object.
    func json(
        bucket: BucketRecord? = nil,
        volatile: Bool = true,
        numbers: ClusterNumbers? = nil,
        silent: [NodeNumber]? = nil
    ) -> JSONText {
        var members: [(String, JSONText)] = [
            ("clusterMembership", .string(node.membership.name)),
            ("recoveryType", .string(node.recovery.name)),
            ("status", .string(status(of: bucket).rawValue)),
            ("otpNode", .string(node.otpNode)),
            ("hostname", .string(hostname)),
            ("configuredHostname", .string(configuredHostname)),
            ("nodeUUID", .string(node.uuid)),
            ("fingerprint", .string(node.fingerprint)),
            ("featureLevel", .number(Int(node.level.number))),
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
        if node.membership == .active {
            members += ConfigurationJSON.viewsAddress(
                of: node,
                bucket: bucket?.settings,
                host: call.naming
            )
        }
        if let alternate = node.alternate {
            members.append(("alternateAddresses", alternate.json))
        }
        if node.number == call.service.thisNode { members.append(("thisNode", true)) }
        if let bucket {
            // The fraction of the configured replicas that exist.
            let share = bucket.replication(
                ofNode: node.number,
                silent: silent ?? call.silentNodes
            )
            members.append(("replication", .double(share)))
        }
        if volatile { members += volatileMembers(numbers ?? ClusterNumbers(call, of: [node])) }
        return .object(members)
    }

    /// The node's status for a bucket; without a bucket the worst status over its buckets.
    private func status(of bucket: BucketRecord?) -> NodeStatus {
        guard let name = bucket?.settings.name else {
            return call.service.statistics.status(of: node.number)
        }
        return call.service.statistics.status(of: node.number, ofBucket: name)
    }

    /// The number of cores, which does not change: old statistics are as good as current ones.
    ///
    /// 0 if unknown.
    private var cpuCount: Int {
        if node.number == call.service.thisNode { return Machine.cpuCount }
        return call.service.statistics.last(of: node.number)?.machine.cores ?? 0
    }

    private var configuredHostname: String {
        let host = node.host.contains(":") ? "[\(node.host)]" : node.host
        return "\(host):\(node.ports.admin)"
    }

    private var ports: JSONText {
        var members = ConfigurationJSON.ports(of: node)
        if node.ports.peer != 0 { members.append(("distTCP", .number(node.ports.peer))) }
        if node.ports.views != 0 { members.append(("capi", .number(node.ports.views))) }
        return .object(members)
    }

    /// Statistics; empty objects for a node without current ones.
    private func volatileMembers(_ numbers: ClusterNumbers) -> [(String, JSONText)] {
        let own = numbers.nodes[node.number]
        let machine = own?.machine ?? MachineReading()
        let isReporting = own != nil
        let memoryTotal = node.memoryTotal == 0 ? machine.memoryTotal : node.memoryTotal
        return [
            ("systemStats", isReporting ? Self.systemStats(machine) : [:]),
            (
                "interestingStats",
                isReporting ? Self.interestingStats(numbers.totals(of: node.number)) : [:]
            ),
            // A string, since clients decode it as one.
            ("uptime", .string("\(own?.uptimeSeconds ?? 0)")),
            // The same number that the memory quota is validated against, if it is known.
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
        .object(Statistic.interesting.map { ($0.name, totals.json($0.statistic)) })
    }
}

extension AlternateAddress {
    /// Has `ports` only if some were given, unlike in configurations.
    fileprivate var json: JSONText {
        var members: [(String, JSONText)] = [("hostname", .string(host))]
        if !ports.isEmpty {
            members.append(("ports", .object(ports.map { ($0.service, .number($0.number)) })))
        }
        return ["external": .object(members)]
    }
}
