internal import ClusterService
internal import Consensus
internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A scripted replay of a failure that a seed found.
///
/// After a change of the product, a seed is a different run; a story reproduces the conditions of
/// the failure step by step. It is a violation if the story does not reach its conditions.
package final class Story {
    package static let names = [
        "restarted-behind-the-map", "invited-and-given-up", "unheard-while-failing-over",
        "restarted-behind-a-hand-over", "deleted-unheard", "successor-that-is-down",
        "process-that-is-gone", "refused-for-a-minority",
    ]

    static let second: UInt64 = 1_000_000_000

    let cluster: SimulatedCluster
    private let name: String
    private let workload: Workload
    private let verifier: Verifier
    private let watch: Watch

    /// - Returns: Nil if there is no story of this name.
    package init?(_ name: String) {
        guard Story.names.contains(name), let workload = Workload("standard") else { return nil }
        self.workload = workload
        self.name = name
        cluster = SimulatedCluster(seed: 1, nodes: name == Story.names[2] ? 5 : 3)
        verifier = Verifier(cluster.world, isLossless: false, isBeyondAssumptions: false)
        watch = Watch(cluster, verifier)
    }

    /// Runs the story; callable once.
    package func run() -> SimulationOutcome {
        watch.start()
        // A node that restarts serves at once only if no other node has a copy to query.
        let replicas = name == Story.names[3] ? 0 : 1
        let buckets = SimulationRun.buckets(replicas: replicas, workload)
        // Only these stories are about automatic failover.
        let seconds: [String: UInt16] = [
            Story.names[2]: 1, Story.names[6]: 5, Story.names[7]: 5,
        ]
        if let flaw = cluster.build(buckets, failoverSeconds: seconds[name] ?? 120, failovers: 9)
            ?? play()
        {
            verifier.reportFlaw("Story: \(flaw)")
        }
        if let fault = cluster.world.transcript.fault { verifier.reportFlaw("Fault: \(fault)") }
        var outcome = SimulationOutcome()
        outcome.violations = verifier.violations
        outcome.digest = cluster.world.transcript.digest
        outcome.nodes = cluster.nodes.count
        outcome.nanoseconds = cluster.world.now
        outcome.transcript = cluster.world.transcript.lines.map(\.description)
        cluster.dismantle()
        return outcome
    }

    /// Plays the steps; a sentence if a condition was not reached or the outcome is wrong.
    private func play() -> String? {
        cluster.world.run(for: 2 * Story.second)
        guard let leader = cluster.leader else { return "there is no leader" }
        let others = cluster.nodes.filter { $0 !== leader }
        switch name {
        case Story.names[0]: return restartBehindTheMap(leader, others[0], node: others[1])
        case Story.names[1]: return giveUpInvited(leader, others[0])
        case Story.names[2]: return failOverUnheard(leader, others[0])
        case Story.names[3]: return restartHandedOver(leader, others[0])
        case Story.names[4]: return deleteUnheard(leader, others[0])
        case Story.names[5]: return leaveWithoutTheSuccessor(leader, others)
        case Story.names[6]: return endProcess(leader, others[0])
        default: return refuseOne(leader, others[0], other: others[1])
        }
    }

    /// A node that was stopped and failed over receives the entry that deposed it, but the leader
    /// then loses its majority: the node has applied the entry, and its copies do not act by it
    /// yet.
    private func restartBehindTheMap(
        _ leader: SimulatedNode,
        _ other: SimulatedNode,
        node: SimulatedNode
    ) -> String? {
        halt(node) { $0.stop() }
        guard cluster.waitUntil(seconds: 10, { !node.host.isRunning }) else {
            return "the node does not stop"
        }
        let address = node.address
        let done = cluster.ask(leader) { service in
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return await SimulatedCluster.text {
                try await service.membership.failOver([name], by: SimulatedCluster.user)
            }
        }
        let isOver = cluster.waitUntil(seconds: 10) { [cluster] in
            let placements = cluster.newestState?.buckets.flatMap(\.placements) ?? []
            return !placements.isEmpty && placements.allSatisfy(\.isConfirmed)
        }
        guard isOver else { return "it was not failed over: \(done ?? "no answer")" }
        halt(other) { $0.crash(isPower: false) }
        node.isWanted = true
        node.start()
        let hasHeard = cluster.waitUntil(seconds: 2) { [self] in
            membership(of: node, at: node) == .inactiveFailed
        }
        guard hasHeard, other.service == nil else { return "the node did not apply its failover" }
        guard node.node?.data.reports("persistent").contains(where: { $0.state == .active }) == true
        else { return "its copies act by its failover" }
        // With a lease now, the node would acknowledge writes at the same time as its successor.
        cluster.world.run(for: 2 * Story.second)
        other.isWanted = true
        other.start()
        let isWell = cluster.waitUntil(seconds: 20) { [self] in
            Convergence(cluster: cluster).mapFlaws().isEmpty
        }
        return isWell ? nil : "the nodes do not converge"
    }

    /// A node crashes as soon as it has accepted an invitation, and is removed before it restarts.
    private func giveUpInvited(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let address = node.address
        let left = cluster.ask(leader, seconds: 60) { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return await SimulatedCluster.text {
                try await service.membership.rebalance(
                    known: known,
                    ejected: [name],
                    by: SimulatedCluster.user
                )
            }
        }
        let isOut = cluster.waitUntil(seconds: 60) { [self] in
            membership(of: node, at: leader) == nil && node.service?.state.isProvisioned == false
                && node.service?.state.nodes.count == 1
        }
        guard isOut else { return "the node was not removed: \(left ?? "no reply")" }
        let (name, tokens) = (node.name, cluster.tokens)
        let add = { @Sendable (service: AdministrationService) async throws -> String in
            try await service.membership.addNode(
                name,
                token: tokens[name],
                services: ["kv"],
                by: SimulatedCluster.user
            )
        }
        cluster.submit(leader, "add", order: add)
        let isInvited = cluster.world.run(for: 10 * Story.second) {
            node.service?.cluster.raftStatus.configuration.members.isEmpty == true
        }
        // Its answer is on the way; without it the node would be removed at once.
        cluster.world.run(for: Story.second / 200)
        halt(node) { $0.crash(isPower: false) }
        let convergence = Convergence(cluster: cluster)
        // The other nodes apply the invitation, and the secret that is sealed to the new node as well.
        let isWaitedFor = cluster.waitUntil(seconds: 5) {
            convergence.mapFlaws(toleratingInvited: true).isEmpty
        }
        guard isInvited, isWaitedFor, membership(of: node, at: leader) == .joining,
            !convergence.mapFlaws().isEmpty
        else { return "the node was not invited, or the cluster does not wait for it" }
        guard cluster.waitUntil(seconds: 90, { membership(of: node, at: leader) == nil }) else {
            return "the joining node is not removed"
        }
        node.isWanted = true
        node.start()
        let isNew = cluster.waitUntil(seconds: 30) {
            node.isServing && node.service?.cluster.raftStatus.configuration.members.count == 1
        }
        guard isNew else { return "the node does not become a new one" }
        let added = cluster.ask(leader, seconds: 40) { service in
            await SimulatedCluster.text { try await add(service) }
        }
        guard membership(of: node, at: leader) == .inactiveAdded else {
            return "the node cannot be added again: \(added ?? "no answer")"
        }
        return cluster.rebalance(seconds: 60)
    }

    /// Ends a node's process; it restarts only after `isWanted` is set again.
    func halt(_ node: SimulatedNode, _ end: (SimulatedNode) -> Void) {
        node.isWanted = false
        end(node)
    }

    /// The membership of a node in another node's state; nil if it is not a member.
    func membership(of node: SimulatedNode, at witness: SimulatedNode) -> NodeMembership? {
        witness.service?.state.nodes.first { $0.host == node.address }?.membership
    }
}

