internal import Credentials
package import Orchestration
package import Seams
internal import Vocabulary

/// The event that each node writes of a change of users, the administrator or members: the login that
/// ordered it, and the node that proposed it.
///
/// A node in an attacker's hands can propose a change and name any login. The other nodes' events show
/// which node it was.
package struct ChangeTrail {
    package let severity: Severity
    package let kind: EventLog.Kind
    package let text: String

    /// The object of a command, what the command does to it, and details.
    private struct Deed {
        var kind = EventLog.Kind.settings
        var object: String
        var verb: String
        var more = ""
        /// Instead of the login of the envelope.
        var login: String?
    }

    /// The event of a proposal; nil if it writes none.
    ///
    /// - Parameters:
    ///   - envelope: The proposal.
    ///   - outcome: What it changed.
    ///   - before: The state before it.
    package init?(_ envelope: ClusterEnvelope, _ outcome: ClusterOutcome, before: ClusterState) {
        guard let deed = Self.deed(envelope.command, outcome, before) else { return nil }
        let login = Self.name(deed.login ?? envelope.login)
        let proposer = Self.place(envelope.proposer, before)
        kind = deed.kind
        switch outcome {
        case .applied(let effects):
            if effects.isEmpty { return nil }
            severity = .info
            text =
                "\(deed.object) was \(deed.verb) by \(login)\(deed.more). Proposed by \(proposer)."
        case .refused(.notPermitted):
            severity = .warning
            let permission = before.permission(for: envelope.command)?.text ?? ""
            text =
                "\(deed.object) was not \(deed.verb): \(login) lacks the permission \(permission). "
                + "Proposed by \(proposer), which has checked the login too, unless it has a fault or "
                + "is in other hands."
        case .refused, .repeated: return nil
        }
    }

    /// A login as events name it.
    static func name(_ login: String?) -> String {
        login.map(quoted) ?? "a rule of the cluster"
    }

    /// A user's name; a node with a fault may propose one that no user can have.
    private static func quoted(_ name: String) -> String {
        ClusterState.flaw(ofUserName: name) == nil
            ? "\"\(name)\"" : "(a name that no user can have)"
    }

    private static func deed(
        _ command: ClusterCommand,
        _ outcome: ClusterOutcome,
        _ before: ClusterState
    ) -> Deed? {
        switch command {
        case .setAdministrator: Deed(object: "The administrator", verb: "changed")
        case .putUser(let change):
            Deed(
                object: "The user \(quoted(change.id))",
                verb: before.user(change.id) == nil ? "created" : "changed",
                more: ", with \(list(change.roles))"
            )
        case .deleteUser(let id): Deed(object: "The user \(quoted(id))", verb: "deleted")
        case .changePassword(let change):
            Deed(object: "The password of the user \(quoted(change.id))", verb: "changed")
        case .changeAuthorities(let change):
            Deed(
                object: "The list of trusted CAs",
                verb: "changed",
                more: change.removed == 0
                    ? ", \(change.added.count) added" : ", \(change.removed) removed"
            )
        case .endRebalance: removal(outcome, before)
        default: before.isProvisioned ? deed(ofMembers: command, before) : nil
        }
    }

    private static func deed(ofMembers command: ClusterCommand, _ before: ClusterState) -> Deed? {
        switch command {
        case .addNode(let node):
            Deed(
                kind: .node,
                object: "Node \(node.host):\(node.ports.admin)",
                verb: "added",
                more: ", with the key \(node.keys.fingerprint)"
            )
        case .removeNode(let number):
            Deed(kind: .node, object: node([number], before), verb: "removed")
        case .setNodeState(let change) where change.recovery != .none:
            Deed(
                kind: .node,
                object: node([change.number], before),
                verb: "set to \(change.recovery.name) recovery"
            )
        case .setNodeState(let change) where change.membership == .inactiveFailed:
            Deed(kind: .node, object: node([change.number], before), verb: "left failed over")
        case .failOver(let step):
            Deed(kind: .node, object: node(step.nodes, before), verb: "failed over")
        case .startRebalance(let record): deed(of: record, before)
        default: nil
        }
    }

    private static func deed(of record: RebalanceRecord, _ before: ClusterState) -> Deed {
        let names = { (nodes: [NodeNumber]) in
            nodes.map { place($0, before) }.joined(separator: ", ")
        }
        guard record.kind == .rebalance else {
            return Deed(
                kind: .rebalance,
                object: "A graceful failover of \(names(record.ejected))",
                verb: "started"
            )
        }
        let new = record.kept.filter { before.node(number: $0)?.membership != .active }
        return Deed(
            kind: .rebalance,
            object: "A rebalance over \(names(record.kept))",
            verb: "started",
            more: (new.isEmpty ? "" : "; new there: \(names(new))")
                + (record.ejected.isEmpty ? "" : "; leaving: \(names(record.ejected))")
        )
    }

    /// The nodes that the end of a rebalance removes: those that its login named, unless one holds data.
    private static func removal(_ outcome: ClusterOutcome, _ before: ClusterState) -> Deed? {
        let removed = outcome.effects.compactMap { effect in
            if case .nodeRemoved(let node) = effect { node } else { nil }
        }
        guard !removed.isEmpty else { return nil }
        return Deed(
            kind: .node,
            object: node(removed, before),
            verb: "removed",
            more: ", at the end of a rebalance",
            login: before.rebalance?.login
        )
    }

    private static func node(_ numbers: [NodeNumber], _ state: ClusterState) -> String {
        "Node " + numbers.map { place($0, state) }.joined(separator: ", ")
    }

    private static func place(_ number: NodeNumber, _ state: ClusterState) -> String {
        state.node(number: number).map { "\($0.host):\($0.ports.admin)" } ?? "node \(number)"
    }

    private static func list(_ roles: Grants) -> String {
        guard !roles.roles.isEmpty else { return "no roles" }
        let texts = roles.roles.map(\.text)
        return (texts.count == 1 ? "the role " : "the roles ") + texts.joined(separator: ", ")
    }
}
