internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Indexes that are being built or compacted, as tasks.
extension AdminRoutes {
    /// One task for each design document of which some node builds an index, and one for each of
    /// which some node compacts one.
    ///
    /// The progress is that of the changes of all nodes: nodes that have finished count as finished.
    static func indexerTasks(_ call: Call) -> [JSONText] {
        let nodes = call.state.nodes.compactMap {
            call.service.statistics.viewStatistics(of: $0.number)
        }
        guard !nodes.isEmpty else { return [] }
        return call.visibleBuckets.flatMap { bucket in
            let name = bucket.settings.name
            let found = nodes.compactMap { $0.bucket(named: name) }
            return bucket.designDocuments.flatMap { document in
                let parts = found.flatMap(\.designDocuments).filter { $0.name == document.name }
                return [build(parts), compaction(parts)].compactMap { work in
                    work.map { task($0, name, document: document.name) }
                }
            }
        }
    }

    /// The build or the compaction of a design document's indexes, summed over the nodes.
    private struct Work {
        let type: String
        var status = "running"
        var done: UInt64
        var total: UInt64
    }

    /// `queued` if no node has begun: `maxParallelIndexers` limits the builds of each.
    private static func build(_ parts: [ViewStatistics.DesignDocument]) -> Work? {
        let building = parts.filter(\.isBuilding)
        guard !building.isEmpty else { return nil }
        return Work(
            type: "indexer",
            status: building.allSatisfy(\.awaitsBuild) ? "queued" : "running",
            done: parts.reduce(0) { $0 &+ $1.changesDone },
            total: parts.reduce(0) { $0 &+ $1.changesTotal }
        )
    }

    private static func compaction(_ parts: [ViewStatistics.DesignDocument]) -> Work? {
        let compacted = parts.filter { $0.toCopy > 0 }
        guard !compacted.isEmpty else { return nil }
        return Work(
            type: "view_compaction",
            done: compacted.reduce(0) { $0 &+ $1.copied },
            total: compacted.reduce(0) { $0 &+ $1.toCopy }
        )
    }

    private static func task(_ work: Work, _ bucket: String, document: String) -> JSONText {
        [
            "type": .string(work.type),
            "recommendedRefreshPeriod": .double(2),
            "status": .string(work.status),
            "bucket": .string(bucket),
            "designDocument": .string("_design/\(document)"),
            "changesDone": .number(work.done),
            "totalChanges": .number(work.total),
            "progress": .number(percentDone(work.done, of: work.total)),
        ]
    }

    /// At most 99: work that is complete but not ended still has rows to store or pages to free.
    static func percentDone(_ done: UInt64, of total: UInt64) -> Int {
        total == 0 ? 0 : Int(min(99, 100 * Double(done) / Double(total)))
    }
}
