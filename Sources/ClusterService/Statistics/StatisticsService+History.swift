internal import Bytes
package import Vocabulary

/// Past statistics of buckets on any node: each node keeps its own samples, and sends them on
/// request.
extension StatisticsService {
    private static var historyTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// - Returns: A node's samples of a bucket; nil if it has none, or does not answer.
    package func series(
        ofBucket name: String,
        _ zoom: StatisticsSampler.Zoom,
        of node: NodeNumber
    ) async -> StatisticsSampler.Series? {
        if node == cluster.thisNode { return sampler.series(ofBucket: name, zoom) }
        guard !cluster.isSilent(node) else { return nil }
        return await cluster.calls.ask(
            PeerKind.history,
            HistoryCall(bucket: name, zoom: zoom),
            to: node,
            timeoutNanoseconds: Self.historyTimeoutNanoseconds
        )
    }

    /// - Returns: The combined samples of several nodes; nil if none of them has any.
    package func series(
        ofBucket name: String,
        _ zoom: StatisticsSampler.Zoom,
        of nodes: [NodeNumber]
    ) async -> StatisticsSampler.Series? {
        var found: [StatisticsSampler.Series] = []
        for node in nodes {
            if let series = await series(ofBucket: name, zoom, of: node) { found.append(series) }
        }
        return StatisticsSampler.Series.sum(found)
    }

    func handleHistories() {
        cluster.calls.handleCalls(PeerKind.history) { [weak self] _, bytes, answer in
            guard let self, let call = HistoryCall(message: bytes),
                let series = sampler.series(ofBucket: call.bucket, call.zoom)
            else { return answer([]) }
            answer(series.encoded)
        }
    }
}
