internal import Bytes
package import Vocabulary

/// How a configuration names a node that only its own machine can reach.
package enum HostNaming: Hashable, Sendable {
    /// `$HOST`: the client puts in the address it used. For configurations sent over the data port.
    case placeholder
    /// The address the request arrived on. For configurations sent over HTTP.
    case address(String)
}

/// The two configurations clients live by: where the cluster's services are, and where a bucket's
/// vBuckets are.
///
/// Several clients end their own process over a key that is missing or of another type (kv.md 9),
/// so this file is the only place that renders these.
///
/// - A port stands here only where somebody listens on it.
/// - Only nodes that hold data stand here, and whoever is asked: without services for data where it
///   holds none, because some clients need to find who answered.
/// - Nodes stand in the same order in `nodes`, `nodesExt` and `serverList`: clients match by place.
/// - Every row of the map has 1 + `numReplicas` columns, -1 where there is no copy.
package enum ConfigurationJSON {
    /// Only what works: clients switch features on by these.
    package static let bucketCapabilities = [
        "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
        "preserve_expiry", "durableWrite",
    ]

    /// Where the services are; also what `/pools/default/nodeServices` answers.
    package static func global(
        _ state: ClusterState,
        on thisNode: NodeNumber,
        host: HostNaming
    ) -> [UInt8] {
        let members: [(String, JSONText)] =
            [
                ("rev", .number(state.rev)),
                ("revEpoch", .number(state.revEpoch)),
                ("nodesExt", nodesExt(state, servers: state.activeNodes, on: thisNode)),
            ] + cluster(state)
        return JSONText.object(members).bytes
    }

    /// A bucket's terse configuration; also what `/pools/default/b/NAME` answers.
    package static func bucket(
        _ bucket: BucketRecord,
        of state: ClusterState,
        on thisNode: NodeNumber,
        host: HostNaming
    ) -> [UInt8] {
        let settings = bucket.settings
        let servers = state.servers(of: bucket)
        let members: [(String, JSONText)] =
            [
                ("rev", .number(bucket.rev)),
                ("revEpoch", .number(state.revEpoch)),
                ("name", .string(settings.name)),
                ("nodeLocator", "vbucket"),
                ("bucketType", .string(settings.type.rawValue)),
                ("uuid", .string(settings.uuid)),
                ("uri", .string(uri(settings))),
                ("streamingUri", .string(streamingURI(settings))),
                ("numVBuckets", .number(settings.vBuckets)),
                ("bucketCapabilitiesVer", ""),
                ("bucketCapabilities", capabilities),
                ("nodes", .array(servers.map { node($0, host: host) })),
                ("nodesExt", nodesExt(state, servers: servers, on: thisNode)),
                ("vBucketServerMap", serverMap(bucket, servers, host: host)),
            ] + cluster(state)
        return JSONText.object(members).bytes
    }

    // MARK: Parts that REST shows too

    /// - Parameters:
    ///   - state: The cluster.
    ///   - servers: The nodes that serve data, in the order of the map.
    ///   - thisNode: Who is asked.
    /// - Returns: The nodes; all others come last and serve no data.
    static func nodesExt(
        _ state: ClusterState,
        servers: [NodeRecord],
        on thisNode: NodeNumber
    ) -> JSONText {
        let numbers = servers.map(\.number)
        let others = state.nodes.filter { node in
            !numbers.contains(node.number)
                && (node.membership == .active || node.number == thisNode)
        }
        return .array(
            (servers + others).map { node in
                let own = services(node.ports, withData: numbers.contains(node.number))
                var members: [(String, JSONText)] = [("services", own)]
                if node.number == thisNode { members.append(("thisNode", true)) }
                // Left out for loopback: the client then uses the address it came by.
                if !node.isLoopback { members.append(("hostname", .string(node.host))) }
                if state.groups.count > 1 { members.append(("serverGroup", .string(node.group))) }
                if let alternate = node.alternate {
                    members.append(("alternateAddresses", alternate.json(ports: own)))
                }
                members.append(("nodeUUID", .string(node.uuid)))
                return .object(members)
            }
        )
    }

    /// - Parameters:
    ///   - bucket: Whose map.
    ///   - nodes: Those that clients find in it, as `servers(of:)` names them.
    ///   - host: How loopback is named.
    /// - Returns: Servers and map; also the map to come, while a rebalance works on the bucket.
    package static func serverMap(
        _ bucket: BucketRecord,
        _ nodes: [NodeRecord],
        host: HostNaming
    ) -> JSONText {
        let servers = nodes.map { JSONText.string(name($0, port: $0.ports.data, host)) }
        let map = MapText(columns: 1 + bucket.replicaColumns, servers: nodes.map(\.number))
        var members: [(String, JSONText)] = [
            ("hashAlgorithm", "CRC"),
            ("numReplicas", .number(bucket.replicaColumns)),
            ("serverList", .array(servers)),
            ("vBucketMap", map.text(bucket.placements.map(\.chain))),
        ]
        if let targets = bucket.targets {
            let rows = zip(targets.rows, bucket.placements).map { $0.isEmpty ? $1.chain : $0 }
            members.append(("vBucketMapForward", map.text(rows)))
        }
        return .object(members)
    }

    package static func uri(_ settings: BucketSettings) -> String {
        "/pools/default/buckets/\(path(settings.name))?bucket_uuid=\(settings.uuid)"
    }

    package static func streamingURI(_ settings: BucketSettings) -> String {
        "/pools/default/bucketsStreaming/\(path(settings.name))?bucket_uuid=\(settings.uuid)"
    }

    package static var capabilities: JSONText { .array(bucketCapabilities.map(JSONText.string)) }

    /// A bucket's name as a path segment: of what names may hold, only `%` means something there.
    package static func path(_ name: String) -> String {
        name.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25")
    }

    /// `host:port` as clients write it, brackets around IPv6.
    package static func name(_ node: NodeRecord, port: UInt16, _ naming: HostNaming) -> String {
        let host =
            switch naming {
            case .placeholder: node.isLoopback ? "$HOST" : node.host
            case .address(let address): node.isLoopback ? address : node.host
            }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    // MARK: Parts

    private static func cluster(_ state: ClusterState) -> [(String, JSONText)] {
        [
            ("clusterCapabilitiesVer", [1, 0]),
            ("clusterCapabilities", [:]),
            ("clusterUUID", .string(state.uuid ?? "")),
            ("clusterName", .string(state.name)),
            ("prod", "server"),
            ("prodName", "Couchbase Server"),
        ]
    }

    private static func services(_ ports: NodePorts, withData: Bool) -> JSONText {
        let services: [(String, UInt16)] = [
            ("mgmt", ports.admin), ("kv", withData ? ports.data : 0),
            ("mgmtSSL", ports.adminTLS), ("kvSSL", withData ? ports.dataTLS : 0),
        ]
        return .object(services.filter { $0.1 != 0 }.map { ($0.0, .number($0.1)) })
    }

    /// The legacy form, which gocbcore counts data nodes by.
    private static func node(_ node: NodeRecord, host: HostNaming) -> JSONText {
        [
            "hostname": .string(name(node, port: node.ports.admin, host)),
            "ports": ["direct": .number(node.ports.data)],
        ]
    }
}

/// Rows of nodes as rows of columns: most of a configuration's bytes, made anew with each step of a
/// rebalance.
private struct MapText {
    let columns: Int
    private let servers: [NodeNumber]
    /// By place.
    private let numbers: [[UInt8]]

    init(columns: Int, servers: [NodeNumber]) {
        self.columns = columns
        self.servers = servers
        numbers = servers.indices.map { Array(String($0).utf8) }
    }

    func text(_ rows: [NodeChain]) -> JSONText {
        let writer = ByteWriter(capacity: rows.count * (columns * 3 + 3) + 16)
        writer.append(UInt8(ascii: "["))
        for (number, row) in rows.enumerated() {
            if number > 0 { writer.append(UInt8(ascii: ",")) }
            writer.append(UInt8(ascii: "["))
            for column in 0..<columns {
                if column > 0 { writer.append(UInt8(ascii: ",")) }
                if column < row.count, let place = servers.firstIndex(of: row[column]) {
                    writer.append(numbers[place])
                } else {
                    writer.append("-1")
                }
            }
            writer.append(UInt8(ascii: "]"))
        }
        writer.append(UInt8(ascii: "]"))
        return .rendered(writer.bytes)
    }
}
