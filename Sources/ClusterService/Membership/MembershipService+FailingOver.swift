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
    /// - Returns: What may be lost.
    /// - Throws: `refused`, `busy` or `failed`.
    package func failOver(
        _ names: [String],
        by login: String,
        isUnsafe: Bool = false
    ) async throws(AdministrationError) -> String {
        let hasQuorum = await cluster.hasQuorum
        if isUnsafe, !hasQuorum { return try await epochs.formEpoch(without: names, by: login) }
        let (leaving, _) = try split(names)
        let nodes = leaving.map(\.number)
        // Without a quorum, seal no copies: the failover could not be agreed on.
        guard hasQuorum else { throw .failed(await cluster.noQuorumSentence(without: nodes)) }
        switch await cluster.askLeader(
            .failOver(nodes, by: login),
            timeoutNanoseconds: 15_000_000_000
        ) {
        case .done(let text): return text
        case .refused(let text): throw .busy("\(text) Retry.")
        case .report, .reasons: throw .failed("The leader sent an invalid answer. Retry.")
        case nil:
            throw .failed(
                "Cannot fail over: the node that leads the cluster did not answer in time. Retry."
            )
        }
    }

    /// The active nodes of these names, and the other active ones.
    private func split(
        _ names: [String]
    ) throws(AdministrationError) -> (leaving: [NodeRecord], kept: [NodeRecord]) {
        var leaving: [NodeRecord] = []
        for name in names {
            let node = try require(name)
            guard node.membership == .active else { throw .refused("Inactive server given.") }
            leaving.append(node)
        }
        let kept = cluster.state.activeNodes.filter { node in
            !leaving.contains { $0.number == node.number }
        }
        guard !leaving.isEmpty else { throw .refused("Unknown server given.") }
        guard !kept.isEmpty else { throw .refused("Last active node cannot be failed over.") }
        return (leaving, kept)
    }

    /// Starts to move all active vBuckets from nodes, which are failed over then.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    package func startGracefulFailover(
        _ names: [String],
        by login: String
    ) async throws(AdministrationError) {
        let (leaving, kept) = try split(names)
        if cluster.state.rebalance != nil { throw .busy("Cannot failover during rebalance.") }
        let silent = cluster.state.nodes.map(\.number).filter {
            $0 != cluster.thisNode && cluster.isSilent($0)
        }
        // A graceful failover would wait as long as the node is down. If this node itself has no
        // quorum, the check below reports that instead.
        let hasQuorum = await cluster.hasQuorum
        if hasQuorum, let dead = leaving.first(where: { silent.contains($0.number) }) {
            throw .refused(
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
            throw Self.wouldLose
        }
        do throws(AdministrationError) {
            _ = try await start(.gracefulFailover, kept: kept, ejected: leaving, by: login)
        } catch {
            guard case .unplannable(let flaw) = error else { throw error }
            throw flaw == .wouldLose
                ? Self.wouldLose : .failed("The nodes of the cluster changed. Reload and retry.")
        }
    }

    private static let wouldLose = AdministrationError.refused(
        "Failover cannot be done gracefully (would lose vbuckets)."
    )
}
