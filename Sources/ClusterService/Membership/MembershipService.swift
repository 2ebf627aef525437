internal import Bytes
internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

/// Requests about the nodes of the cluster: adding, failing over, rebalance, ejecting, server groups.
///
/// A request can be sent to any node.
package final class MembershipService: Sendable {
    struct Core {
        /// Addresses from which a request to join is being checked.
        var joinLogins: Set<String> = []
        /// The rebalance report that was last shown; reported progress never decreases.
        var shown: (rebalance: String, report: RebalanceReport)?
    }

    let cluster: Cluster
    let users: UserService
    let addresses: AddressService
    let engagement: EngagementService
    let epochs: EpochService
    let core = Guarded(Core())

    init(_ epochs: EpochService, _ users: UserService) {
        cluster = epochs.cluster
        engagement = epochs.engagement
        addresses = engagement.addresses
        (self.epochs, self.users) = (epochs, users)
    }

    // MARK: Server groups

    /// Adds a server group without nodes.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    package func addGroup(named name: String) async throws(AdministrationError) {
        let group = ServerGroup(name: name, uuid: cluster.environment.entropy.hex(16))
        try await set { GroupLayout(groups: $0.groups + [group], members: []) }
    }

    /// Renames a server group.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    package func renameGroup(_ uuid: String, to name: String) async throws(AdministrationError) {
        try await set { state in
            let groups = state.groups.map {
                $0.uuid == uuid ? ServerGroup(name: name, uuid: uuid) : $0
            }
            return GroupLayout(groups: groups, members: [])
        }
    }

    /// Removes a server group without nodes.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    package func removeGroup(_ uuid: String) async throws(AdministrationError) {
        try await set { GroupLayout(groups: $0.groups.filter { $0.uuid != uuid }, members: []) }
    }

    /// Assigns nodes to groups; other nodes stay in their group.
    ///
    /// - Throws: `overtaken` if `revision` is not the current one, `refused` or `failed`.
    package func deal(
        _ members: [GroupLayout.Member],
        revision: UInt32
    ) async throws(AdministrationError) {
        try await setGroups(
            GroupLayout(groups: cluster.state.groups, members: members, revision: revision)
        )
    }

    /// Changes the current layout; retried if it was changed meanwhile.
    private func set(
        _ change: (ClusterState) -> GroupLayout
    ) async throws(AdministrationError) {
        for _ in 0..<Self.layoutsMax {
            let state = cluster.state
            var layout = change(state)
            layout.revision = state.groupsRevision
            do throws(AdministrationError) {
                return try await setGroups(layout)
            } catch {
                guard error == .overtaken else { throw error }
            }
        }
        throw .busy("The server groups are being changed by other requests. Reload and retry.")
    }

    private static var layoutsMax: Int { 10 }

    private func setGroups(_ layout: GroupLayout) async throws(AdministrationError) {
        let outcome: ClusterOutcome
        do throws(ClusterError) {
            outcome = try await cluster.member.propose(.setGroups(layout))
        } catch {
            throw .failed(error)
        }
        switch outcome {
        case .applied, .repeated:
            cluster.logEvent(.info, .node, "The server groups were changed.")
        case .refused(.changedMeanwhile): throw .overtaken
        case .refused(let refusal): throw .refused(refusal.sentence)
        }
    }

    // MARK: Ejecting nodes without data, and recovering nodes that were failed over

    /// Ejects a node without data that counts: one that was added and not yet rebalanced in, or was
    /// failed over.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    package func eject(_ name: String, by login: String) async throws(AdministrationError) {
        let node = try require(name)
        if let refusal = refusal(ofEjecting: node) { throw refusal }
        guard await votesNoMore(node.number) else {
            throw .busy("\(name) still has a vote, which is being removed. Retry in a moment.")
        }
        let isSelf = node.number == cluster.thisNode
        let result = await Result(
            of: try await cluster.carryMembership(.removeNode(node.number), by: login)
        )
        switch result {
        case .failure(.refused(let sentence)):
            // The log applies the same rules: report its refusal in the same words.
            throw cluster.node(named: name).flatMap(refusal(ofEjecting:)) ?? .refused(sentence)
        case .success, .failure:
            // A node that ejects itself may learn of its removal before the answer arrives. It can be
            // added again once it has a new identity.
            let isGone = { (state: ClusterState) in !state.isProvisioned && !state.nodes.isEmpty }
            if isSelf,
                await cluster.whenChanged(within: Cluster.engageTimeoutNanoseconds, until: isGone)
            {
                return
            }
        }
        try result.get()
    }

    func require(_ name: String) throws(AdministrationError) -> NodeRecord {
        guard let node = cluster.node(named: name) else {
            throw .refused("Unknown server given.")
        }
        return node
    }

    private func refusal(ofEjecting node: NodeRecord) -> AdministrationError? {
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
    ///
    /// - Throws: `refused` or `failed`.
    package func setRecovery(
        _ name: String,
        _ recovery: RecoveryType,
        by login: String
    ) async throws(AdministrationError) {
        let node = try require(name)
        guard node.membership == .inactiveFailed || node.recovery != .none else {
            throw .refused(
                "A recovery type can be set only for a node that was failed over, and \(name) was "
                    + "not."
            )
        }
        guard recovery != .none || node.recovery != .none else {
            throw .refused(
                "\(name) is failed over and has no recovery type to remove. The next rebalance "
                    + "removes the node; setRecoveryType keeps it."
            )
        }
        let change = NodeStateChange(
            number: node.number,
            membership: recovery == .none ? .inactiveFailed : .inactiveAdded,
            recovery: recovery
        )
        try await cluster.carryMembership(.setNodeState(change), by: login)
    }
}
