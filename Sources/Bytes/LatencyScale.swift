/// The buckets of all latencies: 16 for each power of two, from 64 ns to 69 s.
///
/// A bucket is at most a 16th as wide as its lower bound, so its middle is at most 3.2 % from each
/// latency in it. Below 1,024 ns a bucket has 64 ns.
///
/// - The last bucket also has everything longer.
@usableFromInline
package enum LatencyScale {
    /// Latencies are counted in units of 64 ns.
    @inlinable static var unitBits: UInt64 { 6 }
    @inlinable static var partBits: UInt64 { 4 }
    /// The number of buckets: 32 for less than 32 units, then 16 for each power of two up to 2^30.
    @inlinable package static var count: Int { 27 << 4 }

    /// The bucket of a latency in nanoseconds.
    @inlinable @inline(__always)
    package static func index(of nanoseconds: UInt64) -> Int {
        let units = nanoseconds &>> unitBits
        guard units >= 16 else { return Int(truncatingIfNeeded: units) }
        guard units < 1 << 30 else { return count - 1 }
        let octave = 59 &- UInt64(truncatingIfNeeded: units.leadingZeroBitCount)
        return Int(truncatingIfNeeded: octave &<< partBits &+ units &>> octave)
    }

    /// The least latency of a bucket in nanoseconds; `index` may be `count`, for the end of the last
    /// one.
    package static func lowerBound(of index: Int) -> UInt64 {
        let index = UInt64(index)
        guard index >= 32 else { return index << unitBits }
        let octave = index >> partBits - 1
        return (index - octave << partBits) << (octave + unitBits)
    }

    /// The middle of a bucket in nanoseconds.
    package static func middle(of index: Int) -> UInt64 {
        (lowerBound(of: index) + lowerBound(of: index + 1)) / 2
    }
}

/// How often each latency occurred, by the buckets of `LatencyScale`.
package struct LatencyHistogram: Hashable, Sendable {
    /// By bucket.
    private var counts = [UInt64](repeating: 0, count: LatencyScale.count)
    /// The sum of all latencies in nanoseconds.
    package private(set) var sumNanoseconds: UInt64 = 0

    package init() {}

    /// Adds `times` latencies of a bucket.
    mutating func add(_ times: UInt64, toBucket index: Int) { counts[index] &+= times }

    mutating func add(sumNanoseconds: UInt64) { self.sumNanoseconds &+= sumNanoseconds }

    package mutating func record(_ nanoseconds: UInt64, times: UInt64 = 1) {
        counts[LatencyScale.index(of: nanoseconds)] &+= times
        sumNanoseconds &+= nanoseconds &* times
    }

    package mutating func merge(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
        sumNanoseconds &+= other.sumNanoseconds
    }

    /// The number of latencies.
    package var count: UInt64 { counts.reduce(0, &+) }

    package var isEmpty: Bool { counts.allSatisfy { $0 == 0 } }

    /// The number of latencies below a bound in nanoseconds, which is exact if a bucket begins there: at
    /// each power of two.
    package func count(below nanoseconds: UInt64) -> UInt64 {
        counts[..<LatencyScale.index(of: nanoseconds)].reduce(0, &+)
    }

    /// The latency in nanoseconds that a share of all latencies, from 0 to 1, does not exceed: the middle
    /// of its bucket.
    ///
    /// - Returns: Nil if there is no latency.
    package func quantile(_ share: Double) -> UInt64? {
        let count = count
        guard count > 0 else { return nil }
        let rank = max(1, UInt64((share * Double(count)).rounded(.up)))
        var sum: UInt64 = 0
        for index in counts.indices {
            sum &+= counts[index]
            if sum >= rank { return LatencyScale.middle(of: index) }
        }
        return LatencyScale.middle(of: LatencyScale.count - 1)
    }
}
