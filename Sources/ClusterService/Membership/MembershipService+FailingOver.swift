internal import Orchestration
internal import Vocabulary

/// Failover by hand: hard, or graceful after a move of all active vBuckets.
extension MembershipService {
    /// Fails nodes over at once: the remaining nodes promote their copies.
    ///
    /// - Parameters:
    ///   - names: The nodes.
    ///   - login: The administrator or local user that orders it.
    ///   - isUnsafe: If the nodes have no majority, the remaining ones begin a new epoch.
    /// - Returns: What may be lost, or why nothing was done.
    package func failOver(
        _ names: [String],
        by login: String,
        isUnsafe: Bool = false
    ) async -> MembershipOutcome {
        let hasQuorum = await cluster.hasQuorum
        if isUnsafe, !hasQuorum { return await epochs.formEpoch(without: names, by: login) }
        var nodes: [NodeNumber] = []
        for name in names {
            guard let node = cluster.node(named: name) else {
                return .refused("Unknown server given.")
            }
            guard node.membership == .active else { return .refused("Inactive server given.") }
            nodes.append(node.number)
        }
        guard !nodes.isEmpty else { return .refused("Unknown server given.") }
        guard cluster.state.activeNodes.contains(where: { !nodes.contains($0.number) }) else {
            return .refused("Last active node cannot be failed over.")
        }
        // Without a quorum, seal no copies: the failover could not be agreed on.
        guard hasQuorum else { return .failed(await cluster.noQuorumSentence(without: nodes)) }
        switch await cluster.askLeader(
            .failOver(nodes, by: login),
            timeoutNanoseconds: 15_000_000_000
        ) {
        case .done(let text): return .done(text)
        case .refused(let text): return .busy("\(text) Retry.")
        case .report, .reasons: return .failed("The leader sent an invalid answer. Retry.")
        case nil:
            return .failed(
                "Cannot fail over: the node that leads the cluster did not answer in time. Retry."
            )
        }
    }

    package func startGracefulFailover(
        _ names: [String],
        by login: String
    ) async -> MembershipOutcome {
        var leaving: [NodeRecord] = []
        for name in names {
            guard let node = cluster.node(named: name) else {
                return .refused("Unknown server given.")
            }
            guard node.membership == .active else { return .refused("Inactive server given.") }
            leaving.append(node)
        }
        let kept = cluster.state.activeNodes.filter { node in
            !leaving.contains { $0.number == node.number }
        }
        guard !leaving.isEmpty else { return .refused("Unknown server given.") }
        guard !kept.isEmpty else { return .refused("Last active node cannot be failed over.") }
        if cluster.state.rebalance != nil { return .busy("Cannot failover during rebalance.") }
        let silent = cluster.state.nodes.map(\.number).filter {
            $0 != cluster.thisNode && cluster.isSilent($0)
        }
        // A graceful failover would wait as long as the node is down. If this node itself has no
        // quorum, the check below reports that instead.
        let hasQuorum = await cluster.hasQuorum
        if hasQuorum, let dead = leaving.first(where: { silent.contains($0.number) }) {
            return .refused(
                "Failover cannot be done gracefully: node \(dead.host):\(dead.ports.admin) does "
                    + "not answer, and nothing can be moved from it. Use a hard failover."
            )
        }
        guard
            cluster.state.canFailOverGracefully(
                leaving.map(\.number),
                silent: hasQuorum ? silent : []
            )
        else {
            return .refused(Self.wouldLose)
        }
        switch await start(.gracefulFailover, kept: kept, ejected: leaving, by: login) {
        case .running(let id): return .done(id)
        case .wouldLose: return .refused(Self.wouldLose)
        case .busy(let text): return .busy(text)
        case .failed(let text): return .failed(text)
        default: return .failed("The nodes of the cluster changed. Reload and retry.")
        }
    }

    private static let wouldLose = "Failover cannot be done gracefully (would lose vbuckets)."
}
