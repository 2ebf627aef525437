internal import Vocabulary

/// Voters of the cluster's log, joining nodes, the feature level and the shared secret.
extension Reconciler {
    /// A node that has not joined after this time is removed again.
    private static let joinTimeoutNanoseconds: UInt64 = 60_000_000_000
    /// A new voter catches up on so few entries in a moment.
    private static let entriesBehindMax: UInt64 = 1_000

    func isVoterCandidate(_ node: NodeNumber, _ view: LeaderView) -> Bool {
        // A voter counts for the majority. If a second voter never answered, the first could agree on
        // nothing, not even on removing that voter.
        view.log.voters.contains(node)
            || view.log.responsive.contains(node)
                && (view.log.matched[node] ?? 0) + Self.entriesBehindMax >= view.log.commit
    }

    /// Makes the log's voters match the state: active nodes vote, others learn.
    mutating func reconcileVoters(_ view: LeaderView) {
        let steps = voterSteps(view)
        guard !steps.isEmpty, begin(.voters) else { return }
        changeVoters(steps) { reconciler, _ in reconciler.end(.voters) }
    }

    /// The next change of the voters; empty if none is due.
    mutating func voterSteps(_ view: LeaderView) -> [VoterStep] {
        let log = view.log
        guard !log.isJoint else { return [] }
        let leaving = leavingVoters(view)
        let plan = VoterPlan(
            view.state.members.map { node in
                VoterPlan.Member(
                    node.number,
                    group: node.group,
                    isActive: node.membership == .active && !leaving.contains(node.number)
                        && isVoterCandidate(node.number, view)
                )
            },
            present: log.voters
        )
        guard !plan.voters.isEmpty, plan.voters != log.voters || plan.learners != log.learners
        else { return [] }
        // A leader that is to be removed first hands its leadership over.
        if !plan.voters.contains(view.node) {
            let dead = view.deadNodes
            let successors = plan.voters.filter {
                log.voters.contains($0) && !dead.contains($0) && log.heard.contains($0)
            }
            let furthest = successors.map { log.matched[$0] ?? 0 }.max()
            let successor = successors.first { log.matched[$0] ?? 0 == furthest }
            if let successor { actions.append(.transferLeadership(to: successor)) }
            // If no remaining node votes yet, add their votes before removing others.
            let isBare = !plan.voters.contains { log.voters.contains($0) }
            return isBare ? plan.voters.map { .addVoter($0) } : []
        }
        let wanted = plan.voters + plan.learners
        return plan.voters.filter { !log.voters.contains($0) }.map { .addVoter($0) }
            + plan.learners.filter { !log.learners.contains($0) }.map { .addLearner($0) }
            + log.members.filter { !wanted.contains($0) }.map { .remove($0) }
    }

    /// Raises the cluster's feature level once all members announce a higher one.
    mutating func raiseFeatureLevel(_ view: LeaderView) {
        guard view.state.announcedLevel > view.state.featureLevel else { return }
        propose(.raiseFeatureLevel(view.state.announcedLevel), as: .featureLevel)
    }

    mutating func renewSecret(_ view: LeaderView) {
        if let secret = view.renewedSecret { propose(.renewSecret(secret), as: .secret) }
    }

    /// Completes joins: nodes with the metadata become members, nodes that never answer are
    /// removed.
    mutating func finishJoins(_ view: LeaderView) {
        let joining = view.state.nodes.filter { $0.membership == .joining }.map(\.number)
        waits.joins = waits.joins.filter { joining.contains($0.key) }
        for node in joining {
            let since = waits.joins[node] ?? view.now
            waits.joins[node] = since
            if let matched = view.log.matched[node], matched >= view.state.index {
                let change = NodeStateChange(number: node, membership: .inactiveAdded)
                propose(.setNodeState(change), as: .join(node))
            } else if view.now - since > Self.joinTimeoutNanoseconds, begin(.join(node)) {
                log(
                    .warning,
                    .node,
                    text:
                        "Node \(view.name(node)) did not join in time and was removed. Check that it runs, "
                        + "and add it again."
                )
                propose(.removeNode(node)) { reconciler, _, _ in reconciler.end(.join(node)) }
            }
        }
    }
}
