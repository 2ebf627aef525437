internal import ClusterService
internal import Orchestration

/// The nodes, each by itself.
extension Routes {
    static let nodes: [Route] = [
        Route(.get, "/nodes/self", .administrator("cluster.nodes!read")) { call in
            node(call, named: nil)
        },
        Route(.get, "/nodes/*", .administrator("cluster.nodes!read")) { call in
            node(call, named: call.capture(0))
        },
        Route(.get, "/nodeStatuses", .administrator("cluster.nodes!read")) { call in
            .json(
                .object(
                    call.state.nodes.map { node in
                        let shown = NodeJSON(call, node)
                        return (
                            shown.hostname,
                            [
                                "status": .string(call.service.nodeStatus.rawValue),
                                "otpNode": .string(node.otpNode),
                                "dataless": .bool(call.state.buckets.isEmpty),
                                "replication": .double(replication(call)),
                                "gracefulFailoverPossible": false,
                            ]
                        )
                    }
                )
            )
        },
    ]

    /// The lowest share of replicas in place, over all buckets.
    private static func replication(_ call: Call) -> Double {
        call.state.buckets.map { NodeJSON.replication($0.rows, $0.settings) }.min() ?? 1
    }

    private static func node(_ call: Call, named name: String?) -> Reply {
        let own = call.service.thisNode
        let found = call.state.nodes.first { name == nil ? $0.number == own : $0.otpNode == name }
        guard let found else { return .json("Node is unknown to this cluster.", status: 404) }
        guard case .object(var members) = NodeJSON(call, found).json() else { return .notFound }
        let space = call.service.diskSpace ?? (0, 0)
        let used = space.total == 0 ? 0 : 100 * (space.total - space.free) / space.total
        let path = call.service.settings.directory
        members += [
            ("memoryQuota", .number(call.state.memoryQuota >> 20)),
            ("storageTotals", PoolJSON.storageTotals(call)),
            (
                "availableStorage",
                [
                    "hdd": [
                        [
                            "path": .string(path),
                            "sizeKBytes": .number(space.total >> 10),
                            "usagePercent": .number(used),
                        ]
                    ]
                ]
            ),
            (
                "storage",
                [
                    "ssd": [],
                    "hdd": [["path": .string(path), "quotaMb": "none", "state": "ok"]],
                ]
            ),
        ]
        return .json(.object(members))
    }
}
