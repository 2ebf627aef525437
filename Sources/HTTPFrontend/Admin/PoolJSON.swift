internal import ClusterService
internal import Foundation
internal import Orchestration
internal import Vocabulary

/// The cluster as REST shows it.
struct PoolJSON {
    let call: Call

    private var state: ClusterState { call.state }

    /// The pool's object.
    ///
    /// - Parameter volatile: Whether to include statistics and alerts, which change all the time;
    ///   false for streams, which send only when the JSON changes.
    /// - Returns: The object.
    func json(volatile: Bool = true) -> JSONText {
        let uuid = state.uuid ?? ""
        let numbers = volatile ? ClusterNumbers(call) : nil
        let nodes = call.shownNodes.map {
            NodeJSON(call: call, node: $0).json(volatile: volatile, numbers: numbers)
        }
        var members: [(String, JSONText)] = [
            ("name", "default"),
            ("nodes", .array(nodes)),
            (
                "buckets",
                [
                    "uri": .string("/pools/default/buckets?v=\(state.index)&uuid=\(uuid)"),
                    "terseBucketsBase": "/pools/default/b/",
                    "terseStreamingBucketsBase": "/pools/default/bs/",
                ]
            ),
            // The list is always empty; tools read where it is.
            (
                "remoteClusters",
                ["uri": .string("/pools/default/remoteClusters?uuid=\(uuid)")]
            ),
            ("bucketNames", .array(call.visibleBuckets.map(bucketName))),
            ("controllers", controllers),
            ("chronicleRev", .number(state.index)),
            ("rebalanceStatus", state.rebalance == nil ? "none" : "running"),
            ("rebalanceProgressUri", "/pools/default/rebalanceProgress"),
            ("stopRebalanceUri", .string("/controller/stopRebalance?uuid=\(uuid)")),
            ("serverGroupsUri", .string("/pools/default/serverGroups?v=\(state.groupsRevision)")),
            ("nodeStatusesUri", "/nodeStatuses"),
            ("nodeServicesUri", .string("/pools/default/nodeServices?v=\(state.rev)")),
            ("maxBucketCount", .number(state.settings.maxBucketCount)),
            ("minReplicasCount", 0),
            ("autoCompactionSettings", Self.autoCompaction(state)),
            ("tasks", ["uri": .string("/pools/default/tasks?v=\(state.index)")]),
            ("counters", .object(state.counters.named.map { ($0.name, .number($0.count)) })),
            ("checkPermissionsURI", "/pools/default/checkPermissions"),
            ("clusterName", .string(state.name)),
            ("clusterEncryptionLevel", "disabled"),
            ("memoryQuota", .number(state.memoryQuota >> 20)),
            ("featureLevel", .number(Int(state.featureLevel.number))),
            // Quotas of services that do not exist here, since tools add them up.
            ("indexMemoryQuota", 512),
            ("ftsMemoryQuota", 512),
            ("cbasMemoryQuota", 1_024),
            ("eventingMemoryQuota", 256),
        ]
        members += balance
        if let numbers {
            members.append(
                ("alerts", .array(call.rights.allows("cluster.logs!read") ? alerts : []))
            )
            members.append(("storageTotals", numbers.storageTotals(of: call.shownNodes, state)))
        }
        return .object(members)
    }

    /// A threshold that is not set is the text `undefined`.
    static func autoCompaction(_ state: ClusterState) -> JSONText {
        [
            "databaseFragmentationThreshold": [
                "percentage": .number(state.settings.fragmentationPercent), "size": "undefined",
            ],
            "viewFragmentationThreshold": [
                "percentage": state.indexing.fragmentationPercent.map(JSONText.number)
                    ?? "undefined",
                "size": state.indexing.fragmentationBytes.map(JSONText.number) ?? "undefined",
            ],
            "parallelDBAndViewCompaction": false,
            "indexCompactionMode": "circular",
        ]
    }

    /// The supported controllers; tools read from here where to post.
    private var controllers: JSONText {
        let uuid = state.uuid ?? ""
        let paths = [
            ("addNode", "addNodeV2"), ("rebalance", "rebalance"), ("failOver", "failOver"),
            ("startGracefulFailover", "startGracefulFailover"), ("reAddNode", "reAddNode"),
            ("reFailOver", "reFailOver"), ("ejectNode", "ejectNode"),
            ("setRecoveryType", "setRecoveryType"),
        ]
        let compaction: JSONText = [
            "uri": .string("/controller/setAutoCompaction?uuid=\(uuid)"),
            "validateURI": "/controller/setAutoCompaction?just_validate=1",
        ]
        return .object(
            paths.map { ($0, ["uri": .string("/controller/\($1)?uuid=\(uuid)")]) }
                + [("setAutoCompaction", compaction)]
        )
    }

    /// Whether a rebalance would change anything, the causes, and the vBuckets with fewer copies than
    /// configured, which are no cause if there are too few nodes.
    private var balance: [(String, JSONText)] {
        let imbalances = state.imbalances
        let waiting = state.waitingNodes
        let isBalanced = imbalances.isEmpty && waiting.isEmpty
        var members: [(String, JSONText)] = [("balanced", .bool(isBalanced))]
        if !waiting.isEmpty {
            let services: JSONText = [
                "code": "service_not_balanced",
                "description": "Nodes wait for a rebalance that adds or removes them.",
                "services": ["kv"],
            ]
            members.append(("servicesNeedRebalance", [services]))
        }
        let visible = Set(call.visibleBuckets.map(\.settings.name))
        let buckets = BucketImbalance.Cause.allCases.compactMap { cause -> JSONText? in
            let names = imbalances.filter { $0.cause == cause && visible.contains($0.bucket) }
                .map { JSONText.string($0.bucket) }
            guard !names.isEmpty else { return nil }
            return [
                "code": .string(cause.rawValue),
                "description": .string(cause.sentence),
                "buckets": .array(names),
            ]
        }
        if !buckets.isEmpty { members.append(("bucketsNeedRebalance", .array(buckets))) }
        let lost = state.lostRedundancy.filter { visible.contains($0.bucket) }.map { lost in
            ["bucket": .string(lost.bucket), "vBuckets": .number(lost.vBuckets)] as JSONText
        }
        members.append(("lostRedundancy", .array(lost)))
        return members
    }

    private func bucketName(_ bucket: BucketRecord) -> JSONText {
        ["bucketName": .string(bucket.settings.name), "uuid": .string(bucket.settings.uuid)]
    }

    private var alerts: [JSONText] {
        let now = Self.time(call.service.cluster.wallMilliseconds)
        return call.service.health.alerts.map {
            ["msg": .string($0.message), "serverTime": .string(now), "disableUIPopUp": false]
        }
    }

    /// Like `time`, of whole seconds since 1970.
    static func time(seconds: Int64) -> String { time(UInt64(max(seconds, 0)) * 1_000) }

    /// Like 2024-05-06T07:08:09.123Z.
    static func time(_ milliseconds: UInt64) -> String {
        let date = Foundation.Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
        return date.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true))
            + "Z"
    }
}
