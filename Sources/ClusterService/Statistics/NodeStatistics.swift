internal import Bytes
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
        package var rates: [Rate: Double]
        /// How far a requested compaction of the documents is; nil if none runs.
        package var compaction: CompactionWork?
    }

    /// Statistics that are shown per second.
    package enum Rate: UInt8, CaseIterable, Sendable {
        case gets = 0
        case hits = 1
        case diskFetches = 2
        case operations = 3

        var sampled: SampledStatistic {
            switch self {
            case .gets: .cmdGet
            case .hits: .getHits
            case .diskFetches: .backgroundFetched
            case .operations: .ops
            }
        }
    }

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

extension NodeStatistics: PeerPayload {
    /// Rates and percentages are sent in thousandths.
    fileprivate static let unit = 1_000.0

    init?(_ reader: inout ByteReader) {
        self.init()
        guard let status = NodeStatus(&reader), let uptime = reader.leb128(),
            let cpu = reader.number(unit: Self.unit), let cores = reader.leb(Int.self)
        else { return nil }
        self.status = status
        uptimeSeconds = uptime
        machine.cpuPercent = cpu
        machine.cores = cores
        guard let memoryTotal = reader.leb128(), let memoryFree = reader.leb128(),
            let swapTotal = reader.leb128(), let swapFree = reader.leb128(),
            let diskTotal = reader.leb128(), let diskFree = reader.leb128(),
            let directory = reader.text(), let memcachedBucket = reader.text(),
            let buckets = reader.all(Bucket.self)
        else { return nil }
        machine.memoryTotal = memoryTotal
        machine.memoryFree = memoryFree
        machine.swapTotal = swapTotal
        machine.swapFree = swapFree
        self.diskTotal = diskTotal
        self.diskFree = diskFree
        self.directory = directory
        self.memcachedBucket = memcachedBucket
        self.buckets = buckets
        guard let diskIdentity = reader.leb128() else { return nil }
        machine.diskIdentity = diskIdentity
    }

    func append(to writer: ByteWriter) {
        status.append(to: writer)
        writer.append(leb: uptimeSeconds)
        writer.append(machine.cpuPercent, unit: Self.unit)
        writer.append(leb: machine.cores)
        for number in [
            machine.memoryTotal, machine.memoryFree, machine.swapTotal, machine.swapFree,
            diskTotal, diskFree,
        ] {
            writer.append(leb: number)
        }
        writer.append(counted: directory)
        writer.append(counted: memcachedBucket)
        writer.append(all: buckets)
        writer.append(leb: machine.diskIdentity)
    }
}

extension NodeStatistics.Bucket: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let status = NodeStatus(&reader),
            let statistics = reader.record(BucketStatistics.self),
            let count = reader.leb(Int.self), count <= reader.rest.count
        else { return nil }
        self.init(name: name, status: status, statistics: statistics, rates: [:])
        for place in 0..<count {
            guard let number = reader.number(unit: NodeStatistics.unit) else { return nil }
            // A newer node may send more fields.
            guard let raw = UInt8(exactly: place), let rate = NodeStatistics.Rate(rawValue: raw)
            else { continue }
            rates[rate] = number
        }
        guard !reader.isAtEnd else { return }
        guard let isCompacting = reader.flag() else { return nil }
        guard isCompacting else { return }
        guard let done = reader.leb128(), let total = reader.leb128() else { return nil }
        compaction = CompactionWork(done: done, total: total)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        status.append(to: writer)
        writer.append(record: statistics)
        writer.append(leb: NodeStatistics.Rate.allCases.count)
        for rate in NodeStatistics.Rate.allCases {
            writer.append(rates[rate] ?? 0, unit: NodeStatistics.unit)
        }
        // Most of the time none runs, and the record ends here.
        guard let compaction else { return }
        writer.append(true)
        writer.append(leb: compaction.done)
        writer.append(leb: compaction.total)
    }
}

extension NodeStatus: PeerPayload {
    private static let order: [NodeStatus] = [.healthy, .warmup, .unhealthy]

    init?(_ reader: inout ByteReader) {
        guard let place = reader.bigEndian(UInt8.self).map(Int.init),
            Self.order.indices.contains(place)
        else { return nil }
        self = Self.order[place]
    }

    func append(to writer: ByteWriter) {
        writer.append(UInt8(Self.order.firstIndex(of: self) ?? 0))
    }
}

extension BucketStatistics: PeerPayload {
    /// In the order of the encoding; new fields are appended.
    private static var numbers: [WritableKeyPath<BucketStatistics, UInt64>] {
        [
            \.tombstones, \.residentItems, \.memoryUsed, \.quota,
            \.lowWatermark, \.highWatermark, \.diskUsed, \.diskDataUsed, \.diskQueue,
            \.oldestUnpersistedMilliseconds, \.connections, \.cmdGet, \.cmdSet, \.cmdDelete,
            \.getHits, \.getMisses, \.opsTotal, \.backgroundFetches, \.ejections, \.expired,
            \.temporaryFailures, \.casMismatches, \.commits, \.persistedChanges,
            \.commitFailures, \.bytesRead, \.bytesWritten,
        ]
    }

    init?(_ reader: inout ByteReader) {
        self.init()
        guard let count = reader.leb(Int.self), count <= reader.rest.count else { return nil }
        let numbers = Self.numbers
        for place in 0..<count {
            guard let number = reader.leb128() else { return nil }
            // A newer node may send more fields.
            if numbers.indices.contains(place) { self[keyPath: numbers[place]] = number }
        }
        guard let copies = CopyItems(&reader) else { return nil }
        self.copies = copies
    }

    func append(to writer: ByteWriter) {
        let numbers = Self.numbers
        writer.append(leb: numbers.count)
        for number in numbers { writer.append(leb: self[keyPath: number]) }
        copies.append(to: writer)
    }
}
