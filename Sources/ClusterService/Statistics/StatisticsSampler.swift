package import Bytes
internal import Seams
package import Vocabulary

/// Samples every bucket's statistics once a second; keeps them for a minute, an hour, a day, a
/// week, a month and a year, at increasing intervals.
///
/// A reading visits all vBuckets of a bucket. If there are more than `readingsPerSecond` buckets, they are
/// read in turn, and each repeats its sample until then.
package final class StatisticsSampler: Sendable {
    /// The covered time, each with its interval, as in Couchbase.
    package enum Zoom: String, CaseIterable, Sendable {
        case minute
        case hour
        case day
        case week
        case month
        case year

        var ring: SampleRing {
            switch self {
            case .minute: SampleRing(intervalSeconds: 1, capacity: 60)
            case .hour: SampleRing(intervalSeconds: 4, capacity: 900)
            case .day: SampleRing(intervalSeconds: 60, capacity: 1_440)
            case .week: SampleRing(intervalSeconds: 600, capacity: 1_152)
            case .month: SampleRing(intervalSeconds: 1_800, capacity: 1_488)
            case .year: SampleRing(intervalSeconds: 21_600, capacity: 1_464)
            }
        }
    }

    /// A bucket's samples at one interval, oldest first.
    package struct Series: Sendable {
        package private(set) var intervalMilliseconds: UInt64
        package private(set) var newestMilliseconds: UInt64
        private(set) var samples: [[Float]]

        package var count: Int { samples.count }

        package func values(of statistic: Statistic) -> [Float] {
            samples.map { $0[statistic] }
        }

        /// When each sample was taken, in milliseconds since 1970.
        package var timestamps: [UInt64] {
            (0..<UInt64(count)).map {
                newestMilliseconds - (UInt64(count) - 1 - $0) * intervalMilliseconds
            }
        }
    }

    /// Where the sampler reads.
    struct Source: Sendable {
        let plane: any DataPlane
        /// This node's indexes; nil if there are none.
        let views: @Sendable () -> ViewStatistics?
        /// The names of all buckets.
        let names: @Sendable () -> [String]
    }

    private struct Samples {
        var last: BucketStatistics
        /// When `last` was read.
        var lastNanoseconds: UInt64
        var rings = Zoom.allCases.map(\.ring)

        mutating func add(_ sample: [Float], atMilliseconds milliseconds: UInt64) {
            for place in rings.indices {
                rings[place].add(sample, atMilliseconds: milliseconds)
            }
        }
    }

    private struct Core {
        var buckets: [String: Samples] = [:]
        var ticks = 0
        var timer: LaneTimer?
        var isStopped = false

        mutating func begin(
            _ name: String,
            _ reading: BucketStatistics,
            _ now: UInt64,
            atMilliseconds milliseconds: UInt64
        ) {
            var samples = Samples(last: reading, lastNanoseconds: now)
            samples.add(
                SampledStatistic.sample(reading, since: reading, seconds: 1),
                atMilliseconds: milliseconds
            )
            buckets[name] = samples
        }
    }

    private static let readingsPerSecond = 20

    private let time: any TimeSource
    private let lane: any Lane
    private let core = Guarded(Core())

    init(time: any TimeSource, lane: any Lane) {
        self.time = time
        self.lane = lane
    }

    func start(reading source: Source) { tick(source) }

    func stop() {
        core.withLock { core in
            core.isStopped = true
            core.timer?.cancel()
        }
    }

    /// Adds a first sample for a new bucket, so that an early request gets zeros.
    func begin(bucket name: String, _ statistics: BucketStatistics?) {
        guard let statistics else { return }
        let (now, milliseconds) = (time.monotonicNanoseconds(), time.wallNanoseconds() / 1_000_000)
        core.withLock { $0.begin(name, statistics, now, atMilliseconds: milliseconds) }
    }

    func forget(bucket name: String) {
        core.withLock { _ = $0.buckets.removeValue(forKey: name) }
    }

    /// The samples of a bucket; nil if there are none yet.
    package func series(ofBucket name: String, _ zoom: Zoom) -> Series? {
        core.withLock { core in
            guard let samples = core.buckets[name],
                let place = Zoom.allCases.firstIndex(of: zoom)
            else { return nil }
            let ring = samples.rings[place]
            return Series(
                intervalMilliseconds: UInt64(ring.intervalSeconds) * 1_000,
                newestMilliseconds: ring.newestMilliseconds,
                samples: ring.samples
            )
        }
    }

    /// The value in the newest second; 0 if there is none yet.
    package func newest(_ statistic: Statistic, ofBucket name: String) -> Double {
        core.withLock { core in
            // The rings are in the order of their intervals, seconds first.
            let sample = core.buckets[name]?.rings.first?.newest
            return sample.map { Double($0[statistic]) } ?? 0
        }
    }

    private func tick(_ source: Source) {
        let now = time.monotonicNanoseconds()
        let milliseconds = time.wallNanoseconds() / 1_000_000
        let views = source.views()
        let names = source.names()
        let turns = (names.count - 1) / Self.readingsPerSecond + 1
        let turn = core.withLock { core in
            core.ticks += 1
            return core.ticks % turns
        }
        let readings = names.enumerated().map { place, name in
            var reading =
                place % turns == turn ? source.plane.statistics(ofBucket: name) : nil
            for (statistic, number) in views?.bucket(named: name)?.numbers ?? [] {
                reading?[statistic] = number
            }
            return (name, reading)
        }
        core.withLock { core in
            guard !core.isStopped else { return }
            for (place, (name, reading)) in readings.enumerated() {
                guard var samples = core.buckets.removeValue(forKey: name) else {
                    if let reading { core.begin(name, reading, now, atMilliseconds: milliseconds) }
                    continue
                }
                if let reading {
                    let elapsed = Float(now - min(samples.lastNanoseconds, now)) / 1e9
                    let sample = SampledStatistic.sample(
                        reading,
                        since: samples.last,
                        seconds: max(elapsed, 0.001)
                    )
                    (samples.last, samples.lastNanoseconds) = (reading, now)
                    samples.add(sample, atMilliseconds: milliseconds)
                } else if place % turns != turn, let newest = samples.rings.first?.newest {
                    samples.add(newest, atMilliseconds: milliseconds)
                }
                core.buckets[name] = samples
            }
            core.timer = lane.post(after: 1_000_000_000) { [weak self] in
                self?.tick(source)
            }
        }
    }
}

