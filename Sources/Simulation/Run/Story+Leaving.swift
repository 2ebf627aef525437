internal import ClusterService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// The leader is to go, and has to have somebody else lead first.
extension Story {
    /// Whoever would come first crashes when all is moved.
    ///
    /// The other one has to lead then; that the leader goes is agreed on once the first is back, as of
    /// two voters both are needed.
    func leaveWithoutTheHeir(_ leader: SimulatedNode, _ others: [SimulatedNode]) -> String? {
        let address = leader.address
        let numbers = others.compactMap { number(of: $0) }
        guard let own = number(of: leader), numbers.count == 2 else {
            return "the nodes have no numbers"
        }
        let (heir, second) =
            numbers[0] < numbers[1] ? (others[0], others[1]) : (others[1], others[0])
        cluster.tell(leader, "out \(address)") { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return "\(await service.rebalance(known: known, ejected: [name]))"
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
        halt(heir) { $0.crash(isPower: false) }
        let isLed = cluster.waitUntil(seconds: 20) { [cluster] in cluster.leader === second }
        guard isLed else { return "nobody leads whom the leader could have asked" }
        guard membership(of: leader, at: second) == .active,
            second.service?.state.rebalance != nil
        else { return "the leader was gone before" }
        heir.isWanted = true
        heir.start()
        let isOver = cluster.waitUntil(seconds: 60) {
            second.service?.state.lastRebalance?.verdict == .completed
                && leader.service?.state.isProvisioned == false
        }
        guard isOver else { return "the leader is not gone" }
        return second.service?.state.rebalance == nil ? nil : "the rebalance goes on"
    }
}
