internal import Vocabulary

/// A bucket's past on several nodes as one: what is counted is added up, shares are of the whole, and
/// the oldest is the oldest of all.
extension StatisticsSampler.Series {
    /// - Parameter series: Those of the nodes; samples are laid beside each other from the newest back,
    ///   and before its first sample a node did nothing.
    /// - Returns: As many samples as the longest has; nil of none.
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

extension SampledStatistic {
    static func sum(_ samples: [SIMD32<Float>]) -> SIMD32<Float> {
        var sum = samples.reduce(.zero, +)
        let oldest = SampledStatistic.oldestUnpersisted.rawValue
        sum[oldest] = samples.map { $0[oldest] }.max() ?? 0
        let hits = sum[SampledStatistic.getHits.rawValue]
        let gets = hits + sum[SampledStatistic.getMisses.rawValue]
        sum[SampledStatistic.hitRatio.rawValue] = gets == 0 ? 0 : 100 * hits / gets
        let items = sum[SampledStatistic.items.rawValue]
        let ejected = sum[SampledStatistic.nonResidentItems.rawValue]
        sum[SampledStatistic.residentPercent.rawValue] =
            items == 0 ? 100 : 100 * (items - ejected) / items
        return sum
    }
}
