internal import Bytes
internal import ClusterService
internal import DataService
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Fails nodes over while they serve: until their lease ends, only the seals of other copies keep
/// them from acknowledging durable writes.
extension Chaos {
    /// Fails a node over, waits until a copy is sealed for that, and attacks the seal.
    func chaseSeals() {
        guard let (leader, active) = nodeToSpare() else { return }
        failOver(active, asking: leader)
        awaitSeals(for: active, until: cluster.world.now + 2_000_000_000) { [weak self] sealed in
            self?.attack(sealed, sealedFor: active.node)
        }
    }

    /// A serving node other than the leader.
    struct Spare {
        let node: SimulatedNode
        let record: NodeRecord
    }

    /// A node that can be failed over without losing a durable write; nil if there is none.
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

    /// Fails a node over by hand while it serves, and recovers it later.
    func failOver(_ spare: Spare, asking leader: SimulatedNode) {
        let (name, failovers) = (spare.record.otpNode, failovers)
        failovers.withLock { $0.recordRequest() }
        cluster.submit(leader, "fail over \(spare.node.address) while it serves") { service in
            try await ManualFailovers.failOver(name, by: service, recordingIn: failovers)
        }
        // Its recovery provides enough copies for the next failover.
        cluster.world.after(3_000_000_000) { [weak self] in
            guard let self, !isOver, let leader = cluster.leader else { return }
            cluster.submit(leader, "recover") { await Operator.recover($0, .delta) }
        }
    }

    /// Whether the node serves vBuckets and each of them has two replicas, since a failover by hand
    /// may lose changes that one replica lacks.
    private func canSpare(_ node: NodeNumber, _ state: ClusterState) -> Bool {
        let served = state.buckets.filter { $0.settings.name != SimulationRun.extraName }
            .flatMap { $0.placements.filter { $0.chain.first == node } }
        return !served.isEmpty && served.allSatisfy { $0.isConfirmed && $0.chain.count > 2 }
    }

    /// Waits until a copy is sealed for the failover and its reply is in transit.
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
        let chosen = sealed[Int(random.next() % UInt64(sealed.count))]
        cluster.world.after(1_000_000 + random.next() % 8_000_000) { found(chosen) }
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

    /// Restarts the sealed node at once, or leaves it as the only replica that the active copy
    /// reaches.
    private func attack(_ sealed: SimulatedNode, sealedFor active: SimulatedNode) {
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
            end: [.healNetwork]
        )
    }
}
