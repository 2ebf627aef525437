internal import Bytes
package import Seams
package import Vocabulary

/// Streams between the nodes of one process: a lane calls all handlers, as a reactor would.
///
/// A node can be reached once it serves a service.
package final class MemoryStreams: Sendable {
    fileprivate typealias Accept = @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?

    fileprivate struct State {
        /// The services of the nodes that run.
        var services: [NodeNumber: [NodeService: Accept]] = [:]
        /// The opening ends of all streams.
        var ports: [(nodes: [NodeNumber], port: any StreamPort)] = []
        var refusals: [NodeNumber: String] = [:]
        /// Nodes that were removed, and serve nothing yet.
        var removed: Set<NodeNumber> = []
    }

    /// The nodes to which streams were to be opened, in order.
    package let opened = Signal<NodeNumber>()
    private let lane: any Lane
    fileprivate let state = Guarded(State())

    /// Streams whose handlers `lane` calls.
    package init(on lane: any Lane) { self.lane = lane }

    /// The streams as a node has them.
    package func streams(of node: NodeNumber) -> any NodeStreams {
        MemoryNodeStreams(node: node, all: self)
    }

    /// Ends the streams of a node, or all streams, as the loss of their connection does.
    package func cut(_ node: NodeNumber? = nil, _ reason: String = "it ended the connection") {
        let ports = state.withLock { state in
            let ending = state.ports.filter { node.map($0.nodes.contains) ?? true }
            state.ports.removeAll { node.map($0.nodes.contains) ?? true }
            return ending.map(\.port)
        }
        for port in ports { port.end(reason) }
    }

    /// Lets no further stream to a node be opened; nil lets them again.
    package func refuse(_ node: NodeNumber, _ reason: String?) {
        state.withLock { $0.refusals[node] = reason }
    }

    /// Ends all streams of a node, and refuses others until the node serves again; then calls `done`,
    /// after the last call of a handler of the node.
    package func remove(_ node: NodeNumber, done: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.services[node] = nil
            state.removed.insert(node)
        }
        // A stream that was opened before is there after one turn of the lane, and over after two.
        lane.post { [self] in
            lane.post { [self] in
                cut(node)
                lane.post(done)
            }
        }
    }

    fileprivate func open(
        _ service: NodeService,
        between nodes: (opening: NodeNumber, accepting: NodeNumber),
        request: [UInt8],
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        self.opened.send(nodes.accepting)
        let (services, refusal) = state.withLock { state in
            let isGone = state.removed.contains(nodes.opening)
            return (isGone ? nil : state.services[nodes.accepting], state.refusals[nodes.accepting])
        }
        if let refusal { return failed(refusal) }
        guard let services else { return failed("there is no node \(nodes.accepting)") }
        LocalStream.open(
            service,
            between: nodes,
            on: lane,
            request: request,
            accept: services[service] ?? { _, _ in nil },
            opened: { [self] port in
                state.withLock { $0.ports.append(([nodes.opening, nodes.accepting], port)) }
                return opened(port)
            }
        )
    }
}

/// The streams of one node.
private struct MemoryNodeStreams: NodeStreams {
    let node: NodeNumber
    let all: MemoryStreams

    func serve(_ service: NodeService, _ accept: @escaping MemoryStreams.Accept) {
        all.state.withLock { state in
            state.services[node, default: [:]][service] = accept
            state.removed.remove(node)
        }
    }

    func open(
        _ service: NodeService,
        to other: NodeNumber,
        request: [UInt8],
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        all.open(
            service,
            between: (node, other),
            request: request,
            opened: opened,
            failed: failed
        )
    }
}
