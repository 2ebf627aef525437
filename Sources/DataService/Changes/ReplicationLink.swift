internal import Bytes
internal import Replication
package import Seams
package import Vocabulary

/// Opens connections to other nodes for the data service; implemented by the cluster service.
package protocol ChangeLinks: Sendable {
    /// Opens a connection to the change streams of `node` (its `acceptChanges`).
    ///
    /// - Parameters:
    ///   - node: The node to connect to.
    ///   - connected: Called on the connection's reactor.
    ///   - failed: Called from any lane if no connection can be opened.
    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable () -> Void
    )
}

/// The connection on which one other node's vBuckets are followed.
///
/// It stays open while feeds are wanted, and is reopened after a loss with a growing delay.
final class ReplicationLink: Sendable {
    private struct State {
        var wanted: [String: ReplicationTopology.Feed] = [:]
        var consumer: EventQueue<ReplicationConsumer.Event>?
        var port: (any ConnectionPort)?
        var isConnecting = false
        var failures = 0
        var isStopped = false
    }

    let source: NodeNumber
    private let service: DocumentService
    private let links: any ChangeLinks
    private let state = Guarded(State())

    private static let pauseNanoseconds: UInt64 = 50_000_000

    init(_ source: NodeNumber, _ links: any ChangeLinks, service: DocumentService) {
        self.source = source
        self.links = links
        self.service = service
    }

    var wanted: [String: ReplicationTopology.Feed] { state.withLock { $0.wanted } }

    /// Sets the wanted feeds; an empty set closes the connection.
    func setWanted(_ feeds: [String: ReplicationTopology.Feed]) {
        let (consumer, port) = state.withLock { state in
            state.wanted = feeds
            return (state.consumer, state.port)
        }
        if feeds.isEmpty {
            port?.close()
        } else if let consumer {
            consumer.put(.wanted)
        } else {
            connect()
        }
    }

    func stop() {
        let port = state.withLock { state in
            state.isStopped = true
            state.wanted = [:]
            return state.port
        }
        port?.close()
    }

    private func connect() {
        let isDue = state.withLock { state in
            guard !state.isConnecting, state.consumer == nil, !state.isStopped,
                !state.wanted.isEmpty
            else { return false }
            state.isConnecting = true
            return true
        }
        guard isDue else { return }
        links.connect(
            to: source,
            connected: { [self] port in
                let consumer = ReplicationConsumer(self, port: port, service: service)
                let isWanted = state.withLock { state in
                    state.isConnecting = false
                    state.consumer = consumer.events
                    state.port = port
                    return !state.isStopped
                }
                if !isWanted { port.close() }
                return consumer
            },
            failed: { [self] in
                state.withLock { $0.isConnecting = false }
                connectLater()
            }
        )
    }

    /// Records that the connection was lost, and reconnects later.
    func handleLoss(of consumer: EventQueue<ReplicationConsumer.Event>) {
        state.withLock { state in
            guard state.consumer === consumer else { return }
            state.consumer = nil
            state.port = nil
        }
        connectLater()
    }

    /// Resets the delay of reconnects: a stream works.
    func noteStreamStarted() { state.withLock { $0.failures = 0 } }

    private func connectLater() {
        let failures = state.withLock { state in
            state.failures += 1
            return state.failures
        }
        let pause = ReplicationLink.pauseNanoseconds << UInt64(min(failures - 1, 5))
        service.lanes.nonIO.lane.post(after: pause) { [weak self] in self?.connect() }
    }
}

/// The connections from this node's replicas to the nodes of their active copies.
final class ReplicationLinkTable: Sendable {
    private struct State {
        var topology = ReplicationTopology()
        var links: [NodeNumber: ReplicationLink] = [:]
    }

    private let links: any ChangeLinks
    private let service: DocumentService
    private let state = Guarded(State())

    init(_ links: any ChangeLinks, service: DocumentService) {
        self.links = links
        self.service = service
    }

    func follow(_ assignment: BucketAssignment, own: NodeNumber) {
        apply { $0.update(assignment, own: own) }
    }

    func forget(bucket uuid: String) {
        apply { $0.remove(bucket: uuid) }
    }

    private func apply(_ change: (inout ReplicationTopology) -> Set<NodeNumber>) {
        let work = state.withLock { state in
            change(&state.topology).map { node in
                let feeds = state.topology.feeds[node] ?? [:]
                let link =
                    state.links[node] ?? ReplicationLink(node, links, service: service)
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
