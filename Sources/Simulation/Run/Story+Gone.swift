internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Processes that end while the kernels of their machines go on and refuse connections.
extension Story {
    /// A process that returns in time stays a member; one that does not is failed over long before the timeout.
    func endProcess(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        for milliseconds: UInt64 in [300, 900] {
            halt(node) { $0.crash(isPower: false) }
            cluster.world.run(for: milliseconds * 1_000_000)
            node.isWanted = true
            node.start()
            cluster.world.run(for: 3 * Story.second)
            guard membership(of: node, at: leader) == .active else {
                return "a process that returned after \(milliseconds) ms was failed over"
            }
        }
        halt(node) { $0.crash(isPower: false) }
        cluster.world.run(for: 3 * Story.second / 2)
        guard membership(of: node, at: leader) == .inactiveFailed else {
            return "a process that is gone was not failed over"
        }
        node.isWanted = true
        node.start()
        let knows = cluster.waitUntil(seconds: 5) { [self] in
            membership(of: node, at: node) == .inactiveFailed
        }
        return knows ? nil : "the process that returned did not learn of its failover"
    }

    /// The kernel of a machine refuses the connections of the leader only: the silence has the whole timeout.
    func refuseOne(
        _ leader: SimulatedNode,
        _ node: SimulatedNode,
        other: SimulatedNode
    ) -> String? {
        cluster.world.apply(.oneWay(from: other.address, to: node.address))
        halt(node) { $0.crash(isPower: false) }
        cluster.world.run(for: 4 * Story.second)
        guard membership(of: node, at: leader) == .active else {
            return "a node was failed over by the refusals that one node received"
        }
        let isFailedOver = cluster.waitUntil(seconds: 3) { [self] in
            membership(of: node, at: leader) == .inactiveFailed
        }
        return isFailedOver ? nil : "a silent node was not failed over"
    }
}
