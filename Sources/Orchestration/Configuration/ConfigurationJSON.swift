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
/// - Nodes stand in the same order in `nodes`, `nodesExt` and `serverList`: clients match by place.
/// - Every row of the map has 1 + replicas columns.
package enum ConfigurationJSON {
    /// Only what works: clients switch features on by these.
    package static let bucketCapabilities = [
        "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
    ]

    /// Where the services are; also what `/pools/default/nodeServices` answers.
    package static func global(
        _ state: ClusterState,
        on thisNode: UInt16,
        host: HostNaming
    ) -> [UInt8] {
        let members: [(String, JSONText)] =
            [
                ("rev", .number(state.rev)),
                ("revEpoch", .number(state.revEpoch)),
                ("nodesExt", nodesExt(state.nodes, on: thisNode, host: host)),
            ] + cluster(state)
        return JSONText.object(members).bytes
    }

    /// A bucket's terse configuration; also what `/pools/default/b/NAME` answers.
    package static func bucket(
        _ bucket: BucketRecord,
        of state: ClusterState,
        on thisNode: UInt16,
        host: HostNaming
    ) -> [UInt8] {
        let settings = bucket.settings
        let holders = bucket.servers.compactMap { state.node(number: $0) }
        let others = state.nodes.filter { !bucket.servers.contains($0.number) }
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
                ("nodes", .array(holders.map { node($0, host: host) })),
                ("nodesExt", nodesExt(holders + others, on: thisNode, host: host)),
                ("vBucketServerMap", serverMap(bucket, holders, host: host)),
            ] + cluster(state)
        return JSONText.object(members).bytes
    }

    // MARK: Parts that REST shows too

    package static func nodesExt(
        _ nodes: [NodeRecord],
        on thisNode: UInt16,
        host: HostNaming
    ) -> JSONText {
        .array(
            nodes.map { node in
                var members: [(String, JSONText)] = [("services", services(node.ports))]
                if node.number == thisNode { members.append(("thisNode", true)) }
                // Left out for loopback: the client then uses the address it came by.
                if !node.isLoopback { members.append(("hostname", .string(node.host))) }
                members.append(("nodeUUID", .string(node.uuid)))
                return .object(members)
            }
        )
    }

    package static func serverMap(
        _ bucket: BucketRecord,
        _ holders: [NodeRecord],
        host: HostNaming
    ) -> JSONText {
        let servers = holders.map { JSONText.string(name($0, port: $0.ports.data, host)) }
        return [
            "hashAlgorithm": "CRC",
            "numReplicas": .number(bucket.settings.replicas),
            "serverList": .array(servers),
            "vBucketMap": .rendered(rows(bucket.rows)),
        ]
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

    private static func services(_ ports: NodePorts) -> JSONText {
        let services: [(String, UInt16)] = [
            ("mgmt", ports.admin), ("kv", ports.data),
            ("mgmtSSL", ports.adminTLS), ("kvSSL", ports.dataTLS),
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

    private static func rows(_ rows: VBucketRows) -> [UInt8] {
        let writer = ByteWriter(capacity: rows.count * rows.copies * 3 + 16)
        writer.append("[")
        for row in 0..<rows.count {
            writer.append(row == 0 ? "[" : ",[")
            for (place, column) in rows[row].enumerated() {
                if place > 0 { writer.append(",") }
                writer.append(text: column == VBucketRows.none ? "-1" : String(column))
            }
            writer.append("]")
        }
        writer.append("]")
        return writer.bytes
    }
}
