internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform

/// A rebalance removes the leader, which must transfer leadership first.
extension Story {
    /// The preferred successor crashes when all copies are moved.
    ///
    /// The other node must lead then; the leader's removal is committed after the successor's
    /// restart, since both of two voters are needed.
    func leaveWithoutTheSuccessor(_ leader: SimulatedNode, _ others: [SimulatedNode]) -> String? {
        let address = leader.address
        let numbers = others.compactMap { number(of: $0) }
        guard let own = number(of: leader), numbers.count == 2 else {
            return "the nodes have no numbers"
        }
        let (successor, second) =
            numbers[0] < numbers[1] ? (others[0], others[1]) : (others[1], others[0])
        cluster.submit(leader, "out \(address)") { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return try await service.membership.rebalance(
                known: known,
                ejected: [name],
                by: SimulatedCluster.user
            )
        }
        let isMoved = cluster.world.run(for: 60 * Story.second) {
            guard let state = leader.service?.state, state.rebalance != nil else { return false }
            return state.buckets.allSatisfy { bucket in
                bucket.placements.allSatisfy { placement in
                    !placement.isJoint && placement.former == nil
                        && !placement.chain.nodes.contains(own)
                }
            }
        }
        guard isMoved else { return "the leader's copies are not moved" }
        halt(successor) { $0.crash(isPower: false) }
        let isLed = cluster.waitUntil(seconds: 20) { [cluster] in cluster.leader === second }
        guard isLed else { return "the remaining node does not lead" }
        guard membership(of: leader, at: second) == .active,
            second.service?.state.rebalance != nil
        else { return "the leader was removed too early" }
        successor.isWanted = true
        successor.start()
        let isOver = cluster.waitUntil(seconds: 60) {
            second.service?.state.lastRebalance?.ending == .completed
                && leader.service?.state.isProvisioned == false
        }
        guard isOver else { return "the leader was not removed" }
        return second.service?.state.rebalance == nil ? nil : "the rebalance does not end"
    }
}
