internal import Indexing
internal import ScriptProcesses
internal import Scripting
internal import ViewService

/// The indexes of this node, by bucket, in Prometheus's text format; nothing without indexes.
///
/// A bucket may have a thousand indexes: the tasks and `/_function_errors` have the figures of each.
struct ViewMetrics {
    private struct Bucket {
        let name: String
        let queries: UInt64
        let indexes: [IndexReport]
    }

    private let buckets: [Bucket]
    private let reading: ViewReading

    init(_ reading: ViewReading) {
        self.reading = reading
        // The definition of an index that is being closed may be gone already.
        let known = reading.indexes.filter { !$0.bucketName.isEmpty }
        buckets = Dictionary(grouping: known, by: \.bucketName).sorted { $0.key < $1.key }
            .map { name, indexes in
                let queries = indexes.first.flatMap { reading.queries[$0.bucket] }
                return Bucket(name: name, queries: queries ?? 0, indexes: indexes)
            }
    }

    func add(to page: inout MetricsText) {
        guard !reading.indexes.isEmpty else { return }
        page.add(
            "couch_views_ops",
            .untyped,
            help: "Counter of queries of which this node answered a part.",
            samples: buckets.map { .init([("bucket", $0.name)], $0.queries) }
        )
        for (name, help, number) in ViewMetrics.gauges {
            page.add(
                name,
                .gauge,
                help: help,
                samples: buckets.map { bucket in
                    let sum = bucket.indexes.reduce(0) { $0 + number($1) }
                    return .init([("bucket", bucket.name)], sum)
                }
            )
        }
        page.add(
            "view_index_errors_total",
            .counter,
            help: "Errors of functions by kind.",
            samples: buckets.flatMap(ViewMetrics.errors)
        )
        for (name, help, value) in [
            ("view_script_processes", "Script processes.", Double(reading.scripts.processes)),
            (
                "view_script_memory_bytes", "Resident memory of the script processes.",
                Double(reading.scripts.residentBytes)
            ),
            (
                "view_script_works", "Works that the script processes have not answered.",
                Double(reading.scripts.works)
            ),
        ] {
            page.add(name, .gauge, help: help, samples: [.init([], value)])
        }
    }

    private static let gauges:
        [(name: String, help: String, number: @Sendable (IndexReport) -> Double)] = [
            ("view_indexes", "Indexes.", { _ in 1 }),
            ("view_indexes_building", "Indexes that are built.", { $0.isBuilding ? 1 : 0 }),
            (
                "view_indexes_stopped", "Indexes that get no further changes.",
                { $0.fault == nil ? 0 : 1 }
            ),
            ("view_index_rows", "Rows of all indexes.", { Double($0.status.rows) }),
            (
                "view_index_pending_items",
                "Changes that an index has yet to read, of all indexes.",
                {
                    Double(
                        $0.status.changesTotal - min($0.status.changesTotal, $0.status.changesDone)
                    )
                }
            ),
            ("view_index_memory_bytes", "SQLite's memory.", { Double($0.memoryBytes) }),
            ("view_index_disk_bytes", "Size of the index files.", { Double($0.diskBytes) }),
            ("view_index_data_bytes", "Bytes of the index files in use.", { Double($0.usedBytes) }),
        ]

    private static func errors(of bucket: Bucket) -> [MetricsText.Sample] {
        var sums: [String: Double] = [:]
        for index in bucket.indexes {
            for (kind, count) in index.status.errors.counts {
                sums[kind.rawValue, default: 0] += Double(count)
            }
        }
        return sums.sorted { $0.key < $1.key }
            .map { .init([("bucket", bucket.name), ("kind", $0)], $1) }
    }
}
