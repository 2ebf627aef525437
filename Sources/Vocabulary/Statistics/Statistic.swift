/// The statistics of a bucket on a node: one table of their kinds and units, and of their names in
/// every list that clients and tools read.
///
/// Counters, samples, STAT, REST and `/metrics` are loops over this table. A new statistic is a case
/// and its names here, and a line where it is counted or measured.
///
/// - A raw value is the index in `BucketStatistics` and in a row of counters.
/// - Nodes send the numbers before `otherCommands` in this order; new ones come before it.
@usableFromInline
package enum Statistic: Int, CaseIterable, Sendable {
    // Current values.
    case tombstones
    /// Items whose value is in memory.
    case residentItems
    case memoryUsed, quota, lowWatermark, highWatermark
    /// Bytes of the bucket's files, and the part of them that is not superseded.
    case diskUsed, diskDataUsed
    /// Changes that are not persisted yet; 0 without a disk.
    case diskQueue
    case oldestUnpersisted
    /// Data connections that have the bucket selected.
    case connections

    // Counts since the bucket was opened.
    case gets, sets, deletes, getHits, getMisses
    /// Commands of any kind.
    case ops
    case backgroundFetches, ejections, expirations, temporaryFailures, casMismatches
    case commits, persistedChanges, commitFailures
    /// Bytes from and to connections that have the bucket selected.
    case bytesRead, bytesWritten

    // Numbers that nodes do not send.
    /// Commands that are not a get, set or delete.
    case otherCommands
    /// Commands that took longer than the log's threshold.
    case slowOperations
    case replicaNonResidentItems, checkpointBytes
    /// Replicas that accept no more changes, because of a promotion that is not in the map.
    case sealedVBuckets
    case durableAccepted, durableCommitted, durableAborted, durableAmbiguous
    case viewsDataUsed, viewsDiskUsed, viewQueries

    // Numbers that are derived from others.
    /// Items of active copies, of copies that do not serve, and of both.
    case items, replicaItems, allItems
    case nonResidentItems, residentPercent, hitRatio
    case activeVBuckets, replicaVBuckets, pendingVBuckets

    /// The statistics in the messages between nodes, in their order there.
    package static let sent = Array(allCases[..<otherCommands.rawValue])

    /// The statistics that data lanes count.
    package static let counted =
        sent.filter { $0.kind == .counter && $0 != .ops } + [otherCommands, slowOperations]
}

// MARK: Kinds and units

extension Statistic {
    package enum Kind: Sendable {
        /// A number that only grows while the bucket is open; samples have its increase per second.
        case counter
        case gauge
    }

    package enum Unit: Sendable {
        case count
        case bytes
        /// The age of the oldest change; that of several nodes is the greatest.
        case milliseconds
        /// A share of other statistics; that of several nodes is computed from their sums.
        case percent
    }

    package var kind: Kind {
        switch self {
        case .gets, .sets, .deletes, .getHits, .getMisses, .ops, .otherCommands, .slowOperations,
            .backgroundFetches,
            .ejections, .expirations, .temporaryFailures, .casMismatches, .commits,
            .persistedChanges, .commitFailures, .bytesRead, .bytesWritten, .durableAccepted,
            .durableCommitted, .durableAborted, .durableAmbiguous, .viewQueries:
            .counter
        default: .gauge
        }
    }

    package var unit: Unit {
        switch self {
        case .memoryUsed, .quota, .lowWatermark, .highWatermark, .diskUsed, .diskDataUsed,
            .bytesRead, .bytesWritten, .checkpointBytes, .viewsDataUsed, .viewsDiskUsed:
            .bytes
        case .oldestUnpersisted: .milliseconds
        case .residentPercent, .hitRatio: .percent
        default: .count
        }
    }
}

// MARK: Names, in the order of each list

extension Statistic {
    /// A statistic and its name in one list.
    package typealias Named = (name: String, statistic: Statistic)

    /// The members of `/pools/default/buckets/NAME/stats`; samples between nodes have this order.
    package static let samples: [Named] = [
        ("cmd_get", .gets), ("cmd_set", .sets), ("cmd_delete", .deletes), ("get_hits", .getHits),
        ("get_misses", .getMisses), ("hit_ratio", .hitRatio), ("ops", .ops),
        ("ep_bg_fetched", .backgroundFetches), ("ep_num_value_ejects", .ejections),
        ("vb_active_expired", .expirations), ("ep_tmp_oom_errors", .temporaryFailures),
        ("cas_badval", .casMismatches), ("ep_commit_num", .commits),
        ("ep_diskqueue_drain", .persistedChanges), ("bytes_read", .bytesRead),
        ("bytes_written", .bytesWritten), ("curr_items", .items),
        ("vb_active_num_tombstones", .tombstones),
        ("vb_active_num_non_resident", .nonResidentItems),
        ("vb_active_resident_items_ratio", .residentPercent), ("mem_used", .memoryUsed),
        ("ep_max_size", .quota), ("ep_mem_low_wat", .lowWatermark),
        ("ep_mem_high_wat", .highWatermark), ("couch_docs_actual_disk_size", .diskUsed),
        ("couch_docs_data_size", .diskDataUsed), ("disk_write_queue", .diskQueue),
        ("ep_oldest_unpersisted_ms", .oldestUnpersisted), ("curr_connections", .connections),
        ("couch_views_data_size", .viewsDataUsed), ("couch_views_actual_disk_size", .viewsDiskUsed),
        ("couch_views_ops", .viewQueries),
    ]