/// The encoding of a series: a run of equal samples is one sample and its count.
extension StatisticsSampler.Series: ExtensibleFields {
    private struct Run {
        var count = 0
        var sample: [Float] = SampledStatistic.allCases.map { _ in 0 }
    }

    /// More samples than any ring keeps: a longer series is malformed.
    private static let countMax = 4_096
    private static let statisticsMax = 256

    private var runs: [Run] {
        samples.reduce(into: []) { runs, sample in
            if runs.last?.sample == sample {
                runs[runs.count - 1].count += 1
            } else {
                runs.append(Run(count: 1, sample: sample))
            }
        }
    }

    package init() { self.init(intervalMilliseconds: 0, newestMilliseconds: 0, samples: []) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&intervalMilliseconds, "interval")
        try coder.field(&newestMilliseconds, "time of the newest sample")
        var statistics = SampledStatistic.allCases.count
        try coder.field(&statistics, "number of statistics")
        try coder.require(statistics <= Self.statisticsMax, "number of statistics")
        var (runs, total) = (self.runs, 0)
        try coder.list(&runs, "runs", blank: Run()) { coder, run throws(CodingFailure) in
            try coder.field(&run.count, "samples of a run")
            let isValid = run.count > 0 && run.count <= Self.countMax - total
            try coder.require(isValid, "samples of a run")
            total += run.count
            for place in 0..<statistics {
                // A newer node may send more statistics, which come last.
                let isKnown = run.sample.indices.contains(place)
                var bits = isKnown ? run.sample[place].bitPattern : 0
                try coder.fixed(&bits, "sample")
                if isKnown { run.sample[place] = Float(bitPattern: bits) }
            }
        }
        samples = runs.flatMap { repeatElement($0.sample, count: $0.count) }
        let (age, overflows) = UInt64(max(total, 1) - 1)
            .multipliedReportingOverflow(by: intervalMilliseconds)
        try coder.require(!overflows && age <= newestMilliseconds, "interval")
    }
}

/// Combines a bucket's samples from several nodes: counts are added, percentages are of the sum,
/// ages are the greatest.
extension StatisticsSampler.Series {
    /// - Parameter series: One series of each node. They are aligned at the newest sample; before
    ///   its first sample a node counts as idle.
    /// - Returns: As many samples as the longest series has; nil if there is no series.
    package static func sum(_ series: [Self]) -> Self? {
        guard let longest = series.max(by: { $0.count < $1.count }) else { return nil }
        let newest = series.map(\.newestMilliseconds).max() ?? longest.newestMilliseconds
        let samples = (0..<longest.count).map { place in
            let back = longest.count - 1 - place
            return SampledStatistic.sum(
                series.compactMap { $0.count > back ? $0.samples[$0.count - 1 - back] : nil }
            )
        }
        return Self(
            intervalMilliseconds: longest.intervalMilliseconds,
            newestMilliseconds: newest,
            samples: samples
        )
    }
}

