package import Bytes
package import Vocabulary

/// The memory and processors of a node's machine.
package struct MachineReading: Hashable, Sendable {
    /// Percent of all cores that are busy.
    package var cpuPercent = 0.0
    package var cores = 0
    package var memoryTotal: UInt64 = 0
    package var memoryFree: UInt64 = 0
    package var swapTotal: UInt64 = 0
    package var swapFree: UInt64 = 0
    /// The same number for all nodes whose data is on the same file system of the same machine; 0 if it is
    /// not known.
    package var diskIdentity: UInt64 = 0

    package init() {}
}

/// A node's statistics, sent to every other node once a second.
///
/// - No decision depends on them: they are shown to people and tools, and may be some seconds old.
package struct NodeStatistics: Hashable, Sendable {
    package struct Bucket: Hashable, Sendable {
        package var name: String
        package var status: NodeStatus
        package var statistics: BucketStatistics
        /// Per second, in the newest second.
        package var rates: [Statistic: Double]
        /// How far a requested compaction of the documents is; nil if none runs.
        package var compaction: CompactionWork?
    }

    /// The statistics whose rates are sent, in their order in a message.
    static let rated: [Statistic] = [.gets, .getHits, .backgroundFetches, .ops]

    package var status = NodeStatus.healthy
    package var uptimeSeconds: UInt64 = 0
    package var machine = MachineReading()
    package var diskTotal: UInt64 = 0
    package var diskFree: UInt64 = 0
    /// The data directory.
    package var directory = ""
    /// The bucket of the listener for plain memcached clients; empty if there is none.
    package var memcachedBucket = ""
    package var buckets: [Bucket] = []

    package init() {}

    package func bucket(named name: String) -> Bucket? { buckets.first { $0.name == name } }

    /// The copies of a bucket; none if the node had not opened it when it reported.
    package func copies(ofBucket name: String) -> CopyItems {
        bucket(named: name)?.statistics.copies ?? CopyItems()
    }
}

// MARK: Between nodes

extension NodeStatistics: ExtensibleFields {
    /// Rates and percentages are sent in thousandths.
    fileprivate static let unit = 1_000.0

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&status, "status")
        try coder.field(&uptimeSeconds, "uptime")
        try coder.parts(&machine.cpuPercent, per: Self.unit, "busy processors")
        try coder.field(&machine.cores, "cores")
        try coder.field(&machine.memoryTotal, "memory")
        try coder.field(&machine.memoryFree, "free memory")
        try coder.field(&machine.swapTotal, "swap")
        try coder.field(&machine.swapFree, "free swap")
        try coder.field(&diskTotal, "disk")
        try coder.field(&diskFree, "free disk")
        try coder.field(&directory, "directory")
        try coder.field(&memcachedBucket, "bucket for memcached")
        try coder.field(&buckets, "buckets")
        try coder.field(&machine.diskIdentity, "identity of the disk")
    }
}

extension NodeStatistics.Bucket: ExtensibleFields {
    /// The last field of the record, which has no bytes unless a compaction runs.
    private struct Compaction: Coded {
        var work: CompactionWork?

        init(_ work: CompactionWork?) { self.work = work }

        func write(to writer: inout FieldWriter) {
            if work != nil { work.write(to: &writer) }
        }

        init(from reader: inout FieldReader) throws(CodingFailure) {
            work = reader.isAtEnd ? nil : try reader.payload()
        }
    }

    package init() {
        self.init(name: "", status: .healthy, statistics: BucketStatistics(), rates: [:])
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&status, "status")
        try coder.field(&statistics, "statistics")
        // Another release may send more rates, or fewer.
        var numbers = NodeStatistics.rated.map { rates[$0] ?? 0 }
        try coder.list(&numbers, "rates", blank: 0) { coder, rate throws(CodingFailure) in
            try coder.parts(&rate, per: NodeStatistics.unit, "rate")
        }
        rates = Dictionary(uniqueKeysWithValues: zip(NodeStatistics.rated, numbers))
        var compaction = Compaction(compaction)
        try coder.field(&compaction, "compaction")
        self.compaction = compaction.work
    }
}

extension NodeStatus: Coded {
    private static let order: [NodeStatus] = [.healthy, .warmup, .unhealthy]

    package func write(to writer: inout FieldWriter) {
        writer.kind(UInt8(Self.order.firstIndex(of: self) ?? 0))
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let place = Int(try reader.kind("status"))
        guard Self.order.indices.contains(place) else { throw reader.failure(.invalid) }
        self = Self.order[place]
    }
}
