internal import Bytes
internal import ClusterService
internal import Consensus
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Ends or cuts off Raft members right after they took part in a decision: if the decision was not
/// on a majority's disks, the remaining members decide differently.
extension Chaos {
    private static let checkNanoseconds: UInt64 = 100_000
    private static let cutNanoseconds: UInt64 = 3_000_000_000

    /// The leader and the other running voters; nil if there are fewer than three voters.
    private func voters() -> (leader: SimulatedNode, others: [SimulatedNode])? {
        guard let leader = cluster.leader, let state = leader.service?.state,
            let configuration = leader.service?.cluster.raftStatus.configuration,
            !configuration.isJoint
        else { return nil }
        let others = cluster.nodes.filter { node in
            let record = state.nodes.first { $0.host == node.address }
            return node !== leader && node.host.isRunning && !node.host.isFrozen
                && record.map { configuration.voters.contains($0.number) } ?? false
        }
        return others.count > 1 ? (leader, others) : nil
    }

    private func cut(_ one: SimulatedNode, _ other: SimulatedNode) -> [Fault] {
        [
            .oneWay(from: one.address, to: other.address),
            .oneWay(from: other.address, to: one.address),
        ]
    }

    private func end(_ node: SimulatedNode, _ reason: String, back delay: UInt64) {
        beforeEnd()
        node.restartDelay = delay
        cluster.world.transcript.note("crash \(node.address), \(reason)")
        node.crash(isPower: random.next() & 1 == 0)
    }

    // MARK: Votes

    /// Makes two disconnected voters stand for election.
    ///
    /// Once one of them leads, every other voter that may have voted for it ends, and reaches only
    /// the other candidate after its restart.
    func chaseVotes() {
        guard let (leader, others) = voters() else { return }
        let first = Int(random.next() % UInt64(others.count))
        let second = (first + 1 + Int(random.next() % UInt64(others.count - 1))) % others.count
        let (one, other) = (others[first], others[second])
        last(Chaos.cutNanoseconds, cut(one, other), end: [.healNetwork])
        // The old leader restarts in time to vote.
        end(leader, "which led", back: 20_000_000 + random.next() % 100_000_000)
        let until = cluster.world.now + 2_000_000_000
        awaitLeader(of: [one, other], among: others + [leader], until: until)
    }

    private func awaitLeader(
        of pair: [SimulatedNode],
        among voters: [SimulatedNode],
        until end: UInt64
    ) {
        guard !isOver, cluster.world.now < end else { return }
        guard let chosen = pair.first(where: { $0.service?.cluster.raftStatus.role == .leader })
        else {
            return cluster.world.after(Chaos.checkNanoseconds) { [weak self] in
                self?.awaitLeader(of: pair, among: voters, until: end)
            }
        }
        for voter in voters where !pair.contains(where: { $0 === voter }) {
            cut(chosen, voter).forEach(cluster.world.apply)
            self.end(voter, "which may have voted", back: 1_000_000 + random.next() % 20_000_000)
        }
    }

    // MARK: Commits

    /// Ends a leader with a busy disk right after a commit, and cuts off most other members that
    /// have the entry.
    func chaseCommits() {
        guard let (leader, others) = voters() else { return }
        let slowness = 5_000_000 + random.next() % 40_000_000
        last(
            1_000_000_000,
            .diskSlow(leader.address, nanoseconds: slowness),
            end: .diskSlow(leader.address, nanoseconds: 0)
        )
        // The first keeps the disk busy, the second waits for it.
        decide(leader)
        let end = cluster.world.now + 1_000_000_000
        awaitCommit(of: leader, beyond: commit(leader), until: end) { [weak self] in
            guard let self else { return }
            decide(leader)
            awaitCommit(of: leader, beyond: commit(leader), until: end) { [weak self] in
                self?.attackCommitters(leader, others)
            }
        }
    }

