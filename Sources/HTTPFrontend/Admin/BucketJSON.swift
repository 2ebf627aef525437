internal import Orchestration
internal import Vocabulary

/// A bucket as REST shows it, in full.
struct BucketJSON {
    let call: Call
    let bucket: BucketRecord

    private var settings: BucketSettings { bucket.settings }
    private var path: String { "/pools/default/buckets/\(ConfigurationJSON.path(settings.name))" }

    /// The bucket's object.
    ///
    /// - Parameters:
    ///   - volatile: Whether to include statistics, which change all the time; false for streams,
    ///     which send only when the JSON changes.
    ///   - numbers: The nodes' statistics if they were collected already; nil to collect them. They
    ///     contain all buckets, so that a list of buckets collects them once.
    /// - Returns: The object.
    func json(volatile: Bool = true, numbers: ClusterNumbers? = nil) -> JSONText {
        let numbers = volatile ? numbers ?? ClusterNumbers(call) : nil
        let silent = numbers?.silentNodes ?? call.silentNodes
        let servers = call.state.servers(of: bucket)
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
            (
                "bucketCapabilities",
                ConfigurationJSON.capabilities(of: bucket, servers: servers)
            ),
            ("authType", "sasl"),
            ("passwordless", .bool(settings.passwordless != .none)),
            // Beside the flag, which tools read as a Boolean.
            ("passwordlessNetwork", .bool(settings.passwordless == .network)),
            ("controllers", controllers),
            ("localRandomKeyUri", .string("\(path)/localRandomKey")),
            (
                "nodes",
                .array(
                    servers.map {
                        NodeJSON(call: call, node: $0).json(
                            bucket: bucket,
                            volatile: volatile,
                            numbers: numbers,
                            silent: silent
                        )
                    }
                )
            ),
            (
                "stats",
                ["uri": .string("\(path)/stats"), "nodeStatsListURI": .string("\(path)/nodes")]
            ),
            ("autoCompactionSettings", false),
            ("replicaNumber", .number(settings.replicas)),
            // All buckets have the same priority; old tools read this field.
            ("threadsNumber", 3),
            ("quota", quota),
            ("evictionPolicy", .string(settings.evictionPolicy.rawValue)),
            (
                "durabilityMinLevel",
                .string(settings.minimumDurability?.name ?? DurabilityLevel.noneName)
            ),
            ("conflictResolutionType", "seqno"),
            ("maxTTL", .number(settings.maxTTL)),
            ("compressionMode", .string(bucket.options.compressionMode.rawValue)),
        ]
        // Clients expect the member of every bucket with views.
        if settings.type == .persistent { members.append(("replicaIndex", false)) }
        if call.request.query["skipMap"] != "true" {
            let map = ConfigurationJSON.serverMap(bucket, servers, host: call.naming)
            members.append(("vBucketServerMap", map))
        }
        members += ConfigurationJSON.designDocuments(of: bucket, servers: servers)
        if let numbers { members.append(("basicStats", basicStats(numbers))) }
        return .object(members)
    }

    private var storageBackend: String {
        settings.type == .ephemeral ? "undefined" : "couchstore"
    }

    /// Clients infer from the presence of `flush` that flushing the bucket is enabled.
    private var controllers: JSONText {
        var members: [(String, JSONText)] = [
            ("purgeDeletes", .string("\(path)/controller/unsafePurgeBucket"))
        ]
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
        ["ram": .number(quotaOnAllNodes), "rawRAM": .number(settings.quota)]
    }

    private var quotaOnAllNodes: UInt64 {
        let nodes = UInt64(max(bucket.holders.count, 1))
        return ClusterState.bytes(ofQuota: settings.quota, onNodes: nodes)
    }

    private func basicStats(_ numbers: ClusterNumbers) -> JSONText {
        let totals = numbers.totals(ofBucket: settings.name)
        let percent = 100 * Double(totals[.memoryUsed]) / Double(max(quotaOnAllNodes, 1))
        return [
            "quotaPercentUsed": .double(percent),
            "opsPerSec": totals.json(.ops),
            "diskFetches": totals.json(.backgroundFetches),
            "itemCount": totals.json(.items),
            "diskUsed": totals.json(.diskUsed),
            "dataUsed": totals.json(.diskDataUsed),
            "memUsed": totals.json(.memoryUsed),
            "vbActiveNumNonResident": totals.json(.nonResidentItems),
        ]
    }
}

extension BucketSummaries {
    var json: JSONText {
        [
            "ramSummary": [
                "total": .number(memoryTotal),
                "otherBuckets": .number(memoryOfOthers),
                "nodesCount": .number(nodeCount),
                "perNodeMegs": .number(perNodeMegabytes),
                "thisAlloc": .number(memoryAllocated),
                "thisUsed": .number(usage.thisMemory),
                "free": .number(memoryFree),
            ],
            "hddSummary": [
                "total": .number(usage.diskTotal),
                "otherData": .number(otherData),
                "otherBuckets": .number(usage.otherDisk),
                "thisUsed": .number(usage.thisDisk),
                "free": .number(usage.diskFree),
            ],
        ]
    }
}
