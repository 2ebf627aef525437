internal import Bytes
internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Rebalances with a slow new copy, in which the active copy ends as soon as the new copy counts.
extension Chaos {
    /// Starts a rebalance that removes a node or adds all missing nodes.
    func chaseMoves() {
        guard isWhole(), let leader = cluster.leader, let state = leader.service?.state,
            state.rebalance == nil
        else { return }
        let leavers = state.activeNodes.filter { $0.host != leader.address }
        if state.activeNodes.count < cluster.nodes.count {
            let tokens = cluster.tokens
            cluster.submit(leader, "all in") { service in
                let added = await Operator.addAll(service, tokens)
                return "\(added); \(await Operator.recover(service, .full))"
            }
        } else if leavers.count > 1 {
            let name = leavers[Int(random.next() % UInt64(leavers.count))].otpNode
            cluster.submit(leader, "out \(name)") { service in
                let known = service.state.nodes.filter { $0.membership != .joining }
                    .map(\.otpNode)
                return try await service.membership.rebalance(
                    known: known,
                    ejected: [name],
                    by: SimulatedCluster.user
                )
            }
        }
        let delay = 5_000_000 + random.next() % 60_000_000
        chaseMoves(delay, [:], until: cluster.world.now + 6_000_000_000)
    }

    /// A copy that is being built, with a slow connection from its active copy.
    private struct Newcomer {
        let node: SimulatedNode
        let active: SimulatedNode
    }

    private func chaseMoves(_ delay: UInt64, _ known: [String: Newcomer], until end: UInt64) {
        guard !isOver, cluster.world.now < end, let state = cluster.newestState else { return }
        var known = known
        for bucket in state.buckets where bucket.settings.name != SimulationRun.extraName {
            for (number, placement) in bucket.placements.enumerated()
            where placement.isConfirmed {
                let name = "\(bucket.settings.name) \(number)"
                let chain = placement.chain
                if let newcomer = known[name] {
                    let isIn =
                        node(chain.first, state) === newcomer.active
                        && chain.nodes.contains { node($0, state) === newcomer.node }
                    guard isIn, !placement.isJoint else { continue }
                    cluster.world.apply(.healNetwork)
                    return silence(newcomer.active, because: "\(name) was moved")
                }
                let target = bucket.targets?.rows[number] ?? NodeChain()
                let isBuilt = target.first == chain.first
                guard isBuilt, known.count < 2, let active = node(chain.first, state),
                    let builder = target.nodes.first(where: { !chain.nodes.contains($0) }),
                    let newcomer = node(builder, state)
                else { continue }
                known[name] = Newcomer(node: newcomer, active: active)
                // The leaving copy receives changes at once; the copies of the target receive them
                // late.
                for owner in target.nodes.dropFirst() {
                    guard let owner = node(owner, state) else { continue }
                    let (from, to) = (active.address, owner.address)
                    last(
                        4_000_000_000,
                        .slow(from: from, to: to, nanoseconds: delay),
                        end: .slow(from: from, to: to, nanoseconds: 0)
                    )
                }
            }
        }
        cluster.world.after(1_000_000) { [weak self] in
            self?.chaseMoves(delay, known, until: end)
        }
    }

    private func node(_ number: NodeNumber?, _ state: ClusterState) -> SimulatedNode? {
        guard let host = number.flatMap({ state.node(number: $0)?.host }) else { return nil }
        return cluster.nodes.first { $0.address == host }
    }
}
