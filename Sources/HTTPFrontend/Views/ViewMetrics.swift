internal import Indexing
internal import ViewService

/// The indexes of this node in Prometheus's text format.
///
/// An index is named by its signature; `view_index_info` has the views that it serves. Without
/// indexes there are no lines.
struct ViewMetrics {
    private(set) var lines: [String] = []

    init(_ reading: ViewReading) {
        guard !reading.indexes.isEmpty else { return }
        // The definition of an index that is being closed may be gone already.
        let indexes = reading.indexes.filter { !$0.bucketName.isEmpty }
        addBuckets(indexes, reading.queries)
        begin("view_index_info", "gauge")
        for index in indexes {
            for view in index.views {
                let document = ViewMetrics.escape(view.designDocument)
                let name = ViewMetrics.escape(view.view)
                add(
                    "view_index_info",
                    index,
                    ",design_document=\"\(document)\",view=\"\(name)\"",
                    1
                )
            }
        }
        for (name, number) in ViewMetrics.gauges {
            begin(name, "gauge")
            for index in indexes { add(name, index, "", number(index)) }
        }
        begin("view_index_errors", "counter")
        for index in indexes {
            for (kind, count) in index.status.errors.counts.sorted(by: {
                $0.key.rawValue < $1.key.rawValue
            }) {
                add("view_index_errors", index, ",kind=\"\(kind.rawValue)\"", Double(count))
            }
        }
        for (name, value) in [
            ("view_script_processes", Double(reading.scripts.processes)),
            ("view_script_memory_bytes", Double(reading.scripts.residentBytes)),
            ("view_script_works", Double(reading.scripts.works)),
        ] {
            begin(name, "gauge")
            lines.append("\(name) \(ViewMetrics.text(value))")
        }
    }

    private static let gauges: [(String, @Sendable (IndexReport) -> Double)] = [
        ("view_index_rows", { Double($0.status.rows) }),
        ("view_index_progress_ratio", { $0.status.progress }),
        ("view_index_building", { $0.isBuilding ? 1 : 0 }),
        ("view_index_stopped", { $0.fault == nil ? 0 : 1 }),
        ("view_index_memory_bytes", { Double($0.memoryBytes) }),
        ("view_index_disk_bytes", { Double($0.diskBytes) }),
        ("view_index_data_bytes", { Double($0.usedBytes) }),
    ]

    private mutating func addBuckets(_ indexes: [IndexReport], _ queries: [String: UInt64]) {
        var buckets: [String: String] = [:]
        for index in indexes { buckets[index.bucket] = index.bucketName }
        begin("couch_views_ops", "counter")
        for (uuid, name) in buckets.sorted(by: { $0.value < $1.value }) {
            lines.append("couch_views_ops{bucket=\"\(name)\"} \(queries[uuid] ?? 0)")
        }
    }

    private mutating func begin(_ name: String, _ type: String) {
        lines.append("# TYPE \(name) \(type)")
    }

    private mutating func add(
        _ name: String,
        _ index: IndexReport,
        _ labels: String,
        _ value: Double
    ) {
        let own = "bucket=\"\(index.bucketName)\",index=\"\(index.signature)\"\(labels)"
        lines.append("\(name){\(own)} \(ViewMetrics.text(value))")
    }

    /// Whole numbers without a point.
    private static func text(_ value: Double) -> String {
        Int64(exactly: value).map(String.init) ?? "\(value)"
    }

    /// A label's value: names of views may have any characters.
    private static func escape(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
