internal import Bytes
internal import Orchestration
internal import Seams
package import Vocabulary

/// Events of all nodes: each node keeps its own events, and sends them on request.
extension StatisticsService {
    private static var eventsTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// The latest events of all nodes that answer; those of other nodes are missing.
    ///
    /// A change that each node has written is returned once, as this node has written it. If another
    /// node tells it differently, both are returned.
    ///
    /// - Parameters:
    ///   - sinceMilliseconds: No older events, by the clocks of the nodes.
    ///   - countMax: The most events to return.
    /// - Returns: The newest events of all nodes that answer, oldest first.
    package func events(
        sinceMilliseconds: UInt64,
        countMax: Int
    ) async -> [(node: NodeNumber, entry: EventLog.Entry)] {
        let call = EventsCall(sinceMilliseconds: sinceMilliseconds, countMax: countMax)
        var found = cluster.events.newest(call.countMax, sinceMilliseconds: call.sinceMilliseconds)
            .map { (node: cluster.thisNode, entry: $0) }
        for other in cluster.state.nodes.map(\.number)
        where other != cluster.thisNode && !cluster.isSilent(other) {
            let answer: EventsAnswer? = await cluster.calls.ask(
                PeerKind.events,
                call,
                to: other,
                timeoutNanoseconds: Self.eventsTimeoutNanoseconds
            )
            found += (answer?.entries ?? []).map { (other, $0) }
        }
        var told: Set<EventLog.Change> = []
        found.removeAll { $0.entry.change.map { !told.insert($0).inserted } ?? false }
        // Events of the same millisecond keep their node's order.
        let sorted = found.enumerated().sorted { one, other in
            (one.element.entry.milliseconds, one.offset)
                < (other.element.entry.milliseconds, other.offset)
        }
        return sorted.suffix(countMax).map(\.element)
    }

    /// Writes an error that a client reports to this node's log, unless there were too many in this
    /// minute; the number of those is logged at its end.
    ///
    /// It is not an event: clients must not displace the events that are kept.
    ///
    /// - Returns: Nil if it was written, else the seconds after which another one would be.
    package func logClientError(_ text: String) -> UInt64? {
        let now = cluster.monotonicNanoseconds
        switch cluster.events.clientReports.withLock({ $0.admit(now: now) }) {
        case .write:
            cluster.environment.trace.warning("client", text)
            return nil
        case .drop(let rest, let isFirst):
            if isFirst {
                cluster.lane.post(after: rest) { [weak self] in self?.logDroppedClientErrors() }
            }
            return (rest + 999_999_999) / 1_000_000_000
        }
    }

    private func logDroppedClientErrors() {
        let count = cluster.events.clientReports.withLock { $0.removeDropped() }
        let limit = ClientReportBudget.reportsPerMinute
        cluster.environment.trace.warning(
            "client",
            "Errors that user interfaces report: \(count) dropped, because only \(limit) are "
                + "logged in a minute. Look for a page or a tool that fails in a loop."
        )
    }

    func handleEvents() {
        cluster.calls.handleCalls(PeerKind.events) { [weak self] _, bytes, answer in
            guard let self, let call = EventsCall(message: bytes) else { return answer([]) }
            answer(
                EventsAnswer(
                    entries: cluster.events.newest(
                        call.countMax,
                        sinceMilliseconds: call.sinceMilliseconds
                    )
                ).encoded
            )
        }
    }

    // MARK: Past statistics

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
