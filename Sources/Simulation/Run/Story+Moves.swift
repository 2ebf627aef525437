internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// A node crashes after the takeover of a vBucket that it handed over is committed, before it
/// learns of that.
extension Story {
    /// The node restarts connected to other nodes but not to the leader: the other nodes promise it
    /// a lease, and by its map it would serve vBuckets that another node serves.
    func restartHandedOver(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let (world, address) = (cluster.world, node.address)
        // Slow enough that it has not persisted the progress of its moves.
        world.apply(.diskSlow(address, nanoseconds: 30_000_000))
        cluster.submit(leader, "out \(address)") { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return try await service.membership.rebalance(
                known: known,
                ejected: [name],
                by: SimulatedCluster.user
            )
        }
        let isHandedOver = world.run(for: 60 * Story.second) { [self] in
            !missed(by: node, of: leader).isEmpty
        }
        let taken = missed(by: node, of: leader)
        guard isHandedOver, !taken.isEmpty else { return "the node knows of every hand-over" }
        halt(node) { $0.crash(isPower: true) }
        world.apply(.oneWay(from: leader.address, to: address))
        world.apply(.diskSlow(address, nanoseconds: 0))
        node.isWanted = true
        node.start()
        // If the node served now, it would acknowledge writes at the same time as its successor.
        world.run(for: 3 * Story.second)
        guard taken == missed(by: node, of: leader) else { return "the node learned of it" }
        world.apply(.healNetwork)
        let isWell = cluster.waitUntil(seconds: 60) { [self] in
            Convergence(cluster: cluster).mapFlaws().isEmpty
        }
        return isWell ? nil : "the nodes do not converge"
    }

    /// The vBuckets that the node serves by its own map and another node by the leader's, as bucket
    /// and number.
    private func missed(by node: SimulatedNode, of leader: SimulatedNode) -> Set<String> {
        guard let known = node.service?.state, let state = leader.service?.state,
            let number = known.nodes.first(where: { $0.host == node.address })?.number
        else { return [] }
        var taken: Set<String> = []
        for bucket in state.buckets {
            let name = bucket.settings.name
            guard let before = known.bucket(named: name) else { continue }
            for (place, placement) in bucket.placements.enumerated()
            where before.placements[place].chain.first == number && placement.isConfirmed
                && placement.chain.first != number
            {
                taken.insert("\(name) \(place)")
            }
        }
        return taken
    }
}
