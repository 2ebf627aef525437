internal import Bytes
package import Vocabulary

/// How long the phases of the view queries take that clients send to this node, by bucket.
package final class QueryLatencies: Sendable {
    /// A part of a query's time; the raw values are labels.
    enum Phase: String, CaseIterable {
        /// The wait for a slot.
        case queue
        /// Until all nodes have begun to answer: their indexes are as fresh as the query needs.
        case open
        /// Until the last row, and the client's reading of those before.
        case rows
    }

    private let tables = Guarded<[QueryRun.Bucket: LatencyTable]>([:])

    package init() {}

    func record(_ phase: Phase, of bucket: QueryRun.Bucket, nanoseconds: UInt64) {
        guard let kind = Phase.allCases.firstIndex(of: phase) else { return }
        let table = tables.withLock { tables in
            if let table = tables[bucket] { return table }
            let table = LatencyTable(rows: 1, kinds: Phase.allCases.count)
            tables[bucket] = table
            return table
        }
        table.recordShared(kind, nanoseconds: nanoseconds)
    }

    /// The histograms that are not empty, by bucket and phase; those of buckets that do not exist any more
    /// are discarded.
    package func readings(exists: (QueryRun.Bucket) -> Bool) -> [LatencyReading] {
        let tables = tables.withLock { tables in
            tables = tables.filter { exists($0.key) }
            return tables
        }
        return tables.sorted { $0.key.name < $1.key.name }.flatMap { bucket, table in
            Phase.allCases.enumerated().compactMap { kind, phase in
                table.histogram(kind).map {
                    let labels = [(name: "bucket", value: bucket.name), ("phase", phase.rawValue)]
                    return LatencyReading(.viewQueries, labels, histogram: $0)
                }
            }
        }
    }
}