    /// Proposes an entry that changes nothing.
    private func decide(_ leader: SimulatedNode) {
        cluster.submit(leader, "the same settings") { service in
            let settings = service.state.settings
            try await service.settings.change(settings: settings, was: settings)
            return "done"
        }
    }

    private func commit(_ node: SimulatedNode) -> LogIndex {
        node.service?.cluster.raftStatus.commit ?? 0
    }

    private func awaitCommit(
        of leader: SimulatedNode,
        beyond index: LogIndex,
        until end: UInt64,
        _ found: @escaping () -> Void
    ) {
        guard !isOver, cluster.world.now < end, leader.host.isRunning else { return }
        if commit(leader) > index { return found() }
        cluster.world.after(Chaos.checkNanoseconds) { [weak self] in
            self?.awaitCommit(of: leader, beyond: index, until: end, found)
        }
    }

    private func attackCommitters(_ leader: SimulatedNode, _ others: [SimulatedNode]) {
        guard let status = leader.service?.cluster.raftStatus, let state = leader.service?.state
        else {
            return
        }
        let holders = others.filter { node in
            let number = state.nodes.first { $0.host == node.address }?.number
            return status.progress.contains {
                $0.node == number && $0.progress.matched >= status.commit
            }
        }
        let gone = holders.prefix(others.count / 2).map(\.address)
        guard !gone.isEmpty else { return }
        let rest = cluster.nodes.map(\.address).filter { !gone.contains($0) }
        last(Chaos.cutNanoseconds, .split([Array(gone), rest]), end: .healNetwork)
        end(leader, "which committed", back: 1_000_000 + random.next() % 20_000_000)
    }

    // MARK: Changes of voters

    /// Removes two nodes; as soon as the leader's log has the change, the leader is cut off
    /// together with the minority that suffices for the new configuration.
    func chaseChanges() {
        guard let (leader, others) = voters(), others.count > 2,
            let state = leader.service?.state, state.rebalance == nil
        else { return }
        let leavers = others.shuffled(using: &random).prefix(2)
        let names = leavers.compactMap { node in
            state.nodes.first { $0.host == node.address }?.otpNode
        }
        let before = leader.service?.cluster.raftStatus.configuration
        cluster.submit(leader, "out \(names)") { service in
            let known = service.state.nodes.filter { $0.membership != .joining }.map(\.otpNode)
            return try await service.membership.rebalance(
                known: known,
                ejected: names,
                by: SimulatedCluster.user
            )
        }
        let staying = others.filter { node in !leavers.contains { $0 === node } }
        awaitChange(leader, from: before, staying, until: cluster.world.now + 20_000_000_000)
    }

    private func awaitChange(
        _ leader: SimulatedNode,
        from before: VoterConfiguration?,
        _ staying: [SimulatedNode],
        until end: UInt64
    ) {
        guard !isOver, cluster.world.now < end, leader.host.isRunning,
            let status = leader.service?.cluster.raftStatus, status.role == .leader
        else { return }
        guard status.configuration != before else {
            return cluster.world.after(Chaos.checkNanoseconds / 2) { [weak self] in
                self?.awaitChange(leader, from: before, staying, until: end)
            }
        }
        let needed = [leader] + staying.prefix((staying.count + 1) / 2)
        let few = needed.map(\.address)
        let rest = cluster.nodes.map(\.address).filter { !few.contains($0) }
        cluster.world.transcript.note("\(few) are alone with the change")
        last(Chaos.cutNanoseconds, .split([few, rest]), end: .healNetwork)
        cluster.world.after(Chaos.cutNanoseconds + 4_000_000_000) { [weak self] in
            guard let self, !isOver, let leader = cluster.leader else { return }
            let tokens = cluster.tokens
            cluster.submit(leader, "all in") { service in
                let added = await Operator.addAll(service, tokens)
                return "\(added); \(await Operator.recover(service, .full))"
            }
        }
    }
}
