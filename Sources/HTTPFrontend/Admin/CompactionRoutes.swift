internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Compaction of buckets: begin, end, and what runs as tasks.
extension AdminRoutes {
    static let bucketCompaction: [Route] = [
        controller("compactBucket") { await $0.compaction.compactAll($1) },
        controller("compactDatabases") { await $0.compaction.compact($1) },
        controller("cancelBucketCompaction") {
            await $0.compaction.cancelAll($1)
        },
        controller("cancelDatabasesCompaction") { await $0.compaction.cancel($1) },
    ]

    private static func controller(
        _ name: String,
        _ body: @escaping @Sendable (AdministrationService, String) async -> BucketOutcome
    ) -> Route {
        Route.ofBucket(.post, "/controller/\(name)", permission: "!compact") { call in
            reply(await body(call.service, call.capture(0)))
        }.accepting()
    }

    /// One task for each bucket of which some node compacts the documents by request.
    ///
    /// Automatic compaction, in single steps beside other work, is no task.
    static func compactionTasks(_ call: Call) -> [JSONText] {
        call.visibleBuckets.compactMap { bucket in
            let name = bucket.settings.name
            let works = call.service.compaction.compactions(ofBucket: name)
            guard !works.isEmpty else { return nil }
            let done: UInt64 = works.reduce(0) { $0 &+ $1.done }
            let total: UInt64 = works.reduce(0) { $0 &+ $1.total }
            let path = "/pools/default/buckets/\(ConfigurationJSON.path(name))/controller"
            return [
                "type": "bucket_compaction",
                "recommendedRefreshPeriod": .double(2),
                "status": "running",
                "bucket": .string(name),
                "changesDone": .number(done),
                "totalChanges": .number(total),
                "progress": .number(percentDone(done, of: total)),
                "cancelURI": .string("\(path)/cancelBucketCompaction"),
            ]
        }
    }
}
