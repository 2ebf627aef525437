package import Orchestration
internal import Seams

/// Server groups.
extension MembershipService {
    package func addGroup(named name: String) async -> MembershipOutcome {
        let group = ServerGroup(name: name, uuid: cluster.environment.entropy.hex(16))
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
            GroupLayout(groups: cluster.state.groups, members: members, revision: revision)
        )
    }

    /// Changes the current layout; retried if it was changed meanwhile.
    private func set(_ change: (ClusterState) -> GroupLayout) async -> MembershipOutcome {
        for _ in 0..<Self.layoutsMax {
            let state = cluster.state
            var layout = change(state)
            layout.revision = state.groupsRevision
            if let outcome = await trySetting(layout) { return outcome }
        }
        return .busy("The server groups are being changed by other requests. Reload and retry.")
    }

    private static var layoutsMax: Int { 10 }

    private func trySetting(_ layout: GroupLayout) async -> MembershipOutcome? {
        do throws(ClusterError) {
            switch try await cluster.member.propose(.setGroups(layout)) {
            case .applied, .repeated:
                cluster.logEvent(.info, .node, "The server groups were changed.")
                return .done("")
            case .refused(.changedMeanwhile): return nil
            case .refused(let refusal): return .refused(refusal.sentence)
            }
        } catch {
            return .failed("The cluster did not agree on it: \(error)")
        }
    }
}
