package import Vocabulary

/// Commands that change users, the administrator or members need a login with a permission.
///
/// Every node checks it when it applies the command, so a node that proposes what its login may not
/// order changes nothing. A node that is in an attacker's hands can name any login.
extension ClusterState {
    /// The permission that the login of a command needs; nil if the command needs no login.
    ///
    /// Rules of the cluster need none: the automatic failover, the end of a join, the removal of nodes
    /// that did not join in time or that a new epoch left behind, and the end of what was permitted.
    package func permission(for command: ClusterCommand) -> Permission? {
        guard isProvisioned else { return nil }
        switch command {
        // A node that was provisioned before it listens announces itself only then.
        case .addNode where nodes.isEmpty: return nil
        case .setAdministrator, .putUser, .deleteUser, .changePassword, .addNode,
            .changeAuthorities:
            return .securityWrite
        case .removeNode(let number):
            let membership = node(number: number)?.membership
            return membership == .joining || membership == .leftBehind ? nil : .poolsWrite
        case .setNodeState(let change):
            return node(number: change.number)?.membership == .joining ? nil : .poolsWrite
        case .failOver(let step):
            // The end of a graceful failover was permitted at its start.
            let isEnd = rebalance?.kind == .gracefulFailover && rebalance?.ejected == step.nodes
            return (step.isAutomatic || isEnd) && !step.mayLose ? nil : .poolsWrite
        case .startRebalance: return .poolsWrite
        default: return nil
        }
    }

    /// Whether the administrator or a local user has a permission.
    ///
    /// - Parameters:
    ///   - login: Its name; nil has no permission.
    ///   - permission: The permission.
    /// - Returns: Whether it has it, by its present roles.
    package func allows(_ login: String?, _ permission: Permission) -> Bool {
        login.flatMap(grants(ofUser:))?.allows(permission) ?? false
    }

    /// Whether two names have the same bytes: other names that look alike are those of other users.
    private func isSame(_ name: String, _ login: String?) -> Bool {
        login.map { $0.utf8.elementsEqual(name.utf8) } ?? false
    }

    func mayApply(_ envelope: ClusterEnvelope) -> Bool {
        guard let permission = permission(for: envelope.command) else { return true }
        switch envelope.command {
        // The record keeps the login, for the removal of nodes at the end.
        case .startRebalance(let record) where record.login != envelope.login: return false
        // Every user may change its own password.
        case .changePassword(let change) where isSame(change.id, envelope.login): return true
        default: return allows(envelope.login, permission)
        }
    }
}
