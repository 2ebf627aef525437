/// The statistics of a bucket in `/pools/default/buckets/B/stats`, by the names that tools use.
///
/// - A case's raw value is its index in a sample; there are at most 32.
package enum SampledStatistic: Int, CaseIterable, Sendable {
    case cmdGet
    case cmdSet
    case deleteHits
    case getHits
    case getMisses
    case hitRatio
    case ops
    case backgroundFetched
    case valueEjects
    case expired
    case temporaryFailures
    case casMismatches
    case diskCommits
    case diskQueueDrain
    case bytesRead
    case bytesWritten
    case items
    case tombstones
    case nonResidentItems
    case residentPercent
    case memoryUsed
    case quota
    case lowWatermark
    case highWatermark
    case diskUsed
    case diskDataUsed
    case diskWriteQueue
    case oldestUnpersisted
    case connections
    case viewsDataUsed
    case viewsDiskUsed
    case viewQueries

    package var name: String {
        switch self {
        case .cmdGet: "cmd_get"
        case .cmdSet: "cmd_set"
        case .deleteHits: "cmd_delete"
        case .getHits: "get_hits"
        case .getMisses: "get_misses"
        case .hitRatio: "hit_ratio"
        case .ops: "ops"
        case .backgroundFetched: "ep_bg_fetched"
        case .valueEjects: "ep_num_value_ejects"
        case .expired: "vb_active_expired"
        case .temporaryFailures: "ep_tmp_oom_errors"
        case .casMismatches: "cas_badval"
        case .diskCommits: "ep_commit_num"
        case .diskQueueDrain: "ep_diskqueue_drain"
        case .bytesRead: "bytes_read"
        case .bytesWritten: "bytes_written"
        case .items: "curr_items"
        case .tombstones: "vb_active_num_tombstones"
        case .nonResidentItems: "vb_active_num_non_resident"
        case .residentPercent: "vb_active_resident_items_ratio"
        case .memoryUsed: "mem_used"
        case .quota: "ep_max_size"
        case .lowWatermark: "ep_mem_low_wat"
        case .highWatermark: "ep_mem_high_wat"
        case .diskUsed: "couch_docs_actual_disk_size"
        case .diskDataUsed: "couch_docs_data_size"
        case .diskWriteQueue: "disk_write_queue"
        case .oldestUnpersisted: "ep_oldest_unpersisted_ms"
        case .connections: "curr_connections"
        case .viewsDataUsed: "couch_views_data_size"
        case .viewsDiskUsed: "couch_views_actual_disk_size"
        case .viewQueries: "couch_views_ops"
        }
    }

    /// What of a bucket is sampled.
    struct Reading {
        var bucket: BucketStatistics
        /// Nil without views.
        var views: ViewStatistics.Bucket?
    }

    /// The sample of one second: the increase of counters, the current value of others.
    static func sample(
        _ reading: Reading,
        since earlier: Reading,
        seconds: Float
    ) -> SIMD32<Float> {
        var sample = SIMD32<Float>.zero
        let (now, views) = (reading.bucket, reading.views)
        func rate(_ new: UInt64, _ old: UInt64) -> Float {
            // A counter that decreased was reset: the bucket was reopened.
            Float(new >= old ? new - old : new) / seconds
        }
        func rate(_ counter: KeyPath<BucketStatistics, UInt64>) -> Float {
            rate(now[keyPath: counter], earlier.bucket[keyPath: counter])
        }
        let hits = rate(\.getHits)
        let gets = hits + rate(\.getMisses)
        for statistic in allCases {
            sample[statistic.rawValue] =
                switch statistic {
                case .cmdGet: rate(\.cmdGet)
                case .cmdSet: rate(\.cmdSet)
                case .deleteHits: rate(\.cmdDelete)
                case .getHits: hits
                case .getMisses: rate(\.getMisses)
                case .hitRatio: gets == 0 ? 0 : 100 * hits / gets
                case .ops: rate(\.opsTotal)
                case .backgroundFetched: rate(\.backgroundFetches)
                case .valueEjects: rate(\.ejections)
                case .expired: rate(\.expired)
                case .temporaryFailures: rate(\.temporaryFailures)
                case .casMismatches: rate(\.casMismatches)
                case .diskCommits: rate(\.commits)
                case .diskQueueDrain: rate(\.persistedChanges)
                case .bytesRead: rate(\.bytesRead)
                case .bytesWritten: rate(\.bytesWritten)
                case .items: Float(now.items)
                case .tombstones: Float(now.tombstones)
                case .nonResidentItems: Float(now.items - min(now.items, now.residentItems))
                case .residentPercent: Float(now.residentPercent)
                case .memoryUsed: Float(now.memoryUsed)
                case .quota: Float(now.quota)
                case .lowWatermark: Float(now.lowWatermark)
                case .highWatermark: Float(now.highWatermark)
                case .diskUsed: Float(now.diskUsed)
                case .diskDataUsed: Float(now.diskDataUsed)
                case .diskWriteQueue: Float(now.diskQueue)
                case .oldestUnpersisted: Float(now.oldestUnpersistedMilliseconds)
                case .connections: Float(now.connections)
                case .viewsDataUsed: Float(views?.dataUsed ?? 0)
                case .viewsDiskUsed: Float(views?.diskUsed ?? 0)
                case .viewQueries: rate(views?.queries ?? 0, earlier.views?.queries ?? 0)
                }
        }
        return sample
    }
}
