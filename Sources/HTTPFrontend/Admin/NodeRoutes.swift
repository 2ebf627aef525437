internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Single nodes and their statuses.
extension AdminRoutes {
    static let nodes: [Route] = [
        Route(.get, "/nodes/self", access: .permission("cluster.nodes!read")) { call in
            node(call, named: nil)
        },
        // Another node that is to be added or joined asks for it, without a login. Each client that
        // connects to the port learns the key.
        Route(.get, "/nodes/self/peer", access: .open) { call in
            guard let own = call.state.node(number: call.service.thisNode) else {
                return .text("This node is not ready yet.", status: 503)
            }
            return .json([
                "port": .number(own.ports.peer),
                "fingerprint": .string(call.service.cluster.fingerprint),
            ])
        },
        Route(.get, "/nodes/*", access: .permission("cluster.nodes!read")) { call in
            node(call, named: call.capture(0))
        },
        Route(.get, "/nodeStatuses", access: .permission("cluster.nodes!read")) { call in
            let silent = call.silentNodes
            let statuses = call.shownNodes.map { node in
                (NodeJSON(call: call, node: node).hostname, status(of: node, call, silent: silent))
            }
            return .json(.object(statuses))
        },
    ]

    private static func status(
        of node: NodeRecord,
        _ call: Call,
        silent: [NodeNumber]
    ) -> JSONText {
        let status = call.service.statistics.status(of: node.number)
        let state = call.state
        var members: [(String, JSONText)] = [
            ("status", .string(status.rawValue)),
            ("otpNode", .string(node.otpNode)),
            ("dataless", .bool(!state.holdsData(node.number))),
            ("replication", .double(replication(of: node, state, silent: silent))),
            ("onlyCopy", .bool(state.haveOnlyCopies([node.number], silent: silent))),
        ]
        if status == .healthy {
            let isPossible =
                node.membership == .active && state.rebalance == nil
                && state.canFailOverGracefully([node.number], silent: silent)
            members.append(("gracefulFailoverPossible", .bool(isPossible)))
        }
        members += memcachedListener(of: node, call)
        return .object(members)
    }

    /// The state of the listener for plain memcached clients; empty if the node has none.
    private static func memcachedListener(
        of node: NodeRecord,
        _ call: Call
    ) -> [(String, JSONText)] {
        let bucket = call.service.statistics.last(of: node.number)?.memcachedBucket ?? ""
        guard !bucket.isEmpty else { return [] }
        let nodes = call.state.members.count
        let refusal = MemcachedListener.refusal(ofBucket: bucket, nodes: nodes)
        var members: [(String, JSONText)] = [
            ("bucket", .string(bucket)), ("serves", .bool(refusal == nil)),
        ]
        if let refusal { members.append(("reason", .string(refusal))) }
        return [("memcachedListener", .object(members))]
    }

    /// The lowest fraction of existing replicas over all buckets.
    private static func replication(
        of node: NodeRecord,
        _ state: ClusterState,
        silent: [NodeNumber]
    ) -> Double {
        let shares = state.buckets.map {
            $0.replication(ofNode: node.number, silent: silent)
        }
        return shares.min() ?? 1
    }

    private static func node(_ call: Call, named name: String?) -> Reply {
        let own = call.service.thisNode
        let found = call.state.nodes.first { name == nil ? $0.number == own : $0.otpNode == name }
        guard let found else { return .json("Node is unknown to this cluster.", status: 404) }
        let numbers = ClusterNumbers(call, of: [found])
        guard case .object(var members) = NodeJSON(call: call, node: found).json(numbers: numbers)
        else {
            return .notFound
        }
        let statistics = call.service.statistics.last(of: found.number) ?? NodeStatistics()
        let (total, free) = (statistics.diskTotal, statistics.diskFree)
        let used = total == 0 ? 0 : 100 * (total - min(free, total)) / total
        let path = statistics.directory
        members += [
            ("memoryQuota", .number(call.state.memoryQuota >> 20)),
            ("storageTotals", numbers.storageTotals(of: [found], call.state)),
            (
                "availableStorage",
                [
                    "hdd": [
                        [
                            "path": .string(path),
                            "sizeKBytes": .number(total >> 10),
                            "usagePercent": .number(used),
                        ]
                    ]
                ]
            ),
            (
                "storage",
                [
                    "ssd": [],
                    "hdd": [
                        [
                            "path": .string(path), "index_path": .string(path),
                            "quotaMb": "none", "state": "ok",
                        ]
                    ],
                ]
            ),
        ]
        return .json(.object(members))
    }
}
