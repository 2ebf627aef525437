internal import Bytes
internal import Replication
package import Seams
package import Vocabulary

/// What the data service needs of connections between nodes: whoever has them introduces himself.
package protocol ChangeLinks: Sendable {
    /// Opens a connection to the change streams of `node` (its `acceptChanges`).
    ///
    /// - Parameters:
    ///   - node: Which one.
    ///   - connected: Called on the connection's reactor.
    ///   - failed: Called from some lane where there is none to be had.
    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable () -> Void
    )
}

/// The connection on which one other node's vBuckets are followed: kept up while something is
/// wanted, opened anew when it is lost, after a pause that grows.
final class ReplicationLink: Sendable {
    private struct State {
        var wanted: [String: ReplicationTopology.Feed] = [:]
        var consumer: Letters<ReplicationConsumer.Letter>?
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

    /// Wants this from here on; nothing closes the connection.
    func want(_ feeds: [String: ReplicationTopology.Feed]) {
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
                    state.consumer = consumer.letters
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

    /// The connection is gone.
    func lost(_ consumer: Letters<ReplicationConsumer.Letter>) {
        state.withLock { state in
            guard state.consumer === consumer else { return }
            state.consumer = nil
            state.port = nil
        }
        connectLater()
    }

    /// A stream runs: the next loss is a first one.
    func works() { state.withLock { $0.failures = 0 } }

    private func connectLater() {
        let failures = state.withLock { state in
            state.failures += 1
            return state.failures
        }
        let pause = ReplicationLink.pauseNanoseconds << UInt64(min(failures - 1, 5))
        service.lanes.nonIO.lane.post(after: pause) { [weak self] in self?.connect() }
    }
}

/// All connections of this node's copies to those they follow.
final class ReplicationLinks: Sendable {
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
        for (link, feeds) in work { link.want(feeds) }
    }

    func stop() {
        for link in state.withLock({ Array($0.links.values) }) { link.stop() }
    }
}
