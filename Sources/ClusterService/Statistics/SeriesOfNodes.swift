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
