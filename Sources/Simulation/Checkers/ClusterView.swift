internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import Vocabulary

/// The nodes of a state and their open buckets at one instant.
///
/// Collected once for each inspection, since looking up every copy by names took most of its time.
struct ClusterView {
    /// One node's copies of one bucket.
    struct Copies {
        let node: NodeNumber
        let bucket: OpenBucket
        private let all: [VBucket]

        fileprivate init(_ node: NodeNumber, _ bucket: OpenBucket) {
            self.node = node
            self.bucket = bucket
            all = bucket.engine.all
        }

        subscript(number: Int) -> VBucket? { number < all.count ? all[number] : nil }
    }

    let state: ClusterState
    private var nodes: [(number: NodeNumber, node: SimulatedNode)] = []

    init(_ cluster: SimulatedCluster, _ state: ClusterState) {
        self.state = state
        for record in state.nodes {
            guard let node = cluster.nodes.first(where: { $0.address == record.host }) else {
                continue
            }
            nodes.append((record.number, node))
        }
    }

    func node(_ number: NodeNumber) -> SimulatedNode? {
        nodes.first { $0.number == number }?.node
    }

    /// The copies of a bucket on all running nodes that have it.
    func copies(of name: String) -> [Copies] {
        nodes.compactMap { number, node in
            node.node?.data.bucket(named: name).map { Copies(number, $0) }
        }
    }
}

extension [ClusterView.Copies] {
    func on(_ node: NodeNumber) -> ClusterView.Copies? { first { $0.node == node } }
}
