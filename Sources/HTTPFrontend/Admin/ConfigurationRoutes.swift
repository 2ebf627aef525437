internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Configurations over HTTP, for clients that do not read them from the data port: addresses of
/// services and vBucket maps.
extension AdminRoutes {
    private static let readBucket = RouteAccess.permission("cluster.bucket[.].settings!read")

    static let configurations: [Route] = [
        Route(.get, "/pools/default/nodeServices", access: .poolsRead) { call in
            .rendered(nodeServices(call))
        },
        Route(.get, "/pools/default/nodeServicesStreaming", access: .poolsRead) { call in
            .stream(call) { nodeServices($0) }
        },
        Route(.get, "/pools/default/b/*", access: readBucket, needsCluster: true) { call in
            call.bucket.map { .rendered(terse($0, call)) } ?? bucketNotFound
        },
        Route(.get, "/pools/default/bs/*", access: readBucket, needsCluster: true) { call in
            call.bucket == nil ? bucketNotFound : stream(call, terse)
        },
        Route(.get, "/pools/default/bucketsStreaming/*", access: readBucket, needsCluster: true) {
            call in
            stream(call) { bucket, call in
                BucketJSON(call: call, bucket: bucket).json(volatile: false).bytes
            }
        },
        // Old proxies (moxi) read all buckets from this one stream.
        Route(.get, "/pools/default/saslBucketsStreaming", access: .poolsRead, needsCluster: true) {
            call in
            .stream(call) { call in
                let silent = call.silentNodes
                let buckets = call.visibleBuckets.map { bucket -> JSONText in
                    let servers = call.state.servers(of: bucket)
                    return [
                        "name": .string(bucket.settings.name),
                        "nodeLocator": "vbucket",
                        "vBucketServerMap": ConfigurationJSON.serverMap(
                            bucket,
                            servers,
                            host: call.naming
                        ),
                        "nodes": .array(
                            servers.map {
                                NodeJSON(call: call, node: $0).json(
                                    bucket: bucket,
                                    volatile: false,
                                    silent: silent
                                )
                            }
                        ),
                    ]
                }
                return JSONText.object([("buckets", .array(buckets))]).bytes
            }
        },
    ]

    private static var bucketNotFound: Reply { .json("Bucket not found", status: 404) }

    private static func nodeServices(_ call: Call) -> [UInt8] {
        ConfigurationJSON.global(call.state, on: call.service.thisNode, host: call.naming)
    }

    private static func terse(_ bucket: BucketRecord, _ call: Call) -> [UInt8] {
        ConfigurationJSON.bucket(
            bucket,
            of: call.state,
            on: call.service.thisNode,
            host: call.naming
        )
    }

    /// Streams a bucket's configuration until the bucket is deleted or another bucket has its name.
    private static func stream(
        _ call: Call,
        _ render: @escaping @Sendable (BucketRecord, Call) -> [UInt8]
    ) -> Reply {
        guard let uuid = call.bucket?.settings.uuid else { return .notFound }
        return .stream(call) { call in
            guard let bucket = call.bucket, bucket.settings.uuid == uuid else { return nil }
            return render(bucket, call)
        }
    }
}
