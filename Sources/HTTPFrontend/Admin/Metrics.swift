internal import ClusterService
internal import Orchestration
internal import Seams
internal import ViewService
internal import Vocabulary

/// All statistics of this node in Prometheus's text format.
///
/// - No label has a value for each view, connection or user: the number of series is bounded by the
///   numbers of buckets and nodes.
struct Metrics {
    private typealias Number = KeyPath<BucketStatistics, UInt64>
    private typealias Named = (name: String, statistics: BucketStatistics)

    private let call: Call
    private var page = MetricsText()

    /// The metrics of this node; `views` has the figures of its indexes, nil without views.
    init(_ call: Call, views: ViewReading?) {
        self.call = call
        let buckets = call.state.buckets.compactMap { bucket in
            call.service.dataPlane.statistics(ofBucket: bucket.settings.name)
                .map { (name: bucket.settings.name, statistics: $0) }
        }
        addGauges(buckets)
        addCounters(buckets)
        addCopies(buckets)
        addReplication(buckets)
        addNode()
        addCluster()
        addProcess()
        if let views { ViewMetrics(views).add(to: &page) }
    }

    var text: String { page.lines.joined(separator: "\n") + "\n" }

    // MARK: Buckets

    private mutating func addGauges(_ buckets: [Named]) {
        for (name, help, number) in Self.gauges { add(buckets, name, .gauge, help, number) }
        page.add(
            "kv_ep_oldest_unpersisted_seconds",
            .gauge,
            "Age of the oldest change that is not persisted; 0 if there is none.",
            buckets.map { bucket in
                let seconds = Double(bucket.statistics.oldestUnpersistedMilliseconds) / 1_000
                return MetricsText.Sample([("bucket", bucket.name)], seconds)
            }
        )
    }

    private static var gauges: [(name: String, help: String, number: Number)] {
        [
            ("kv_curr_items", "Documents of active vBuckets.", \.items),
            ("kv_vb_num_tombstones", "Tombstones of active vBuckets.", \.tombstones),
            (
                "kv_vb_resident_items", "Documents of active vBuckets whose value is in memory.",
                \.residentItems
            ),
            ("kv_mem_used_bytes", "Memory of documents and metadata.", \.memoryUsed),
            ("kv_ep_max_size_bytes", "Memory quota on this node.", \.quota),
            ("kv_ep_mem_low_wat_bytes", "Memory down to which values are ejected.", \.lowWatermark),
            ("kv_ep_mem_high_wat_bytes", "Memory from which values are ejected.", \.highWatermark),
            ("kv_ep_db_file_size_bytes", "Size of the files.", \.diskUsed),
            ("kv_ep_db_data_size_bytes", "Bytes of the files in use.", \.diskDataUsed),
            ("kv_ep_queue_size", "Changes that are not persisted.", \.diskQueue),
            ("kv_curr_connections", "Data connections that use the bucket.", \.connections),
        ]
    }

    private mutating func addCounters(_ buckets: [Named]) {
        for (name, kind, help, number) in Self.counters { add(buckets, name, kind, help, number) }
        let ops: [(labels: [(name: String, value: String)], number: Number)] = [
            ([("op", "get"), ("result", "hit")], \.getHits),
            ([("op", "get"), ("result", "miss")], \.getMisses),
            ([("op", "set")], \.cmdSet), ([("op", "delete")], \.cmdDelete),
            ([("op", "cas"), ("result", "badval")], \.casMismatches),
        ]
        page.add(
            "kv_ops",
            .untyped,
            "Counter of operations by kind and result.",
            buckets.flatMap { bucket in
                ops.map { labels, number in
                    MetricsText.Sample(
                        [("bucket", bucket.name)] + labels,
                        bucket.statistics[keyPath: number]
                    )
                }
            }
        )
    }

    private static var counters:
        [(name: String, kind: MetricsText.Kind, help: String, number: Number)]
    {
        [
            ("kv_cmd_total", .counter, "Commands of clients.", \.opsTotal),
            ("kv_ep_bg_fetched", .untyped, "Counter of reads from disk.", \.backgroundFetches),
            ("kv_ep_num_value_ejects", .untyped, "Counter of ejected values.", \.ejections),
            ("kv_ep_expired", .untyped, "Counter of expired documents.", \.expired),
            (
                "kv_ep_tmp_oom_errors", .untyped, "Counter of commands refused for want of memory.",
                \.temporaryFailures
            ),
            ("kv_ep_commit_num", .untyped, "Counter of commits to disk.", \.commits),
            ("kv_ep_commit_failures", .untyped, "Counter of failed commits.", \.commitFailures),
            (
                "kv_ep_total_persisted", .untyped, "Counter of persisted changes.",
                \.persistedChanges
            ),
            ("kv_read_bytes", .untyped, "Counter of bytes received from clients.", \.bytesRead),
            ("kv_written_bytes", .untyped, "Counter of bytes sent to clients.", \.bytesWritten),
        ]
    }

