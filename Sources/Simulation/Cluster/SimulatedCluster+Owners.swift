internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import Vocabulary

extension SimulatedCluster {
    /// The node that serves a vBucket; nil if its promotion is not confirmed, or its copy not active.
    func owner(of number: Int, _ bucket: String) -> SimulatedNode? {
        guard let state = newestState,
            let placement = state.bucket(named: bucket)?.placements[number],
            placement.isConfirmed, let owner = placement.chain.first,
            let host = state.node(number: owner)?.host,
            let node = nodes.first(where: { $0.address == host }),
            let copies = node.node?.data.bucket(named: bucket)?.engine.all,
            copies[number].withCore({ $0.state == .active && $0.isLoaded })
        else { return nil }
        return node
    }
}