/// The newest samples of one interval, equal neighbours stored once.
///
/// An unused bucket has the same sample every second; stored as a run it takes one sample for a
/// year, so a thousand idle buckets take little memory.
///
/// - The counts of all runs sum up to `count`, never above `capacity`.
struct SampleRing {
    let intervalSeconds: Int
    let capacity: Int
    /// The sample of each run, one after the other, and how many equal samples it has.
    private var values: [Float] = []
    private var counts: [Int] = []
    private(set) var count = 0
    /// When the newest sample was taken, in milliseconds since 1970.
    private(set) var newestMilliseconds: UInt64 = 0

    /// Samples that will be averaged into the next one.
    private var sum: [Float] = []
    private var summed = 0

    init(intervalSeconds: Int, capacity: Int) {
        self.intervalSeconds = intervalSeconds
        self.capacity = capacity
    }

    /// Adds the sample of one second; stores the mean of every `intervalSeconds` samples.
    mutating func add(_ sample: [Float], atMilliseconds milliseconds: UInt64) {
        sum = summed == 0 ? sample : zip(sum, sample).map { $0 + $1 }
        summed += 1
        guard summed == intervalSeconds else { return }
        // The mean of equal numbers must be exactly that number, or idle buckets would start new
        // runs.
        let mean = intervalSeconds == 1 ? sample : sum.map { $0 / Float(summed) }
        summed = 0
        newestMilliseconds = milliseconds
        if newest == mean {
            counts[counts.count - 1] += 1
        } else {
            values += mean
            counts.append(1)
        }
        count += 1
        guard count > capacity else { return }
        count -= 1
        counts[0] -= 1
        if counts[0] == 0 {
            values.removeFirst(mean.count)
            counts.removeFirst()
        }
    }

    var newest: [Float]? { counts.isEmpty ? nil : sample(ofRun: counts.count - 1) }

    /// All samples, oldest first.
    var samples: [[Float]] {
        counts.enumerated().flatMap { repeatElement(sample(ofRun: $0.offset), count: $0.element) }
    }

    private func sample(ofRun run: Int) -> [Float] {
        let width = values.count / counts.count
        return Array(values[run * width..<(run + 1) * width])
    }
}

/// The statistics of a bucket in `/pools/default/buckets/B/stats`.
///
/// - The index in `allCases` is the index in a sample; messages between nodes have the same order.
package enum SampledStatistic {
    package static let allCases = Statistic.samples.map(\.statistic)

    /// The sample of one second: the increase of counters, the current value of others.
    static func sample(
        _ now: BucketStatistics,
        since earlier: BucketStatistics,
        seconds: Float
    ) -> [Float] {
        var sample = allCases.map { statistic -> Float in
            let (new, old) = (now[statistic], earlier[statistic])
            guard statistic.kind == .counter else { return Float(new) }
            // A counter that decreased was reset: the bucket was reopened.
            return Float(new >= old ? new - old : new) / seconds
        }
        sample[.hitRatio] = hitRatio(of: sample)
        sample[.residentPercent] = Float(now.residentPercent)
        return sample
    }

    /// The sum of several nodes' samples of one second.
    static func sum(_ samples: [[Float]]) -> [Float] {
        var sum = allCases.map { statistic -> Float in
            let values = samples.map { $0[statistic] }
            return statistic.unit == .milliseconds
                ? values.max() ?? 0 : values.reduce(0, +)
        }
        let (items, ejected) = (sum[.items], sum[.nonResidentItems])
        sum[.hitRatio] = hitRatio(of: sum)
        sum[.residentPercent] = items == 0 ? 100 : 100 * (items - ejected) / items
        return sum
    }

    private static func hitRatio(of sample: [Float]) -> Float {
        let gets = sample[.getHits] + sample[.getMisses]
        return gets == 0 ? 0 : 100 * sample[.getHits] / gets
    }
}

extension [Float] {
    /// A sampled statistic's value in a sample; 0 if it is not sampled.
    subscript(statistic: Statistic) -> Float {
        get { SampledStatistic.allCases.firstIndex(of: statistic).map { self[$0] } ?? 0 }
        set {
            guard let index = SampledStatistic.allCases.firstIndex(of: statistic) else { return }
            self[index] = newValue
        }
    }
}
