internal import Bytes
internal import Orchestration
internal import SimulatedPlatform

/// Nodes that are cut off from others and failed over by hand at the same instant: they serve their
/// clients as long as their lease goes, and nothing but promises of others keeps what they do then
/// from counting.
extension Chaos {
    func cutOff() {
        guard let (leader, active) = nodeToSpare() else { return }
        let others = cluster.nodes.filter { $0 !== active.node }
        let followers = others.filter { $0 !== leader }
        // One may hear it still, and be heard: whoever was sealed is to take nothing of it.
        let isAlone = followers.isEmpty || random.next() % 4 == 0
        let friend = isAlone ? nil : followers[Int(random.next() % UInt64(followers.count))]
        let here = active.node.address
        let cuts = others.filter { $0 !== friend }.flatMap { other -> [Fault] in
            [.oneWay(from: here, to: other.address), .oneWay(from: other.address, to: here)]
        }
        last(1_500_000_000, cuts, [.healNetwork])
        giveUp(active, asking: leader)
        guard let friend, random.next() & 1 == 0 else { return }
        awaitSeals(for: active, until: cluster.world.now + 500_000_000) { [weak self] _ in
            guard let self, !isOver, isSealed(friend, for: active.record.number) else { return }
            friend.restartDelay = 1_000_000 + random.next() % 30_000_000
            cluster.world.transcript.note("crash \(friend.address), which was sealed")
            friend.crash(isPower: false)
        }
    }

    /// Stopped between its look at the clock and its answer, and somebody else serves before it goes
    /// on: what it answers then counts for nothing.
    func stopInTurn() {
        guard let (leader, active) = nodeToSpare() else { return }
        let host = active.node.host
        host.saidLate = saidLate
        host.stoppedInTurn = { [weak self] in
            guard let self, !isOver else { return }
            cluster.world.transcript.note("\(host.address) is stopped in the middle of a turn")
            giveUp(active, asking: leader)
        }
        let turns = 1 + Int(random.next() % 40)
        let length = 1_500_000_000 + random.next() % 1_500_000_000
        cluster.world.apply(.stopInTurn(host.address, turns: turns, nanoseconds: length))
    }
}
