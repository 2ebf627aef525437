internal import Bytes
internal import ClusterService
internal import DataService
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Nodes that are failed over while they serve: what others promised when they were sealed is all
/// that keeps them from acknowledging durable writes, until their lease ends.
extension Chaos {
    /// Has a node failed over, waits until somebody was sealed for it, and hurts that promise.
    func chaseSeals() {
        guard let (leader, active) = nodeToSpare() else { return }
        giveUp(active, asking: leader)
        awaitSeals(for: active, until: cluster.world.now + 2_000_000_000) { [weak self] one in
            self?.hurt(one, sealedFor: active.node)
        }
    }

    /// A node that serves, and is not the leader.
    struct Spare {
        let node: SimulatedNode
        let record: NodeRecord
    }

    /// Somebody who may be given up by hand while nothing that was written durably is lost by it.
    func nodeToSpare() -> (leader: SimulatedNode, spare: Spare)? {
        guard let leader = cluster.leader, isWhole(), let state = leader.service?.state else {
            return nil
        }
        let owners = cluster.nodes.compactMap { node -> Spare? in
            guard node !== leader, node.isInCluster, !node.host.isFrozen,
                let record = state.nodes.first(where: { $0.host == node.address }),
                record.membership == .active, canSpare(record.number, state)
            else { return nil }
            return Spare(node: node, record: record)
        }
        guard !owners.isEmpty else { return nil }
        return (leader, owners[Int(random.next() % UInt64(owners.count))])
    }

    /// Has it failed over by hand while it serves, and take part again later.
    func giveUp(_ spare: Spare, asking leader: SimulatedNode) {
        let (name, failovers) = (spare.record.otpNode, failovers)
        failovers.withLock { $0.ask() }
        cluster.tell(leader, "fail over \(spare.node.address) while it serves") { service in
            let outcome = await service.failOver([name])
            failovers.withLock { $0.take(outcome) }
            return "\(outcome)"
        }
        // It comes back, so that there are enough copies for the next time.
        cluster.world.after(3_000_000_000) { [weak self] in
            guard let self, !isOver, let leader = cluster.leader else { return }
            cluster.tell(leader, "recover") { await Operator.recover($0, .delta) }
        }
    }

    /// Whoever gives a node up by hand may lose what one other copy has not: it is to serve
    /// something, and of all that it serves there are two more copies.
    private func canSpare(_ node: NodeNumber, _ state: ClusterState) -> Bool {
        let served = state.buckets.filter { $0.settings.name != SimulationRun.extraName }
            .flatMap { $0.placements.filter { $0.chain.first == node } }
        return !served.isEmpty && served.allSatisfy { $0.isConfirmed && $0.chain.count > 2 }
    }

    /// Waits until somebody was sealed for it, and until the answer is on its way.
    func awaitSeals(
        for active: Spare,
        until end: UInt64,
        _ found: @escaping (SimulatedNode) -> Void
    ) {
        guard !isOver, cluster.world.now < end else { return }
        let number = active.record.number
        let sealed = cluster.nodes.filter { $0 !== active.node && isSealed($0, for: number) }
        guard !sealed.isEmpty else {
            cluster.world.after(1_000_000) { [weak self] in
                self?.awaitSeals(for: active, until: end, found)
            }
            return
        }
        let one = sealed[Int(random.next() % UInt64(sealed.count))]
        cluster.world.after(1_000_000 + random.next() % 8_000_000) { found(one) }
    }

    func isSealed(_ node: SimulatedNode, for active: NodeNumber) -> Bool {
        guard let state = node.service?.state, let data = node.node?.data else { return false }
        return state.buckets.contains { bucket in
            data.reports(bucket.settings.name).contains { report in
                report.isSealed && bucket[report.vBucket].fence == report.fence
                    && bucket[report.vBucket].chain.first == active
            }
        }
    }

    /// It starts again at once, or hears alone of what the active one does.
    private func hurt(_ sealed: SimulatedNode, sealedFor active: SimulatedNode) {
        guard !isOver, sealed.host.isRunning else { return }
        if random.next() & 1 == 0 {
            sealed.restartDelay = 1_000_000 + random.next() % 30_000_000
            cluster.world.transcript.note("crash \(sealed.address), which was sealed")
            return sealed.crash(isPower: false)
        }
        let others = cluster.nodes.filter { $0 !== active && $0 !== sealed }.map(\.address)
        last(
            600_000_000,
            others.map { .oneWay(from: active.address, to: $0) },
            [.healNetwork]
        )
    }
}