    /// The members of a node's `interestingStats`: counters per second, and other numbers.
    package static let interesting: [Named] = [
        ("cmd_get", .gets), ("couch_docs_actual_disk_size", .diskUsed),
        ("couch_docs_data_size", .diskDataUsed), ("couch_views_actual_disk_size", .viewsDiskUsed),
        ("couch_views_data_size", .viewsDataUsed), ("curr_items", .items),
        ("curr_items_tot", .allItems), ("ep_bg_fetched", .backgroundFetches),
        ("get_hits", .getHits), ("mem_used", .memoryUsed), ("ops", .ops),
        ("vb_active_num_non_resident", .nonResidentItems), ("vb_replica_curr_items", .replicaItems),
    ]

    /// The numbers of STAT without a group, before and after its texts.
    package static let general: (numbers: [Named], memory: [Named]) = (
        [
            ("cmd_get", .gets), ("cmd_set", .sets), ("get_hits", .getHits),
            ("get_misses", .getMisses), ("delete_hits", .deletes), ("curr_items", .items),
            ("curr_items_tot", .allItems), ("vb_active_curr_items", .items),
            ("vb_replica_curr_items", .replicaItems), ("vb_active_num", .activeVBuckets),
            ("vb_replica_num", .replicaVBuckets), ("vb_pending_num", .pendingVBuckets),
            ("vb_replica_num_non_resident", .replicaNonResidentItems),
            ("vb_active_num_non_resident", .nonResidentItems),
            ("vb_active_sync_write_accepted_count", .durableAccepted),
            ("vb_active_sync_write_committed_count", .durableCommitted),
            ("vb_active_sync_write_aborted_count", .durableAborted),
            ("vb_active_sync_write_ambiguous_count", .durableAmbiguous),
            ("ep_queue_size", .diskQueue), ("ep_bg_fetched", .backgroundFetches),
            ("ep_tmp_oom_errors", .temporaryFailures), ("ep_num_value_ejects", .ejections),
            ("ep_total_persisted", .persistedChanges), ("ep_commit_num", .commits),
        ],
        [("bytes", .memoryUsed), ("mem_used", .memoryUsed), ("ep_max_size", .quota)]
    )

    /// The bucket's numbers of STAT's group `memory`.
    package static let memory: [Named] = [
        ("mem_used", .memoryUsed), ("ep_max_size", .quota), ("ep_mem_low_wat", .lowWatermark),
        ("ep_mem_high_wat", .highWatermark), ("ep_checkpoint_owned_memory", .checkpointBytes),
    ]

    /// The metrics of `/metrics` that have one sample a bucket; ages are in seconds there.
    package static let metrics: [(name: String, help: String, statistic: Statistic)] = [
        ("kv_curr_items", "Documents of active vBuckets.", .items),
        ("kv_vb_num_tombstones", "Tombstones of active vBuckets.", .tombstones),
        (
            "kv_vb_resident_items", "Documents of active vBuckets whose value is in memory.",
            .residentItems
        ),
        ("kv_mem_used_bytes", "Memory of documents and metadata.", .memoryUsed),
        ("kv_ep_max_size_bytes", "Memory quota on this node.", .quota),
        ("kv_ep_mem_low_wat_bytes", "Memory down to which values are ejected.", .lowWatermark),
        ("kv_ep_mem_high_wat_bytes", "Memory from which values are ejected.", .highWatermark),
        ("kv_ep_db_file_size_bytes", "Size of the files.", .diskUsed),
        ("kv_ep_db_data_size_bytes", "Bytes of the files in use.", .diskDataUsed),
        ("kv_ep_queue_size", "Changes that are not persisted.", .diskQueue),
        ("kv_curr_connections", "Data connections that use the bucket.", .connections),
        (
            "kv_ep_oldest_unpersisted_seconds",
            "Age of the oldest change that is not persisted; 0 if there is none.",
            .oldestUnpersisted
        ),
        ("kv_cmd_total", "Commands of clients.", .ops),
        (
            "kv_slow_operations_total", "Commands that took longer than the threshold of the log.",
            .slowOperations
        ),
        ("kv_ep_bg_fetched", "Counter of reads from disk.", .backgroundFetches),
        ("kv_ep_num_value_ejects", "Counter of ejected values.", .ejections),
        ("kv_ep_expired", "Counter of expired documents.", .expirations),
        (
            "kv_ep_tmp_oom_errors", "Counter of commands refused for want of memory.",
            .temporaryFailures
        ),
        ("kv_ep_commit_num", "Counter of commits to disk.", .commits),
        ("kv_ep_commit_failures", "Counter of failed commits.", .commitFailures),
        ("kv_ep_total_persisted", "Counter of persisted changes.", .persistedChanges),
        ("kv_read_bytes", "Counter of bytes received from clients.", .bytesRead),
        ("kv_written_bytes", "Counter of bytes sent to clients.", .bytesWritten),
    ]

    /// The samples of the metric `kv_ops` by their labels; a sample without a result has no such
    /// label.
    package static let operations: [(op: String, result: String?, statistic: Statistic)] = [
        ("get", "hit", .getHits), ("get", "miss", .getMisses), ("set", nil, .sets),
        ("delete", nil, .deletes), ("cas", "badval", .casMismatches),
    ]
}
