internal import Bytes
package import Vocabulary

/// How a configuration names a node that only its own machine can reach.
package enum HostNaming: Hashable, Sendable {
    /// `$HOST`: the client substitutes the address it used. For configurations sent over the data
    /// port.
    case placeholder
    /// The address that the request arrived on. For configurations sent over HTTP.
    case address(String)
}

/// Renders the two configurations that clients use: the cluster's services, and a bucket's cluster
/// map.
///
/// Several clients crash if a key is missing or has another type, for example a node without
/// `services` or a collections manifest as a number. So only this file renders configurations.
///
/// - A port is listed only if the node listens on it.
/// - Nodes without data are listed without data services. The answering node is always listed,
///   because some clients search for it by `thisNode`.
/// - Nodes have the same order in `nodes`, `nodesExt` and `serverList`: clients match them by
///   index.
/// - Every row of the map has 1 + `numReplicas` columns, -1 if there is no copy.
package enum ConfigurationJSON {
    /// The cluster-wide configuration; also the response of `/pools/default/nodeServices`.
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
            ] + cluster
        return JSONText.object(members).bytes
    }

    /// A bucket's terse configuration; also the response of `/pools/default/b/NAME`.
    package static func bucket(
        _ bucket: BucketRecord,
        of state: ClusterState,
        on thisNode: NodeNumber,
        host: HostNaming
    ) -> [UInt8] {
        let settings = bucket.settings
        let servers = state.servers(of: bucket)
        let legacy = servers.map { node($0, of: settings, host: host) }
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
                (
                    "bucketCapabilities",
                    capabilities(of: bucket, servers: servers)
                ),
            ] + designDocuments(of: bucket, servers: servers)
            + [
                ("nodes", .array(legacy)),
                ("nodesExt", nodesExt(state, servers: servers, on: thisNode)),
                ("vBucketServerMap", serverMap(bucket, servers, host: host)),
            ] + cluster
        return JSONText.object(members).bytes
    }

    // MARK: Parts that REST shows too

    /// Renders `nodesExt`.
    ///
    /// - Parameters:
    ///   - state: The cluster.
    ///   - servers: The nodes that serve data, in the order of the map.
    ///   - thisNode: The answering node.
    /// - Returns: The nodes in `servers`; then, without data services, all other active nodes and
    ///   the answering node.
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
                // Omitted for loopback: the client then uses its bootstrap address.
                if !node.isLoopback { members.append(("hostname", .string(node.host))) }
                if state.groups.count > 1 { members.append(("serverGroup", .string(node.group))) }
                if let alternate = node.alternate {
                    let json = alternate.json(ports: own, hasViews: node.ports.views != 0)
                    members.append(("alternateAddresses", json))
                }
                members.append(("nodeUUID", .string(node.uuid)))
                return .object(members)
            }
        )
    }

    /// Renders a bucket's cluster map.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - nodes: The listed nodes, from `servers(of:)`.
    ///   - host: How to name loopback nodes.
    /// - Returns: Servers and map; also the forward map, while a rebalance works on the bucket.
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

    /// The REST path of a bucket.
    package static func uri(_ settings: BucketSettings) -> String {
        "/pools/default/buckets/\(path(settings.name))?bucket_uuid=\(settings.uuid)"
    }

    /// The REST path of a bucket's configuration stream.
    package static func streamingURI(_ settings: BucketSettings) -> String {
        "/pools/default/bucketsStreaming/\(path(settings.name))?bucket_uuid=\(settings.uuid)"
    }

    /// A bucket's name as a path segment: of the allowed characters, only `%` needs to be escaped.
    package static func path(_ name: String) -> String {
        name.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25")
    }

    /// `host:port` as clients expect it, with brackets around IPv6 addresses.
    package static func name(_ node: NodeRecord, port: UInt16, _ naming: HostNaming) -> String {
        let host =
            switch naming {
            case .placeholder: node.isLoopback ? "$HOST" : node.host
            case .address(let address): node.isLoopback ? address : node.host
            }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    // MARK: Parts

    /// Without the names of the cluster and the product, by which clients label what they measure: the
    /// release that is announced does not have them yet.
    private static let cluster: [(String, JSONText)] = [
        ("clusterCapabilitiesVer", [1, 0]), ("clusterCapabilities", [:]),
    ]

    private static func services(_ ports: NodePorts, withData: Bool) -> JSONText {
        let services: [(String, UInt16)] = [
            ("mgmt", ports.admin), ("kv", withData ? ports.data : 0),
            ("capi", withData ? ports.views : 0),
            ("mgmtSSL", ports.adminTLS), ("kvSSL", withData ? ports.dataTLS : 0),
            ("capiSSL", withData ? ports.viewsTLS : 0),
        ]
        return .object(services.filter { $0.1 != 0 }.map { ($0.0, .number($0.1)) })
    }

    /// The ports of a node that have names in its legacy form.
    package static func ports(of node: NodeRecord) -> [(String, JSONText)] {
        let ports: [(String, UInt16)] = [
            ("direct", node.ports.data), ("httpsMgmt", node.ports.adminTLS),
            ("httpsCAPI", node.ports.viewsTLS),
        ]
        return ports.filter { $0.1 != 0 }.map { ($0.0, .number($0.1)) }
    }

    /// The legacy form of a node; gocbcore counts data nodes by it.
    private static func node(
        _ node: NodeRecord,
        of bucket: BucketSettings,
        host: HostNaming
    ) -> JSONText {
        .object(
            viewsAddress(of: node, bucket: bucket, host: host) + [
                ("hostname", .string(name(node, port: node.ports.admin, host))),
                ("ports", .object(ports(of: node))),
            ]
        )
    }
}

