internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

/// Ejecting nodes without data, and recovering nodes that were failed over.
extension MembershipService {
    /// Ejects a node without data that counts: one that was added and not yet rebalanced in, or was
    /// failed over.
    package func eject(_ name: String, by login: String) async -> MembershipOutcome {
        guard let node = cluster.node(named: name) else { return .refused("Unknown server given.") }
        if let refusal = refusal(ofEjecting: node) { return refusal }
        guard await votesNoMore(node.number) else {
            return .busy(
                "\(name) still has a vote, which is being removed. Retry in a moment."
            )
        }
        let isSelf = node.number == cluster.thisNode
        var outcome = await cluster.carryMembership(.removeNode(node.number), by: login)
        // A node that ejects itself may learn of its removal before the answer arrives. It can be
        // added again once it has a new identity.
        switch outcome {
        case nil, .failed:
            let isGone = { (state: ClusterState) in !state.isProvisioned && !state.nodes.isEmpty }
            if isSelf,
                await cluster.whenChanged(within: Cluster.engageTimeoutNanoseconds, until: isGone)
            {
                outcome = nil
            }
        default: break
        }
        guard let outcome else {
            return .done(name)
        }
        // The log applies the same rules: report its refusal in the same words.
        guard case .refused = outcome, let now = self.cluster.node(named: name) else {
            return outcome
        }
        return refusal(ofEjecting: now) ?? outcome
    }

    private func refusal(ofEjecting node: NodeRecord) -> MembershipOutcome? {
        guard node.membership != .active else {
            return .refused(
                "Only nodes that are not active can be ejected: \(node.otpNode) serves documents. "
                    + "Rebalance it out, or fail it over first."
            )
        }
        return cluster.state.rebalance == nil ? nil : .busy("Cannot eject a node during rebalance.")
    }

    /// Waits until a node that is to be removed has no vote, by this node's log.
    ///
    /// The node deletes its history as soon as it learns of its removal. If it were one of two
    /// voters then, the other voter would have no majority.
    private func votesNoMore(_ node: NodeNumber) async -> Bool {
        let deadline = cluster.monotonicNanoseconds + Self.voteTimeoutNanoseconds
        while cluster.member.driver.status.configuration.isVoter(node) {
            let isInTime = cluster.monotonicNanoseconds < deadline
            guard cluster.state.nodes.count > 1, cluster.isServing, isInTime else {
                return cluster.state.nodes.count <= 1
            }
            _ = await cluster.whenChanged(within: 50_000_000) { _ in false }
        }
        return true
    }

    private static let voteTimeoutNanoseconds: UInt64 = 10_000_000_000

    /// Sets how a failed-over node is recovered by the next rebalance.
    package func setRecovery(
        _ name: String,
        _ recovery: RecoveryType,
        by login: String
    ) async -> MembershipOutcome {
        guard let node = cluster.node(named: name) else { return .refused("Unknown server given.") }
        guard node.membership == .inactiveFailed || node.recovery != .none else {
            return .refused(
                "A recovery type can be set only for a node that was failed over, and \(name) was "
                    + "not."
            )
        }
        guard recovery != .none || node.recovery != .none else {
            return .refused(
                "\(name) is failed over and has no recovery type to remove. The next rebalance "
                    + "removes the node; setRecoveryType keeps it."
            )
        }
        let change = NodeStateChange(
            number: node.number,
            membership: recovery == .none ? .inactiveFailed : .inactiveAdded,
            recovery: recovery
        )
        return await cluster.carryMembership(.setNodeState(change), by: login) ?? .done(name)
    }
}