/// A bucket is deleted, but a reachable node does not receive the deletion.
extension Story {
    /// A node's disk stalls: it accepts no entry, but its beats keep extending its lease.
    ///
    /// As long as the node serves the bucket, no other bucket of that name may be created.
    func deleteUnheard(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let (world, address, bucket) = (cluster.world, node.address, "persistent")
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 100 * Story.second))
        // The lane stalls with the first entry; the next one waits.
        cluster.submit(leader, "settings") { service in
            let same = service.state.settings
            try await service.settings.change(settings: same, was: same)
            return "done"
        }
        world.run(for: Story.second)
        cluster.submit(leader, "delete") { service in
            try await service.buckets.delete(bucket)
            return "done"
        }
        world.run(for: 45 * Story.second)
        let serves = node.node?.data.reports(bucket).contains { $0.state == .active } ?? false
        guard serves, node.service?.state.bucket(named: bucket) != nil,
            leader.service?.state.bucket(named: bucket) == nil
        else {
            return "the node received the deletion"
        }
        guard leader.service?.state.deletedBuckets.isEmpty == false else {
            return "the bucket's name is free while a node serves the bucket"
        }
        world.apply(.slowLane(address, lanes: "control-disk", nanoseconds: 0))
        let isOver = cluster.waitUntil(seconds: 180) {
            leader.service?.state.deletedBuckets.isEmpty == true
        }
        return isOver ? nil : "the deletion does not end"
    }
}