    private mutating func add(
        _ buckets: [Named],
        _ name: String,
        _ kind: MetricsText.Kind,
        _ help: String,
        _ number: Number
    ) {
        page.add(
            name,
            kind,
            help,
            buckets.map { .init([("bucket", $0.name)], $0.statistics[keyPath: number]) }
        )
    }

    private mutating func addCopies(_ buckets: [Named]) {
        let states = [VBucketState.active, .replica, .pending, .dead]
        func samples(_ number: (CopyItems, VBucketState) -> UInt64) -> [MetricsText.Sample] {
            buckets.flatMap { bucket in
                states.map { state in
                    let labels = [(name: "bucket", value: bucket.name), ("state", state.name)]
                    return MetricsText.Sample(labels, number(bucket.statistics.copies, state))
                }
            }
        }
        page.add(
            "kv_num_vbuckets",
            .gauge,
            "Copies of vBuckets on this node by state.",
            samples { $0.count($1) }
        )
        page.add(
            "kv_vb_curr_items",
            .gauge,
            "Documents of the copies on this node by state.",
            samples { $0.items($1) }
        )
    }

    private mutating func addReplication(_ buckets: [Named]) {
        let samples = buckets.flatMap { bucket in
            call.service.dataPlane.replicationBacklog(ofBucket: bucket.name)
                .sorted { $0.key < $1.key }
                .compactMap { number, changes -> MetricsText.Sample? in
                    guard let node = call.state.node(number: number) else { return nil }
                    let labels = [(name: "bucket", value: bucket.name), ("node", node.otpNode)]
                    return .init(labels, changes)
                }
        }
        page.add(
            "kv_replication_backlog_items",
            .gauge,
            "Changes of active vBuckets that the replicas on a node have not acknowledged.",
            samples
        )
    }

    // MARK: The node

    private mutating func addNode() {
        let memory = Machine.memory
        page.add("sys_mem_total", .untyped, "Memory of the machine in bytes.", memory.total)
        page.add(
            "sys_mem_free",
            .gauge,
            "Memory in bytes that processes may still use.",
            memory.free
        )
        page.add(
            "sys_cpu_cores_available",
            .gauge,
            "Processors of the machine.",
            UInt64(Machine.cpuCount)
        )
        page.add(
            "cm_node_healthy",
            .gauge,
            "1 if the node serves all its buckets.",
            call.service.nodeStatus == .healthy ? 1 : 0
        )
        page.add(
            "cm_uptime_seconds",
            .gauge,
            "Time since the node began to serve.",
            call.service.uptimeSeconds
        )
        page.add(
            "cm_alerts",
            .gauge,
            "Conditions of this node that need an operator, as in /pools/default.",
            UInt64(call.service.alerts.count)
        )
    }

    private mutating func addCluster() {
        let state = call.state
        page.add(
            "cm_memory_quota_bytes",
            .gauge,
            "Memory quota of all buckets on each node.",
            state.memoryQuota
        )
        page.add("cm_buckets", .gauge, "Buckets of the cluster.", UInt64(state.buckets.count))
        let lost = Dictionary(
            state.lostRedundancy.map { ($0.bucket, UInt64($0.vBuckets)) },
            uniquingKeysWith: +
        )
        page.add(
            "cm_lost_redundancy_vbuckets",
            .gauge,
            "vBuckets of the cluster with fewer copies than configured.",
            state.buckets.map { .init([("bucket", $0.settings.name)], lost[$0.settings.name] ?? 0) }
        )
        let status = call.service.raftStatus
        page.add("cm_raft_term", .gauge, "Raft's current term on this node.", status.term)
        page.add(
            "cm_raft_role",
            .gauge,
            "1 for the role of this node in Raft.",
            RaftStatus.roleNames.map { name in
                .init([("role", name)], name == status.roleName ? UInt64(1) : 0)
            }
        )
    }

    // MARK: The process

    private mutating func addProcess() {
        if let process = ProcessReading() {
            page.add(
                "process_cpu_seconds_total",
                .counter,
                "Processor time of this process, without that of script processes.",
                [.init([], process.cpuSeconds)]
            )
            page.add(
                "process_resident_memory_bytes",
                .gauge,
                "Resident memory of this process.",
                process.residentBytes
            )
        }
        let descriptors = call.service.descriptors
        page.add(
            "process_open_fds",
            .gauge,
            "Open descriptors, as of at most ten seconds ago.",
            UInt64(descriptors.usage.open)
        )
        page.add(
            "process_max_fds",
            .gauge,
            "The most descriptors that this process may have open.",
            UInt64(descriptors.plan.limit)
        )
    }
}
