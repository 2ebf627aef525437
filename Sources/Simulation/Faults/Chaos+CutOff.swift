internal import Bytes
internal import Orchestration
internal import SimulatedPlatform

/// Cuts a node off and fails it over by hand at the same instant: it serves its clients until its
/// lease ends, and only the seals of other copies keep its writes from being acknowledged as
/// durable.
extension Chaos {
    func cutOff() {
        guard let (leader, active) = nodeToSpare() else { return }
        let others = cluster.nodes.filter { $0 !== active.node }
        let followers = others.filter { $0 !== leader }
        // One node may stay connected: a sealed copy must accept no changes of the old active copy.
        let isAlone = followers.isEmpty || random.next() % 4 == 0
        let friend = isAlone ? nil : followers[Int(random.next() % UInt64(followers.count))]
        let here = active.node.address
        let cuts = others.filter { $0 !== friend }.flatMap { other -> [Fault] in
            [.oneWay(from: here, to: other.address), .oneWay(from: other.address, to: here)]
        }
        last(1_500_000_000, cuts, end: [.healNetwork])
        failOver(active, asking: leader)
        guard let friend, random.next() & 1 == 0 else { return }
        awaitSeals(for: active, until: cluster.world.now + 500_000_000) { [weak self] _ in
            guard let self, !isOver, isSealed(friend, for: active.record.number) else { return }
            friend.restartDelay = 1_000_000 + random.next() % 30_000_000
            cluster.world.transcript.note("crash \(friend.address), which was sealed")
            friend.crash(isPower: false)
        }
    }

    /// Stops a node between its reading of the clock and its response; another node serves before
    /// it continues, so its response must acknowledge no write.
    func stopInTurn() {
        guard let (leader, active) = nodeToSpare() else { return }
        let host = active.node.host
        host.onDeferredOutput = onDeferredOutput
        host.onStopInTurn = { [weak self] in
            guard let self, !isOver else { return }
            cluster.world.transcript.note("\(host.address) is stopped in the middle of a turn")
            failOver(active, asking: leader)
        }
        let turns = 1 + Int(random.next() % 40)
        let length = 1_500_000_000 + random.next() % 1_500_000_000
        cluster.world.apply(.stopInTurn(host.address, turns: turns, nanoseconds: length))
    }
}
