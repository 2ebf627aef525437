internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import Vocabulary

/// The machines of the nodes that a state names, and what they have of its buckets, at one instant.
///
/// Found once a look: to look up each copy of each vBucket by names took most of a look's time.
struct Sight {
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

    /// Those of all nodes that run and have the bucket.
    func copies(of name: String) -> [Copies] {
        nodes.compactMap { number, node in
            node.node?.data.bucket(named: name).map { Copies(number, $0) }
        }
    }
}

extension [Sight.Copies] {
    func on(_ node: NodeNumber) -> Sight.Copies? { first { $0.node == node } }
}
