import Bytes
import Foundation
import Testing

/// Histograms of latencies against exact counts.
@Suite struct LatencyTests {
    /// Latencies of all sizes: each power of two is about as frequent as another.
    private func samples(_ count: Int, seed: UInt64) -> [UInt64] {
        var random = SeededRandom(seed: seed)
        return (0..<count).map { _ in random.next() >> (28 + random.next() % 30) }
    }

    @Test func latencyIsWithinBoundsOfItsBucket() {
        let edges = (0..<36).flatMap { power in
            let bound = UInt64(1) << UInt64(power)
            return [bound - 1, bound, bound + 1, bound + bound / 3]
        }
        for latency in edges + samples(20_000, seed: 1) {
            let index = LatencyScale.index(of: latency)
            let (lower, upper) = (
                LatencyScale.lowerBound(of: index), LatencyScale.lowerBound(of: index + 1)
            )
            #expect(lower <= latency && latency < upper, "\(latency): \(lower)..<\(upper)")
            #expect(upper - lower == 64 || (upper - lower) * 16 <= lower, "\(latency)")
        }
    }

    @Test func bucketsFollowEachOtherWithoutGap() {
        for index in 0..<LatencyScale.count {
            #expect(LatencyScale.index(of: LatencyScale.lowerBound(of: index)) == index)
            #expect(LatencyScale.index(of: LatencyScale.lowerBound(of: index + 1) - 1) == index)
        }
        #expect(LatencyScale.lowerBound(of: LatencyScale.count) == 1 << 36)
        #expect(LatencyScale.index(of: .max) == LatencyScale.count - 1)
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func quantileDiffersFromExactOneByAtMostHalfABucket(_ seed: UInt64) throws {
        let samples = samples(1 + Int(seed * seed * 7), seed: seed).map { $0 | 2_048 }.sorted()
        var histogram = LatencyHistogram()
        for sample in samples { histogram.record(sample) }
        #expect(histogram.count == UInt64(samples.count))
        #expect(histogram.sumNanoseconds == samples.reduce(0, +))
        for share in [0.01, 0.5, 0.9, 0.99, 0.999, 1] {
            let rank = max(1, Int((share * Double(samples.count)).rounded(.up)))
            let exact = Double(samples[rank - 1])
            let found = Double(try #require(histogram.quantile(share)))
            #expect(abs(found - exact) <= exact / 32 + 1, "seed \(seed): \(found), not \(exact)")
        }
    }

    @Test func mergedHistogramEqualsThatOfAllLatencies() {
        let (one, other) = (samples(1_000, seed: 5), samples(500, seed: 6))
        var (merged, second, all) = (LatencyHistogram(), LatencyHistogram(), LatencyHistogram())
        for sample in one { merged.record(sample) }
        for sample in other { second.record(sample, times: 3) }
        for sample in one + other + other + other { all.record(sample) }
        merged.merge(second)
        #expect(merged == all)
    }

    @Test func countBelowPowerOfTwoIsExact() {
        let samples = samples(5_000, seed: 7)
        var histogram = LatencyHistogram()
        for sample in samples { histogram.record(sample) }
        for power in 6..<36 {
            let bound = UInt64(1) << UInt64(power)
            #expect(histogram.count(below: bound) == UInt64(samples.count { $0 < bound }))
        }
        #expect(LatencyHistogram().quantile(0.5) == nil)
    }

    @Test func tableHasLatenciesOfAllLanes() {
        let table = LatencyTable(rows: 3, kinds: 2)
        #expect(table.histogram(0) == nil)
        let each = 20_000
        DispatchQueue.concurrentPerform(iterations: 4) { lane in
            for number in 0..<each {
                let nanoseconds = UInt64(number) * 100
                if lane < 2 {
                    table.row(lane).record(1, nanoseconds: nanoseconds)
                } else {
                    table.recordShared(1, nanoseconds: nanoseconds)
                }
            }
        }
        #expect(table.histogram(0) == nil)
        #expect(table.histogram(1)?.count == UInt64(4 * each))
        let sum = (0..<UInt64(each)).reduce(0) { $0 + $1 * 100 }
        #expect(table.histogram(1)?.sumNanoseconds == 4 * sum)
    }
}