/// Renders chains as rows of server indexes: most of a configuration's bytes, rendered again for
/// each step of a rebalance.
private struct MapText {
    let columns: Int
    private let servers: [NodeNumber]
    /// Decimal digits by server index.
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

extension AlternateAddress {
    /// The form of configurations, always with `ports`: some clients crash if these are missing.
    ///
    /// - Parameters:
    ///   - own: The node's own ports, used if no alternate ports were given.
    ///   - hasViews: Whether the node serves views; if not, a port given for them leads nowhere and
    ///     is left out.
    /// - Returns: The JSON object.
    fileprivate func json(ports own: JSONText, hasViews: Bool) -> JSONText {
        let used = ports.filter { hasViews || $0.service != "capi" }
        let given = JSONText.object(used.map { ($0.service, .number($0.number)) })
        return ["external": ["hostname": .string(host), "ports": ports.isEmpty ? own : given]]
    }
}

/// The words by which clients enable features of a bucket.
///
/// A client sends requests of each feature that is listed, so only implemented features are listed.
extension ConfigurationJSON {
    /// Of every bucket.
    private static let always = [
        "dcp", "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
        "preserve_expiry", "durableWrite",
        // `tombstonedUserXAttrs` is the word for CREATE_AS_DELETED.
        "xattr", "tombstonedUserXAttrs", "subdoc.AccessDeleted", "subdoc.ReplaceBodyWithXattr",
        "subdoc.DocumentMacroSupport", "subdoc.ReviveDocument", "subdoc.ReplicaRead",
        "subdoc.BinaryXattr",
        // The flag 0x80 of a stream request.
        "dcp.IgnorePurgedTombstones",
    ]

    /// Of buckets with views.
    private static let views = ["couchapi"]

    /// The capabilities of a bucket.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - servers: The listed nodes, from `servers(of:)`.
    /// - Returns: A list of words.
    package static func capabilities(
        of bucket: BucketRecord,
        servers: [NodeRecord]
    ) -> JSONText {
        let words = always + (hasViews(bucket, servers) ? views : [])
        return .array(words.map(JSONText.string))
    }
}

/// Announcements of views in configurations and REST.
///
/// A client that finds an announcement sends requests to it, and without one fails a request at once.
/// So each part is present only if it is true:
///
/// - the address of a node's view port, if the node has one and serves data;
/// - the views of a bucket, if every node with its data has a view port. A client chooses any of
///   them. Ephemeral buckets have no views.
extension ConfigurationJSON {
    /// The member `ddocs` with the REST path of a bucket's design documents; empty if the bucket has
    /// no views.
    package static func designDocuments(
        of bucket: BucketRecord,
        servers: [NodeRecord]
    ) -> [(String, JSONText)] {
        guard hasViews(bucket, servers) else { return [] }
        let uri = "/pools/default/buckets/\(path(bucket.settings.name))/ddocs"
        return [("ddocs", ["uri": .string(uri)])]
    }

    /// The member `couchApiBase` with the address of a node's view port; empty if it has none.
    ///
    /// - Parameters:
    ///   - node: The node.
    ///   - bucket: The bucket whose views have the address; nil for the address of all buckets.
    ///   - host: How to name loopback nodes.
    /// - Returns: One member, or none.
    package static func viewsAddress(
        of node: NodeRecord,
        bucket: BucketSettings?,
        host: HostNaming
    ) -> [(String, JSONText)] {
        guard node.ports.views != 0, bucket?.type != .ephemeral else { return [] }
        let place = bucket.map { "\(path($0.name))%2B\($0.uuid)" } ?? ""
        let plain = name(node, port: node.ports.views, host)
        let secured = name(node, port: node.ports.viewsTLS, host)
        let address = ("couchApiBase", JSONText.string("http://\(plain)/\(place)"))
        return node.ports.viewsTLS == 0
            ? [address]
            : [address, ("couchApiBaseHTTPS", .string("https://\(secured)/\(place)"))]
    }

    static func hasViews(_ bucket: BucketRecord, _ servers: [NodeRecord]) -> Bool {
        bucket.settings.type == .persistent && !servers.isEmpty
            && servers.allSatisfy { $0.ports.views != 0 }
    }
}
