internal import ClusterService
internal import Orchestration
internal import ViewService
internal import Vocabulary

/// All statistics in Prometheus's text format.
///
/// - Every name has one type line, and no pair of name and labels occurs twice; otherwise readers
///   reject the whole page.
struct Metrics {
    private let call: Call
    private var lines: [String] = []

    /// The metrics of this node; `views` has the figures of its indexes, nil without views.
    init(_ call: Call, views: ViewReading?) {
        self.call = call
        addBuckets()
        addNode()
        if let views { lines += ViewMetrics(views).lines }
    }

    var text: String { lines.joined(separator: "\n") + "\n" }

    private typealias Number = KeyPath<BucketStatistics, UInt64>

    private static var gauges: [(String, Number)] {
        [
            ("kv_curr_items", \.items),
            ("kv_vb_num_tombstones", \.tombstones),
            ("kv_vb_resident_items", \.residentItems),
            ("kv_mem_used_bytes", \.memoryUsed),
            ("kv_ep_max_size_bytes", \.quota),
            ("kv_ep_mem_low_wat_bytes", \.lowWatermark),
            ("kv_ep_mem_high_wat_bytes", \.highWatermark),
            ("kv_ep_db_file_size_bytes", \.diskUsed),
            ("kv_ep_db_data_size_bytes", \.diskDataUsed),
            ("kv_ep_queue_size", \.diskQueue),
            ("kv_ep_oldest_unpersisted_ms", \.oldestUnpersistedMilliseconds),
            ("kv_curr_connections", \.connections),
        ]
    }

    private static var counters: [(String, Number)] {
        [
            ("kv_cmd_total", \.opsTotal),
            ("kv_ep_bg_fetched", \.backgroundFetches),
            ("kv_ep_num_value_ejects", \.ejections),
            ("kv_ep_expired", \.expired),
            ("kv_ep_tmp_oom_errors", \.temporaryFailures),
            ("kv_ep_commit_num", \.commits),
            ("kv_ep_commit_failures", \.commitFailures),
            ("kv_ep_total_persisted", \.persistedChanges),
            ("kv_read_bytes", \.bytesRead),
            ("kv_written_bytes", \.bytesWritten),
        ]
    }

    private mutating func addBuckets() {
        let buckets = call.state.buckets.compactMap { bucket in
            call.service.dataPlane.statistics(ofBucket: bucket.settings.name)
                .map { (name: bucket.settings.name, statistics: $0) }
        }
        for (name, number) in Self.gauges {
            begin(name, "gauge")
            for bucket in buckets { add(name, bucket.name, "", bucket.statistics[keyPath: number]) }
        }
        for (name, number) in Self.counters {
            begin(name, "counter")
            for bucket in buckets { add(name, bucket.name, "", bucket.statistics[keyPath: number]) }
        }
        begin("kv_ops", "counter")
        let ops: [(String, Number)] = [
            ("op=\"get\",result=\"hit\"", \.getHits), ("op=\"get\",result=\"miss\"", \.getMisses),
            ("op=\"set\"", \.cmdSet), ("op=\"delete\"", \.cmdDelete),
            ("op=\"cas\",result=\"badval\"", \.casMismatches),
        ]
        for bucket in buckets {
            for (labels, number) in ops {
                add("kv_ops", bucket.name, ",\(labels)", bucket.statistics[keyPath: number])
            }
        }
    }

    private mutating func addNode() {
        let memory = Machine.memory
        for (name, value) in [
            ("sys_mem_total", memory.total),
            ("sys_mem_free", memory.free),
            ("sys_cpu_cores_available", UInt64(Machine.cpuCount)),
            ("cm_memory_quota_bytes", call.state.memoryQuota),
            ("cm_buckets", UInt64(call.state.buckets.count)),
            ("cm_node_healthy", call.service.nodeStatus == .healthy ? 1 : 0),
            ("cm_uptime_seconds", call.service.uptimeSeconds),
        ] {
            begin(name, "gauge")
            lines.append("\(name) \(value)")
        }
    }

    private mutating func begin(_ name: String, _ type: String) {
        lines.append("# TYPE \(name) \(type)")
    }

    /// Adds a sample; the bucket's name needs no escaping, since its characters are restricted.
    private mutating func add(_ name: String, _ bucket: String, _ labels: String, _ value: UInt64) {
        lines.append("\(name){bucket=\"\(bucket)\"\(labels)} \(value)")
    }
}
