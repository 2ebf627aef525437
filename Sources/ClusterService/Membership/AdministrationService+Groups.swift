package import Orchestration
internal import Seams

/// Server groups, and this node's own name.
extension AdministrationService {
    package func addGroup(named name: String) async -> MembershipOutcome {
        let group = ServerGroup(name: name, uuid: environment.entropy.hex(16))
        return await set { GroupLayout(groups: $0.groups + [group], members: []) }
    }

    package func renameGroup(_ uuid: String, to name: String) async -> MembershipOutcome {
        await set { state in
            let groups = state.groups.map {
                $0.uuid == uuid ? ServerGroup(name: name, uuid: uuid) : $0
            }
            return GroupLayout(groups: groups, members: [])
        }
    }

    package func removeGroup(_ uuid: String) async -> MembershipOutcome {
        await set { GroupLayout(groups: $0.groups.filter { $0.uuid != uuid }, members: []) }
    }

    /// Assigns nodes to groups; other nodes stay in their group.
    ///
    /// - Returns: Nil if `revision` is not the current one.
    package func deal(
        _ members: [GroupLayout.Member],
        revision: UInt32
    ) async -> MembershipOutcome? {
        await trySetting(
            GroupLayout(groups: state.groups, members: members, revision: revision)
        )
    }

    /// Changes the current layout; retried if it was changed meanwhile.
    private func set(_ change: (ClusterState) -> GroupLayout) async -> MembershipOutcome {
        for _ in 0..<Self.layoutsMax {
            let state = state
            var layout = change(state)
            layout.revision = state.groupsRevision
            if let outcome = await trySetting(layout) { return outcome }
        }
        return .busy("The server groups are being changed by other requests. Reload and retry.")
    }

    private static var layoutsMax: Int { 10 }

    private func trySetting(_ layout: GroupLayout) async -> MembershipOutcome? {
        do throws(ClusterError) {
            switch try await member.propose(.setGroups(layout)) {
            case .applied, .repeated:
                logEvent(.info, .node, "The server groups were changed.")
                return .done("")
            case .refused(.changedMeanwhile): return nil
            case .refused(let refusal): return .refused(refusal.sentence)
            }
        } catch {
            return .failed("The cluster did not agree on it: \(error)")
        }
    }

    /// Sets the address at which external clients reach this node; nil removes it.
    package func setAlternate(_ address: AlternateAddress?) async -> MembershipOutcome {
        let change = AlternateChange(number: thisNode, address: address)
        guard let outcome = await carryMembership(.setAlternate(change)) else {
            let host = address.map { "are sent to \($0.host)" } ?? "have no address of their own"
            logEvent(.info, .node, "External clients \(host) for this node.")
            return .done("")
        }
        return outcome
    }

    /// Renames this node; only possible while the cluster has no other node.
    package func rename(to name: String) async -> MembershipOutcome {
        let state = state
        guard let own = state.node(number: thisNode) else {
            return .failed("This node is not ready yet.")
        }
        if own.host == name { return .done(own.otpNode) }
        guard state.nodes.count == 1 else { return .refused(Self.isKnownByName) }
        let question = ProbeRequest(host: name, port: own.ports.admin, path: "/pools")
        if case .unreachable(let reason) = await probe.ask(question) {
            return .refused("This node cannot be reached by the name \(name): \(reason)")
        }
        var address = NodeAddress(number: own.number, host: name, ports: own.ports)
        address.isOfLoneNode = true
        guard let outcome = await carryMembership(.setNode(address)) else {
            logEvent(.info, .node, "This node is known by the name \(name) now.")
            return .done(name)
        }
        // If a node was added meanwhile, the log has refused the new name.
        return self.state.nodes.count == 1 ? outcome : .refused(Self.isKnownByName)
    }

    private static let isKnownByName =
        "The node is part of a cluster with other nodes, which know it by its name: it cannot be "
        + "renamed."
}
