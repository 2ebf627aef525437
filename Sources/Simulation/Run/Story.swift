internal import ClusterService
internal import Consensus
internal import DataService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// What a seed found, told again step by step.
///
/// A seed tells another story after each change of the product; a story stays what it is. It says
/// itself where it did not come to what it is about.
package final class Story {
    package static let names = [
        "restarted-behind-the-map", "invited-and-given-up", "unheard-while-failing-over",
        "restarted-behind-a-hand-over", "deleted-unheard", "heir-that-is-down",
    ]

    static let second: UInt64 = 1_000_000_000

    let cluster: SimulatedCluster
    private let name: String
    private let workload: Workload
    private let judge: Judge
    private let watch: Watch

    /// - Returns: Nil where there is no story of this name.
    package init?(_ name: String) {
        guard Story.names.contains(name), let workload = Workload("standard") else { return nil }
        self.workload = workload
        self.name = name
        cluster = SimulatedCluster(seed: 1, nodes: name == Story.names[2] ? 5 : 3)
        judge = Judge(cluster.world, isLossless: false, isBeyondAssumptions: false)
        watch = Watch(cluster, judge)
    }

    /// Tells it; once.
    package func run() -> SimulationOutcome {
        watch.start()
        // Who hands over and crashes serves at once only where nobody else can be asked.
        let replicas = name == Story.names[3] ? 0 : 1
        let buckets = SimulationRun.buckets(replicas: replicas, workload)
        // Only one is about nodes that are failed over without anybody asking for it.
        let seconds: UInt16 = name == Story.names[2] ? 1 : 120
        if let flaw = cluster.build(buckets, failoverSeconds: seconds, failovers: 9) ?? tell() {
            judge.accuse("Story: \(flaw)")
        }
        if let fault = cluster.world.transcript.fault { judge.accuse("Fault: \(fault)") }
        var outcome = SimulationOutcome()
        outcome.violations = judge.violations
        outcome.digest = cluster.world.transcript.digest
        outcome.nodes = cluster.nodes.count
        outcome.nanoseconds = cluster.world.now
        outcome.transcript = cluster.world.transcript.lines.map(\.description)
        cluster.dismantle()
        return outcome
    }

    /// Where it did not come to what it is about, or what was wrong.
    private func tell() -> String? {
        cluster.world.run(for: 2 * Story.second)
        guard let leader = cluster.leader else { return "nobody leads" }
        let others = cluster.nodes.filter { $0 !== leader }
        switch name {
        case Story.names[0]: return restartBehindTheMap(leader, others[0], others[1])
        case Story.names[1]: return giveUpInvited(leader, others[0])
        case Story.names[2]: return failOverUnheard(leader, others[0])
        case Story.names[3]: return restartHandedOver(leader, others[0])
        case Story.names[4]: return deleteUnheard(leader, others[0])
        default: return leaveWithoutTheHeir(leader, others)
        }
    }

    /// A node that was stopped and failed over hears what it lost before it can ask what is true, as
    /// the leader that tells it loses its majority: it has read it, and its copies do not act by it.
    private func restartBehindTheMap(
        _ leader: SimulatedNode,
        _ other: SimulatedNode,
        _ node: SimulatedNode
    ) -> String? {
        halt(node) { $0.stop() }
        guard cluster.waitUntil(seconds: 10, { !node.host.isRunning }) else {
            return "the node does not stop"
        }
        let address = node.address
        let done = cluster.ask(leader) { service in
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return "\(await service.failOver([name]))"
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
        guard hasHeard, other.service == nil else { return "the node did not hear what it lost" }
        guard node.node?.data.reports("persistent").contains(where: { $0.state == .active }) == true
        else { return "its copies know what it lost" }
        // Who promises it a lease now has it acknowledge beside its successor.
        cluster.world.run(for: 2 * Story.second)
        other.isWanted = true
        other.start()
        let isWell = cluster.waitUntil(seconds: 20) { [self] in
            Convergence(cluster: cluster).mapFlaws().isEmpty
        }
        return isWell ? nil : "the nodes do not come together"
    }

    /// A node crashes as soon as it has taken up an invitation, and is given up before it is back.
    private func giveUpInvited(_ leader: SimulatedNode, _ node: SimulatedNode) -> String? {
        let address = node.address
        let left = cluster.ask(leader, seconds: 60) { service in
            let known = service.state.nodes.map(\.otpNode)
            let name = service.state.nodes.first { $0.host == address }?.otpNode ?? ""
            return "\(await service.rebalance(known: known, ejected: [name]))"
        }
        let isOut = cluster.waitUntil(seconds: 60) { [self] in
            membership(of: node, at: leader) == nil && node.service?.state.isProvisioned == false
                && node.service?.state.nodes.count == 1
        }
        guard isOut else { return "the node was not taken out: \(left ?? "no answer")" }
        let name = node.name
        cluster.tell(leader, "add") { service in
            "\(await service.addNode(name, login: ("", ""), services: ["kv"]))"
        }
        let isInvited = cluster.world.run(for: 10 * Story.second) {
            node.service?.raftStatus.configuration.members.isEmpty == true
        }
        halt(node) { $0.crash(isPower: false) }
        let convergence = Convergence(cluster: cluster)
        guard isInvited, membership(of: node, at: leader) == .joining,
            !convergence.mapFlaws().isEmpty,
            convergence.mapFlaws(toleratingInvited: true).isEmpty
        else { return "the node was not invited, or nobody misses it" }
        guard cluster.waitUntil(seconds: 90, { membership(of: node, at: leader) == nil }) else {
            return "the node is not given up"
        }
        node.isWanted = true
        node.start()
        let isNew = cluster.waitUntil(seconds: 30) {
            node.isServing && node.service?.raftStatus.configuration.members.count == 1
        }
        guard isNew else { return "the node does not become a new one" }
        let added = cluster.ask(leader, seconds: 40) {
            "\(await $0.addNode(name, login: ("", ""), services: ["kv"]))"
        }
        guard membership(of: node, at: leader) == .inactiveAdded else {
            return "the node cannot be added again: \(added ?? "no answer")"
        }
        return cluster.rebalance(seconds: 60)
    }

    /// Ends a node's process, which nobody starts again until somebody wants it.
    func halt(_ node: SimulatedNode, _ end: (SimulatedNode) -> Void) {
        node.isWanted = false
        end(node)
    }

    func membership(of node: SimulatedNode, at witness: SimulatedNode) -> NodeMembership? {
        witness.service?.state.nodes.first { $0.host == node.address }?.membership
    }
}
