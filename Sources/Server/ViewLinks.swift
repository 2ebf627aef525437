internal import ClusterService
internal import Seams
internal import ViewService
internal import Vocabulary
internal import Wire

/// Implements the view service's port `QueryConnections` by connections of the cluster's transport.
struct ViewLinks: QueryConnections {
    private let transport: PeerTransport

    init(_ transport: PeerTransport) {
        self.transport = transport
    }

    /// Registers what answers queries of other nodes.
    func serve(_ acceptor: QueryAcceptor) {
        transport.register(.views) { [weak acceptor] port in
            acceptor?.accept(from: port.identity.node, port: port) ?? ClosedHandler(port)
        }
    }

    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        transport.open(
            .views,
            to: node,
            connected: { connected($0) },
            failed: { failed($0.description) }
        )
    }
}
