internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Fails a replica over while another replica is behind, and ends the active copy before that
/// replica has caught up: durable writes were only on the two lost copies.
extension Chaos {
    func chaseGivingUp() {
        // The outcome is checked only if nothing else was lost and the failover's reply reports its
        // losses.
        guard isOnDisk(), let row = rowToAttack(), let leader = cluster.leader,
            let state = cluster.newestState, row.active !== leader
        else { return }
        let active = row.active
        let others = row.owners.dropFirst().map(\.node).shuffled(using: &random)
        guard let gone = others.first(where: { $0 !== leader }),
            let late = others.first(where: { $0 !== gone }),
            let record = state.nodes.first(where: { $0.host == gone.address })
        else { return }
        last(
            1_500_000_000,
            [.oneWay(from: active.address, to: late.address)],
            end: [.healNetwork]
        )
        cluster.world.after(50_000_000 + random.next() % 400_000_000) { [weak self] in
            guard let self, !isOver, row.isThere, cluster.leader === leader else { return }
            failOver(Spare(node: gone, record: record), asking: leader)
            let end = cluster.world.now + 1_000_000_000
            awaitGivenUp(active, late, without: record.number, until: end)
        }
    }

    /// Waits until the map has only these two copies, then ends the active one.
    private func awaitGivenUp(
        _ active: SimulatedNode,
        _ late: SimulatedNode,
        without gone: NodeNumber,
        until end: UInt64
    ) {
        guard !isOver, cluster.world.now < end, active.host.isRunning,
            let state = cluster.newestState
        else { return }
        let isGone = state.nodes.contains { $0.number == gone && $0.membership != .active }
        guard isGone else {
            return cluster.world.after(Chaos.intervalNanoseconds) { [weak self] in
                self?.awaitGivenUp(active, late, without: gone, until: end)
            }
        }
        silence(active, because: "\(late.address) is behind, and another copy was failed over")
    }
}
