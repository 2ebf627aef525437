internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Compaction of buckets: begin, end, and what runs as tasks.
extension AdminRoutes {
    static let bucketCompaction: [Route] = [
        controller("compactBucket", CompactionService.compactAll),
        controller("compactDatabases", CompactionService.compact),
        controller("cancelBucketCompaction", CompactionService.cancelAll),
        controller("cancelDatabasesCompaction", CompactionService.cancel),
    ]

    private static func controller(
        _ name: String,
        _ work:
            @escaping @Sendable (CompactionService) -> (String) async throws(AdministrationError) ->
            Void
    ) -> Route {
        Route.ofBucket(.post, "/controller/\(name)", permission: "!compact") {
            call throws(AdministrationError) in
            try await work(call.service.compaction)(call.capture(0))
            return .done
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
