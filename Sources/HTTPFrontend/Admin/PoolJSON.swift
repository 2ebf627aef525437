internal import ClusterService
internal import Foundation
internal import Orchestration
internal import Vocabulary

/// The cluster as REST shows it.
struct PoolJSON {
    let call: Call

    init(_ call: Call) {
        self.call = call
    }

    private var state: ClusterState { call.state }

    /// All of it, with what changes all the time or, for streams, without.
    func json(volatile: Bool = true) -> JSONText {
        let uuid = state.uuid ?? ""
        var members: [(String, JSONText)] = [
            ("name", "default"),
            ("nodes", .array(state.nodes.map { NodeJSON(call, $0).json(volatile: volatile) })),
            (
                "buckets",
                [
                    "uri": .string("/pools/default/buckets?v=\(state.index)&uuid=\(uuid)"),
                    "terseBucketsBase": "/pools/default/b/",
                    "terseStreamingBucketsBase": "/pools/default/bs/",
                ]
            ),
            ("bucketNames", .array(call.visibleBuckets.map(bucketName))),
            ("controllers", [:]),
            ("chronicleRev", .number(state.index)),
            ("rebalanceStatus", "none"),
            ("rebalanceProgressUri", "/pools/default/rebalanceProgress"),
            ("nodeStatusesUri", "/nodeStatuses"),
            ("nodeServicesUri", .string("/pools/default/nodeServices?v=\(state.rev)")),
            ("maxBucketCount", .number(state.settings.maxBucketCount)),
            ("minReplicasCount", 0),
            ("autoCompactionSettings", Self.autoCompaction(state.settings)),
            ("tasks", ["uri": .string("/pools/default/tasks?v=\(state.index)")]),
            ("counters", [:]),
            ("checkPermissionsURI", "/pools/default/checkPermissions"),
            ("clusterName", .string(state.name)),
            ("clusterEncryptionLevel", "disabled"),
            ("balanced", true),
            ("memoryQuota", .number(state.memoryQuota >> 20)),
        ]
        if volatile {
            members.append(("alerts", .array(call.identity.isAdministrator ? alerts : [])))
            members.append(("storageTotals", Self.storageTotals(call)))
        }
        return .object(members)
    }

    static func autoCompaction(_ settings: ClusterSettings) -> JSONText {
        [
            "databaseFragmentationThreshold": [
                "percentage": .number(settings.fragmentationPercent), "size": "undefined",
            ]
        ]
    }

    static func storageTotals(_ call: Call) -> JSONText {
        let totals = Totals(call)
        let memory = Machine.memory
        let nodes = UInt64(max(call.state.nodes.count, 1))
        let quotaUsed = call.state.bucketQuotas()
        let space = call.service.diskSpace ?? (0, 0)
        return [
            "ram": [
                "total": .number(memory.total),
                "quotaTotal": .number(call.state.memoryQuota * nodes),
                "quotaUsed": .number(quotaUsed * nodes),
                "used": .number(memory.total - min(memory.total, memory.free)),
                "usedByData": .number(totals.memoryUsed),
                "quotaUsedPerNode": .number(quotaUsed),
                "quotaTotalPerNode": .number(call.state.memoryQuota),
            ],
            "hdd": [
                "total": .number(space.total),
                "quotaTotal": .number(space.total),
                "used": .number(space.total - min(space.total, space.free)),
                "usedByData": .number(totals.diskUsed),
                "free": .number(space.free),
            ],
        ]
    }

    private func bucketName(_ bucket: BucketRecord) -> JSONText {
        ["bucketName": .string(bucket.settings.name), "uuid": .string(bucket.settings.uuid)]
    }

    private var alerts: [JSONText] {
        let now = Self.time(call.service.wallMilliseconds)
        return call.service.alerts.map {
            ["msg": .string($0.message), "serverTime": .string(now), "disableUIPopUp": false]
        }
    }

    /// Like 2024-05-06T07:08:09.123Z.
    static func time(_ milliseconds: UInt64) -> String {
        let date = Foundation.Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
        return date.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: true))
            + "Z"
    }
}
