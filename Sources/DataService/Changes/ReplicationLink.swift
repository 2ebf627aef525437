internal import Bytes
internal import Replication
internal import Seams
internal import Vocabulary

/// The stream of changes on which one other node's vBuckets are followed.
///
/// It stays open while feeds are wanted, and is reopened after a loss with a growing delay.
final class ReplicationLink: Sendable {
    private struct State {
        var wanted: [String: ReplicationTopology.Feed] = [:]
        var stream: (events: EventQueue<ReplicationConsumer.Event>, port: any StreamPort)?
        var isOpening = false
        var failures = 0
        var isStopped = false
    }

    let source: NodeNumber
    private let service: DocumentService
    private let streams: any NodeStreams
    private let state = Guarded(State())

    private static let pauseNanoseconds: UInt64 = 50_000_000

    init(_ source: NodeNumber, _ streams: any NodeStreams, service: DocumentService) {
        self.source = source
        self.streams = streams
        self.service = service
    }

    var wanted: [String: ReplicationTopology.Feed] { state.withLock { $0.wanted } }

    /// Sets the wanted feeds; an empty set ends the stream.
    func setWanted(_ feeds: [String: ReplicationTopology.Feed]) {
        let stream = state.withLock { state in
            state.wanted = state.isStopped ? [:] : feeds
            return state.stream
        }
        guard let stream else { return open() }
        if feeds.isEmpty { stream.port.end(nil) } else { stream.events.put(.wanted) }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        setWanted([:])
    }

    private func open() {
        let isDue = state.withLock { state in
            guard !state.isOpening, state.stream == nil, !state.wanted.isEmpty else { return false }
            state.isOpening = true
            return true
        }
        guard isDue else { return }
        streams.open(
            .copies,
            to: source,
            request: [],
            opened: { [self] port in
                let consumer = ReplicationConsumer(self, port: port, service: service)
                let isWanted = state.withLock { state in
                    state.isOpening = false
                    state.stream = (consumer.events, port)
                    return !state.wanted.isEmpty
                }
                if !isWanted { port.end(nil) }
                return consumer
            },
            failed: { [self] _ in handleLoss(nil) }
        )
    }

    /// Opens the stream again later: it is over, or could not be opened.
    func handleLoss(_ reason: String?) {
        if let reason {
            service.environment.trace.info(
                "replication",
                "The stream of changes from node \(source) ended: \(reason)."
            )
        }
        let failures = state.withLock { state in
            (state.stream, state.isOpening) = (nil, false)
            state.failures += 1
            return state.failures
        }
        let pause = ReplicationLink.pauseNanoseconds << UInt64(min(failures - 1, 5))
        service.lanes.nonIO.lane.post(after: pause) { [weak self] in self?.open() }
    }

    /// Resets the delay: a vBucket's stream works.
    func resetFailures() { state.withLock { $0.failures = 0 } }
}

/// The streams from this node's replicas to the nodes of their active copies.
final class ReplicationLinkTable: Sendable {
    private struct State {
        var topology = ReplicationTopology()
        var links: [NodeNumber: ReplicationLink] = [:]
    }

    private let streams: any NodeStreams
    private let service: DocumentService
    private let state = Guarded(State())

    init(_ streams: any NodeStreams, service: DocumentService) {
        self.streams = streams
        self.service = service
    }

    func applyMap(_ assignment: BucketAssignment, own: NodeNumber) {
        apply { $0.update(assignment, own: own) }
    }

    func forget(bucket uuid: String) {
        apply { $0.remove(bucket: uuid) }
    }

    private func apply(_ change: (inout ReplicationTopology) -> Set<NodeNumber>) {
        let work = state.withLock { state in
            change(&state.topology).map { node in
                let feeds = state.topology.feeds[node] ?? [:]
                let link = state.links[node] ?? ReplicationLink(node, streams, service: service)
                state.links[node] = link
                return (link, feeds)
            }
        }
        for (link, feeds) in work { link.setWanted(feeds) }
    }

    func stop() {
        for link in state.withLock({ Array($0.links.values) }) { link.stop() }
    }
}
