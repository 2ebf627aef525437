internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Requests to another node's admin port before it joins: the replies that HTTP would carry, made
/// from the other node's administration service.
struct SimulatedProbe: NodeProbe, @unchecked Sendable {  // tidy:allow one thread
    private weak let cluster: SimulatedCluster?
    private let from: String

    init(_ cluster: SimulatedCluster, from: String) {
        self.cluster = cluster
        self.from = from
    }

    func ask(_ request: ProbeRequest) async -> ProbeAnswer {
        // The round trip; a process that ends meanwhile never receives the reply.
        await withUnsafeContinuation { waiter in
            cluster?.world.after(1_500_000) { waiter.resume() }
        }
        let other = cluster?.nodes.first { $0.address == request.host }
        guard let other, !other.host.isFrozen, other.isServing, let service = other.service else {
            return .unreachable("connection refused")
        }
        switch request.path {
        case "/pools":
            let pools = service.state.isProvisioned ? #"[{"name":"default"}]"# : "[]"
            return answered(#"{"divanVersion":"\#(Release.version)","pools":\#(pools)}"#)
        case "/nodes/self/peer":
            let port = service.state.node(number: service.thisNode)?.ports.peer ?? 0
            return port == 0
                ? .answered(status: 503, body: [], localHost: from)
                : answered(#"{"port":\#(port)}"#)
        default: return .answered(status: 404, body: [], localHost: from)
        }
    }

    private func answered(_ json: String) -> ProbeAnswer {
        .answered(status: 200, body: Array(json.utf8), localHost: from)
    }
}
