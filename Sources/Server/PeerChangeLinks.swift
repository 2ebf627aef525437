internal import ClusterService
internal import DataService
internal import Seams
internal import Vocabulary
internal import Wire

/// Implements the data service's port `ChangeLinks` by connections of the cluster's transport.
struct PeerChangeLinks: ChangeLinks {
    private let transport: PeerTransport

    init(_ transport: PeerTransport) {
        self.transport = transport
    }

    /// Registers the data service as the server of change streams for other nodes.
    func serve(_ data: DocumentService) {
        transport.register(.changes) { [weak data] port in
            data?.acceptChanges(from: port.identity.node, port: port) ?? ClosedHandler(port)
        }
    }

    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable () -> Void
    ) {
        transport.open(.changes, to: node, connected: { connected($0) }, failed: { _ in failed() })
    }
}
