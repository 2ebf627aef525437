internal import ClusterService
internal import Foundation
internal import Orchestration
internal import Seams
internal import ViewService
internal import Vocabulary

/// All statistics of this node in Prometheus's text format.
///
/// - No label has a value for each view, connection or user: the number of series is bounded by the
///   numbers of buckets and nodes.
struct Metrics {
    private typealias Named = (name: String, statistics: BucketStatistics)

    private let call: Call
    private var page = MetricsText()

    /// The metrics of this node; `views` has the figures of its indexes, nil without views.
    init(_ call: Call, views: ViewReading?) {
        self.call = call
        let buckets = call.state.buckets.compactMap { bucket in
            call.service.cluster.dataPlane.statistics(ofBucket: bucket.settings.name)
                .map { (name: bucket.settings.name, statistics: $0) }
        }
        addStatistics(buckets)
        addCopies(buckets)
        addReplication(buckets)
        addNode()
        addCluster()
        addProcess()
        if let views { ViewMetrics(views).add(to: &page) }
        addLatencies(
            buckets.flatMap { call.service.cluster.dataPlane.latencies(ofBucket: $0.name) }
                + (views?.latencies ?? []) + call.latencies.readings
        )
    }

    var text: String { page.lines.joined(separator: "\n") + "\n" }

    // MARK: Buckets

    private mutating func addStatistics(_ buckets: [Named]) {
        for (name, help, statistic) in Statistic.metrics {
            let counterKind = name.hasSuffix("_total") ? MetricsText.Kind.counter : .untyped
            page.add(
                name,
                statistic.kind == .gauge ? .gauge : counterKind,
                help: help,
                samples: buckets.map { bucket in
                    let labels = [(name: "bucket", value: bucket.name)]
                    let number = bucket.statistics[statistic]
                    guard statistic.unit == .milliseconds else { return .init(labels, number) }
                    return .init(labels, Double(number) / 1_000)
                }
            )
        }
        page.add(
            "kv_ops",
            .untyped,
            help: "Counter of operations by kind and result.",
            samples: buckets.flatMap { bucket in
                Statistic.operations.map { op, result, statistic in
                    let labels = [(name: "bucket", value: bucket.name), ("op", op)]
                    let ending = result.map { [(name: "result", value: $0)] } ?? []
                    return MetricsText.Sample(labels + ending, bucket.statistics[statistic])
                }
            }
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
            help: "Copies of vBuckets on this node by state.",
            samples: samples { $0.count($1) }
        )
        page.add(
            "kv_vb_curr_items",
            .gauge,
            help: "Documents of the copies on this node by state.",
            samples: samples { $0.items($1) }
        )
    }

    private mutating func addReplication(_ buckets: [Named]) {
        let samples = buckets.flatMap { bucket in
            call.service.cluster.dataPlane.replicationBacklog(ofBucket: bucket.name)
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
            help: "Changes of active vBuckets that the replicas on a node have not acknowledged.",
            samples: samples
        )
    }

    // MARK: Latencies

    private mutating func addLatencies(_ readings: [LatencyReading]) {
        for family in LatencyFamily.allCases {
            page.add(family, readings.filter { $0.family == family })
        }
    }

    // MARK: The node

    private typealias Number = (name: String, kind: MetricsText.Kind, help: String, value: UInt64)

    private mutating func add(_ numbers: [Number]) {
        for (name, kind, help, value) in numbers { page.add(name, kind, help: help, value: value) }
    }

    private mutating func addNode() {
        let (service, memory) = (call.service, Machine.memory)
        let cores = UInt64(Machine.cpuCount)
        let isHealthy = service.statistics.nodeStatus == .healthy
        add([
            ("sys_mem_total", .untyped, "Memory of the machine in bytes.", memory.total),
            ("sys_mem_free", .gauge, "Memory in bytes that processes may still use.", memory.free),
            ("sys_cpu_cores_available", .gauge, "Processors of the machine.", cores),
            ("cm_node_healthy", .gauge, "1 if the node serves all its buckets.", isHealthy ? 1 : 0),
            (
                "cm_uptime_seconds", .gauge, "Time since the node began to serve.",
                service.cluster.uptimeSeconds
            ),
            (
                "cm_alerts", .gauge,
                "Conditions of this node that need an operator, as in /pools/default.",
                UInt64(service.health.alerts.count)
            ),
            (
                "kv_plain_logins_total", .counter,
                "Logins of clients on other machines that sent a password without TLS.",
                service.users.plainLoginCount
            ),
        ])
    }

    private mutating func addCluster() {
        let state = call.state
        add([
            (
                "cm_memory_quota_bytes", .gauge, "Memory quota of all buckets on each node.",
                state.memoryQuota
            ),
            ("cm_buckets", .gauge, "Buckets of the cluster.", UInt64(state.buckets.count)),
        ])
        let lost = Dictionary(
            state.lostRedundancy.map { ($0.bucket, UInt64($0.vBuckets)) },
            uniquingKeysWith: +
        )
        page.add(
            "cm_lost_redundancy_vbuckets",
            .gauge,
            help: "vBuckets of the cluster with fewer copies than configured.",
            samples: state.buckets.map {
                .init([("bucket", $0.settings.name)], lost[$0.settings.name] ?? 0)
            }
        )
        let status = call.service.cluster.raftStatus
        page.add(
            "cm_raft_term",
            .gauge,
            help: "Raft's current term on this node.",
            value: status.term
        )
        page.add(
            "cm_raft_role",
            .gauge,
            help: "1 for the role of this node in Raft.",
            samples: RaftStatus.roleNames.map { name in
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
                help: "Processor time of this process, without that of script processes.",
                samples: [.init([], process.cpuSeconds)]
            )
            page.add(
                "process_resident_memory_bytes",
                .gauge,
                help: "Resident memory of this process.",
                value: process.residentBytes
            )
        }
        let (open, limit) = (
            call.service.cluster.descriptors.usage.open, call.service.cluster.descriptors.plan.limit
        )
        add([
            (
                "process_open_fds", .gauge, "Open descriptors, as of at most ten seconds ago.",
                UInt64(open)
            ),
            (
                "process_max_fds", .gauge,
                "The most descriptors that this process may have open.", UInt64(limit)
            ),
        ])
    }
}

/// Processor time and memory of this process, from `/proc/self/stat`.
package struct ProcessReading {
    /// In user and kernel mode, since the start of the process.
    package let cpuSeconds: Double
    package let residentBytes: UInt64

    /// Nil if the kernel does not show the process.
    init?() {
        guard let bytes = FileManager.default.contents(atPath: "/proc/self/stat") else {
            return nil
        }
        self.init(
            stat: String(decoding: bytes, as: UTF8.self),
            ticksPerSecond: Double(sysconf(Int32(_SC_CLK_TCK))),
            pageBytes: UInt64(getpagesize())
        )
    }

    /// Nil if the text is malformed; the second field is the program's name, which may have any characters.
    package init?(stat: String, ticksPerSecond: Double, pageBytes: UInt64) {
        guard let end = stat.lastIndex(of: ")") else { return nil }
        // The first of these is field 3.
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 21, let user = Double(fields[11]), let system = Double(fields[12]),
            let pages = UInt64(fields[21])
        else { return nil }
        cpuSeconds = (user + system) / ticksPerSecond
        residentBytes = pages * pageBytes
    }
}
