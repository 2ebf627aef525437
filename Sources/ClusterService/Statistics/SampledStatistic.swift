package import Vocabulary

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
