internal import ClusterService

/// The tokens of nodes without a cluster, as an operator reads them from the machines' files.
struct SimulatedTokens: @unchecked Sendable {  // tidy:allow one thread
    private weak let cluster: SimulatedCluster?

    init(_ cluster: SimulatedCluster) {
        self.cluster = cluster
    }

    /// The token with which the node of a name can be added now.
    subscript(name: String) -> String {
        let node = cluster?.nodes.first { $0.name == name }
        return node?.service?.cluster.initToken.text ?? ""
    }
}

extension SimulatedCluster {
    var tokens: SimulatedTokens { SimulatedTokens(self) }
}
