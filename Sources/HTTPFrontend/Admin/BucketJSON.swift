internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A bucket as REST shows it, in full.
struct BucketJSON {
    let call: Call
    let bucket: BucketRecord

    private var settings: BucketSettings { bucket.settings }
    private var path: String { "/pools/default/buckets/\(ConfigurationJSON.path(settings.name))" }

    init(_ call: Call, _ bucket: BucketRecord) {
        self.call = call
        self.bucket = bucket
    }

    /// All of it, with what changes all the time or, for streams, without.
    func json(volatile: Bool = true) -> JSONText {
        let holders = bucket.servers.compactMap { call.state.node(number: $0) }
        var members: [(String, JSONText)] = [
            ("name", .string(settings.name)),
            ("nodeLocator", "vbucket"),
            ("bucketType", .string(settings.type.rawValue)),
            ("storageBackend", .string(storageBackend)),
            ("uuid", .string(settings.uuid)),
            ("uri", .string(ConfigurationJSON.uri(settings))),
            ("streamingUri", .string(ConfigurationJSON.streamingURI(settings))),
            ("numVBuckets", .number(settings.vBuckets)),
            ("bucketCapabilitiesVer", ""),
            ("bucketCapabilities", ConfigurationJSON.capabilities),
            ("authType", "sasl"),
            ("passwordless", .bool(settings.passwordless)),
            ("controllers", controllers),
            ("localRandomKeyUri", .string("\(path)/localRandomKey")),
            (
                "nodes",
                .array(
                    holders.map { NodeJSON(call, $0).json(bucket: bucket, volatile: volatile) }
                )
            ),
            (
                "stats",
                ["uri": .string("\(path)/stats"), "nodeStatsListURI": .string("\(path)/nodes")]
            ),
            ("autoCompactionSettings", false),
            ("replicaNumber", .number(settings.replicas)),
            ("quota", quota),
            ("evictionPolicy", .string(settings.evictionPolicy.rawValue)),
            ("durabilityMinLevel", "none"),
            ("conflictResolutionType", "seqno"),
            ("maxTTL", .number(settings.maxTTL)),
            ("compressionMode", .string(bucket.options.compressionMode.rawValue)),
        ]
        if call.request.query["skipMap"] != "true" {
            let map = ConfigurationJSON.serverMap(bucket, holders, host: call.naming)
            members.append(("vBucketServerMap", map))
        }
        if volatile { members.append(("basicStats", basicStats)) }
        return .object(members)
    }

    private var storageBackend: String {
        settings.type == .ephemeral ? "undefined" : "couchstore"
    }

    /// Clients read from the presence of `flush` whether a bucket may be flushed.
    private var controllers: JSONText {
        var members: [(String, JSONText)] = []
        if settings.flushEnabled {
            members.append(("flush", .string("\(path)/controller/doFlush")))
        }
        if settings.type == .persistent {
            members.append(("compactAll", .string("\(path)/controller/compactBucket")))
            members.append(("compactDB", .string("\(path)/controller/compactDatabases")))
        }
        return .object(members)
    }

    private var quota: JSONText {
        let nodes = UInt64(max(bucket.servers.count, 1))
        return ["ram": .number(settings.quota * nodes), "rawRAM": .number(settings.quota)]
    }

    private var basicStats: JSONText {
        let name = settings.name
        let statistics = call.service.dataPlane.statistics(ofBucket: name) ?? BucketStatistics()
        let sampler = call.service.sampler
        let percent = 100 * Double(statistics.memoryUsed) / Double(max(settings.quota, 1))
        let absent = statistics.items - min(statistics.items, statistics.residentItems)
        return [
            "quotaPercentUsed": .double(percent),
            "opsPerSec": .double(sampler.newest(.ops, ofBucket: name)),
            "diskFetches": .double(sampler.newest(.backgroundFetched, ofBucket: name)),
            "itemCount": .number(statistics.items),
            "diskUsed": .number(statistics.diskUsed),
            "dataUsed": .number(statistics.diskDataUsed),
            "memUsed": .number(statistics.memoryUsed),
            "vbActiveNumNonResident": .number(absent),
        ]
    }
}
