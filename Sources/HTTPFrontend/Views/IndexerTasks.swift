internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Indexes that are being built, as tasks.
extension Routes {
    /// One task for each design document of which some node builds an index, by the changes of all
    /// nodes: nodes that have finished count as finished.
    static func indexerTasks(_ call: Call) -> [JSONText] {
        let nodes = call.state.nodes.compactMap { call.service.viewStatistics(of: $0.number) }
        guard !nodes.isEmpty else { return [] }
        return call.state.buckets.flatMap { bucket in
            let found = nodes.compactMap { $0.bucket(named: bucket.settings.name) }
            return bucket.designDocuments.compactMap { document in
                let parts = found.flatMap(\.designDocuments).filter { $0.name == document.name }
                return task(parts, bucket.settings.name, document.name)
            }
        }
    }

    private static func task(
        _ parts: [ViewStatistics.DesignDocument],
        _ bucket: String,
        _ document: String
    ) -> JSONText? {
        guard parts.contains(where: \.isBuilding) else { return nil }
        let done = parts.reduce(0) { $0 &+ $1.changesDone }
        let total = parts.reduce(0) { $0 &+ $1.changesTotal }
        return [
            "type": "indexer",
            "recommendedRefreshPeriod": .double(2),
            "status": "running",
            "bucket": .string(bucket),
            "designDocument": .string("_design/\(document)"),
            "changesDone": .number(done),
            "totalChanges": .number(total),
            "progress": .number(percent(done, of: total)),
        ]
    }

    /// At most 99: an index with all changes that is not complete still has rows to store.
    private static func percent(_ done: UInt64, of total: UInt64) -> Int {
        total == 0 ? 0 : Int(min(99, 100 * Double(done) / Double(total)))
    }
}
