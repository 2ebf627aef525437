internal import Bytes
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Ends of processes, at random or after waiting for a condition.
extension Chaos {
    func beginOnProcess(_ kind: Kind, _ node: SimulatedNode) {
        switch kind {
        case .crash: crash(node, isPower: false)
        case .power: crash(node, isPower: true)
        case .powerAll: powerAll(from: node)
        case .crashAll: for node in cluster.nodes { crash(node, isPower: false) }
        case .stop: stop(node)
        case .stopAll: for node in cluster.nodes { stop(node) }
        case .crashAtDisk:
            let operations = 1 + Int(random.next() % 300)
            cluster.world.apply(.crashAtDisk(node.address, operations: operations))
        case .powerAtDisk:
            let operations = 1 + Int(random.next() % 300)
            cluster.world.apply(.powerCutAtDisk(node.address, operations: operations))
        case .leaderChase: if let leader = cluster.leader { strike(leader) }
        case .brownOut: brownOut()
        case .sealChase: chaseSeals()
        case .cutOff: cutOff()
        case .lagChase: chaseLaggard()
        case .snapshotChase: chaseSnapshots()
        case .aheadChase: chaseAhead()
        case .givingUpChase: chaseGivingUp()
        case .moveChase: chaseMoves()
        case .stopInTurn: stopInTurn()
        case .voteChase: chaseVotes()
        case .commitChase: chaseCommits()
        case .changeChase: chaseChanges()
        case .copyChase:
            let wanted = Unevenness.allCases[Int(random.next() % UInt64(Unevenness.allCases.count))]
            chaseCopies(wanted, until: cluster.world.now + 2_000_000_000)
        default: chase(until: cluster.world.now + 8_000_000_000)
        }
    }

    private func crash(_ node: SimulatedNode, isPower: Bool) {
        cluster.world.transcript.note("\(isPower ? "power" : "crash") \(node.address)")
        node.crash(isPower: isPower)
    }

    private func stop(_ node: SimulatedNode) {
        cluster.world.transcript.note("stop \(node.address)")
        node.stop()
    }

    /// Cuts the power of all machines at an instant when one of them is inside a commit.
    private func powerAll(from node: SimulatedNode) {
        let operations = 1 + Int(random.next() % 40)
        node.beforeRestart = { [weak cluster] in
            guard let cluster else { return }
            cluster.world.transcript.note("power of all")
            for other in cluster.nodes { other.crash(isPower: true) }
        }
        cluster.world.apply(.powerCutAtDisk(node.address, operations: operations))
        // A node without disk operations would never reach that instant.
        cluster.world.after(2_000_000_000) { [weak self] in
            guard let self, !isOver, node.beforeRestart != nil else { return }
            crash(node, isPower: true)
        }
    }

    private func brownOut() {
        let slowness = 1_000_000 + random.next() % 30_000_000
        for node in cluster.nodes {
            cluster.world.apply(.diskSlow(node.address, nanoseconds: slowness))
        }
        cluster.world.after(100_000_000 + random.next() % 1_500_000_000) { [weak self] in
            guard let self, !isOver else { return }
            cluster.world.transcript.note("power of all")
            for node in cluster.nodes {
                node.crash(isPower: true)
                cluster.world.apply(.diskSlow(node.address, nanoseconds: 0))
            }
        }
    }

    /// Applies a random fault to a chosen node.
    private func strike(_ node: SimulatedNode) {
        let length = 200_000_000 + random.next() % 6_000_000_000
        switch random.next() % 5 {
        case 0: crash(node, isPower: true)
        case 1: last(length, .freeze(node.address), end: .thaw(node.address))
        case 2:
            let others = cluster.nodes.map(\.address).filter { $0 != node.address }
            last(length, .split([[node.address], others]), end: .healNetwork)
        default: crash(node, isPower: false)
        }
    }

    // MARK: Nodes with a move or promotion in progress

    /// Waits for a vBucket that is moved or promoted, then applies a fault to an involved node.
    private func chase(until end: UInt64) {
        guard !isOver, cluster.world.now < end else { return }
        // A state without moves needs no second search.
        let age = cluster.newestAge
        if age != ageOfRest {
            if let node = movingNode() { return strike(node) }
            ageOfRest = age
        }
        cluster.world.after(2_000_000) { [weak self] in self?.chase(until: end) }
    }

    private func movingNode() -> SimulatedNode? {
        guard let state = cluster.newestState else { return nil }
        for bucket in state.buckets {
            for placement in bucket.placements {
                let isMoving = placement.isJoint || placement.former != nil
                guard isMoving || !placement.isConfirmed else { continue }
                // The current owner, the next one, or the one that hands over.
                let candidates = [placement.chain.first, placement.next.first, placement.former]
                    .compactMap { $0 }
                let number = candidates[Int(random.next() % UInt64(candidates.count))]
                guard let host = state.node(number: number)?.host else { continue }
                return cluster.nodes.first { $0.address == host }
            }
        }
        return nil
    }
}
