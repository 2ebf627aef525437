/// Counts latencies in buckets that grow with them: 64 to each doubling, so off by 1.6 % at most.
struct LatencyHistogram {
    private var counts = [UInt64](repeating: 0, count: 64 * 40)
    private(set) var count: UInt64 = 0
    private(set) var maximum: UInt64 = 0

    mutating func record(_ nanoseconds: UInt64) {
        counts[min(LatencyHistogram.index(nanoseconds), counts.count - 1)] += 1
        count += 1
        maximum = max(maximum, nanoseconds)
    }

    mutating func add(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        count += other.count
        maximum = max(maximum, other.maximum)
    }

    /// The latency that `fraction` of all stay below.
    func percentile(_ fraction: Double) -> UInt64 {
        let wanted = UInt64((Double(count) * fraction).rounded(.up))
        var seen: UInt64 = 0
        for (index, count) in counts.enumerated() where count > 0 {
            seen += count
            if seen >= wanted { return min(LatencyHistogram.upperEnd(index), maximum) }
        }
        return maximum
    }

    private static func index(_ value: UInt64) -> Int {
        guard value >= 128 else { return Int(value) }
        let doublings = 63 - value.leadingZeroBitCount - 6
        return doublings * 64 + Int(value >> UInt64(doublings))
    }

    private static func upperEnd(_ index: Int) -> UInt64 {
        guard index >= 128 else { return UInt64(index) }
        let doublings = index / 64 - 1
        return (UInt64(index - doublings * 64 + 1) << UInt64(doublings)) - 1
    }
}