/// Processes that end while the kernels of their machines go on and refuse connections.
extension Story {
    /// A process that returns in time stays a member; one that does not is failed over long before the timeout.
    func endProcess(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        for milliseconds: UInt64 in [300, 900] {
            halt(node) { $0.crash(isPower: false) }
            cluster.world.run(for: milliseconds * 1_000_000)
            node.isWanted = true
            node.start()
            cluster.world.run(for: 3 * Story.second)
            guard membership(of: node, at: leader) == .active else {
                return "a process that returned after \(milliseconds) ms was failed over"
            }
        }
        halt(node) { $0.crash(isPower: false) }
        cluster.world.run(for: 3 * Story.second / 2)
        guard membership(of: node, at: leader) == .inactiveFailed else {
            return "a process that is gone was not failed over"
        }
        node.isWanted = true
        node.start()
        let knows = cluster.waitUntil(seconds: 5) { [self] in
            membership(of: node, at: node) == .inactiveFailed
        }
        return knows ? nil : "the process that returned did not learn of its failover"
    }

    /// The kernel of a machine refuses the connections of the leader only: the silence has the whole timeout.
    func refuseOne(
        _ leader: SimulatedNode,
        _ node: SimulatedNode,
        other: SimulatedNode
    ) -> String? {
        cluster.world.apply(.oneWay(from: other.address, to: node.address))
        halt(node) { $0.crash(isPower: false) }
        cluster.world.run(for: 4 * Story.second)
        guard membership(of: node, at: leader) == .active else {
            return "a node was failed over by the refusals that one node received"
        }
        let isFailedOver = cluster.waitUntil(seconds: 3) { [self] in
            membership(of: node, at: leader) == .inactiveFailed
        }
        return isFailedOver ? nil : "a silent node was not failed over"
    }
}

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

/// A node crashes after the takeover of a vBucket that it handed over is committed, before it
/// learns of that.
extension Story {
    /// The node restarts connected to other nodes but not to the leader: the other nodes promise it
    /// a lease, and by its map it would serve vBuckets that another node serves.
    func restartHandedOver(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let (world, address) = (cluster.world, node.address)
        // Slow enough that it has not persisted the progress of its moves.
        world.apply(.diskSlow(address, nanoseconds: 30_000_000))
        cluster.submit(leader, "out \(address)") { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return try await service.membership.rebalance(
                known: known,
                ejected: [name],
                by: SimulatedCluster.user
            )
        }
        let isHandedOver = world.run(for: 60 * Story.second) { [self] in
            !missed(by: node, of: leader).isEmpty
        }
        let taken = missed(by: node, of: leader)
        guard isHandedOver, !taken.isEmpty else { return "the node knows of every hand-over" }
        halt(node) { $0.crash(isPower: true) }
        world.apply(.oneWay(from: leader.address, to: address))
        world.apply(.diskSlow(address, nanoseconds: 0))
        node.isWanted = true
        node.start()
        // If the node served now, it would acknowledge writes at the same time as its successor.
        world.run(for: 3 * Story.second)
        guard taken == missed(by: node, of: leader) else { return "the node learned of it" }
        world.apply(.healNetwork)
        let isWell = cluster.waitUntil(seconds: 60) { [self] in
            Convergence(cluster: cluster).mapFlaws().isEmpty
        }
        return isWell ? nil : "the nodes do not converge"
    }

    /// The vBuckets that the node serves by its own map and another node by the leader's, as bucket
    /// and number.
    private func missed(by node: SimulatedNode, of leader: SimulatedNode) -> Set<String> {
        guard let known = node.service?.state, let state = leader.service?.state,
            let number = known.nodes.first(where: { $0.host == node.address })?.number
        else { return [] }
        var taken: Set<String> = []
        for bucket in state.buckets {
            let name = bucket.settings.name
            guard let before = known.bucket(named: name) else { continue }
            for (place, placement) in bucket.placements.enumerated()
            where before.placements[place].chain.first == number && placement.isConfirmed
                && placement.chain.first != number
            {
                taken.insert("\(name) \(place)")
            }
        }
        return taken
    }
}
