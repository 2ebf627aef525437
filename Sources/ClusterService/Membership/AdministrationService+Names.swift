internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Whether the names of nodes are of use on other machines.
///
/// A loopback address leads every machine to itself: a map that has one sends clients elsewhere to
/// the wrong place. So either all nodes of a cluster are known by such, on one machine, or none is.
extension AdministrationService {
    // MARK: This node's own name

    /// Has the cluster know where this node is reached now.
    func announceAddress() async throws(ClusterError) {
        guard let (host, ports) = core.withLock({ $0.address }) else { return }
        let member = member
        guard let known = state.node(number: member.node) else {
            var node = NewNode(
                uuid: member.identity.nodeUUID,
                host: Self.reachable(host),
                ports: ports
            )
            node.memoryTotal = settings.memoryTotal
            _ = try await member.propose(.addNode(node))
            return
        }
        var address = address(host, ports, instead: known)
        address.memoryTotal = settings.memoryTotal
        if known.host != address.host || known.ports != address.ports
            || known.memoryTotal != settings.memoryTotal
        {
            _ = try await member.propose(.setNode(address))
        }
        let isHidden = isHidden(host, known)
        if isHidden {
            tell(
                .warning,
                .node,
                "This node listens on \(host) only, where the other nodes and their clients, which "
                    + "know it as \(known.host), do not reach it: start it with --bind and that "
                    + "address, or 0.0.0.0 for all."
            )
        }
    }

    /// A name that others know this node by stays, where the one it listens on says nothing.
    private func address(
        _ host: String,
        _ ports: NodePorts,
        instead known: NodeRecord
    ) -> NodeAddress {
        let isNamed = !known.isLoopback && known.host.contains { $0.isLetter && !$0.isHexDigit }
        let isKept =
            Self.isAnywhere(host) || isNamed || isHidden(host, known) || host == known.host
        return NodeAddress(number: known.number, host: isKept ? known.host : host, ports: ports)
    }

    /// Where this node is now, and whether that is what is agreed on as far as it knows; nil where it
    /// knows of no others.
    private var currentAddress: (address: NodeAddress, isKnown: Bool)? {
        guard let (host, ports) = core.withLock({ $0.address }),
            let known = state.node(number: thisNode), state.members.count > 1
        else { return nil }
        let address = address(host, ports, instead: known)
        return (address, known.host == address.host && known.ports == address.ports)
    }

    var isKnownByItsAddress: Bool { currentAddress?.isKnown ?? true }

    /// Says to whomever it reaches where this node is, as they may dial it where it was.
    ///
    /// Also where that is what it knows to be agreed on: that may be of before another start. On the
    /// control lane.
    func tellPlace() {
        for other in state.members where other.number != thisNode { tellPlace(to: other.number) }
    }

    /// The same to one of them, who may have missed it, or know only of a start before the last.
    func tellPlace(to other: NodeNumber) {
        guard let (address, _) = currentAddress, address.ports.peer != 0 else { return }
        let place = PeerPlace(thisNode, host: address.host, port: address.ports.peer).bytes
        calls.send(PeerKind.place, place, to: other, isBulk: false)
    }

    /// Whether it is not found where it listens by others, which know it by an address of its own.
    private func isHidden(_ host: String, _ known: NodeRecord) -> Bool {
        let others = state.members.filter { $0.number != known.number }
        return Self.isLoopback(digits: host) && !known.isLoopback
            && others.contains { !$0.isLoopback }
    }

    /// Who listens on every address is known by the one a client used, as on loopback.
    private static func reachable(_ host: String) -> String {
        switch host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: host
        }
    }

    // MARK: Those of others

    /// Sees to it that `other`, known as `host`, and the nodes there are reach each other.
    ///
    /// - Returns: Why they would not; nil where they do.
    func reconcileNames(
        _ other: NodeDescription,
        as host: String
    ) async -> MembershipOutcome? {
        let members = state.members
        let reached = await reachedFromElsewhere(members)
        if await isLoopback(host) {
            guard let reached else { return nil }
            return .refused(
                "Prepare join failed. \"\(host)\" leads every machine to itself, and the nodes of "
                    + "this cluster are known by names that lead to them from elsewhere, such as "
                    + "\(reached.host). Add the node by an address of that kind, or by a host name "
                    + "that has one. A node that joins by itself takes one where it asks for "
                    + "\(reached.place)."
            )
        }
        guard reached == nil, members.contains(where: \.isLoopback) else { return nil }
        guard members.count == 1, let own = members.first, own.number == thisNode else {
            return .refused(
                "Prepare join failed. The nodes of this cluster know each other by loopback "
                    + "addresses, so \(host) could not reach them. Add it by a loopback address "
                    + "where it runs on the same machine; else make the cluster anew of nodes that "
                    + "are added by addresses that others reach."
            )
        }
        return await takeAddress(other.ownAddress, insteadOf: own, for: host)
    }

    /// A lone node that was known by a loopback address is known by the one that `host` sees.
    private func takeAddress(
        _ address: String,
        insteadOf own: NodeRecord,
        for host: String
    ) async -> MembershipOutcome? {
        if let bound = core.withLock({ $0.address?.host }), Self.isLoopback(digits: bound) {
            return .refused(
                "Prepare join failed. This node listens on \(bound) only, where \(host) could not "
                    + "reach it. Start it with --bind and an address that others reach, or 0.0.0.0 "
                    + "for all of them."
            )
        }
        guard !address.isEmpty, !Self.isLoopback(digits: address) else {
            return .refused(
                "Prepare join failed. This node is known by the loopback address \(own.host), so "
                    + "\(host) could not reach it. Give it a name that others reach "
                    + "(POST /node/controller/rename)."
            )
        }
        var change = NodeAddress(number: own.number, host: address, ports: own.ports)
        change.isOfLoneNode = true
        do throws(ClusterError) {
            switch try await member.propose(.setNode(change)) {
            // Another node came in: the caller finds other names, and has all judged again.
            case .applied, .repeated, .refused(.changedMeanwhile): return nil
            case .refused(let refusal): return .refused(refusal.sentence)
            }
        } catch {
            return .failed("The cluster did not agree on it: \(error)")
        }
    }

    /// The first of them whose name does not lead every machine to itself.
    private func reachedFromElsewhere(_ nodes: [NodeRecord]) async -> NodeRecord? {
        for node in nodes where !node.isLoopback {
            if await !isLoopback(node.host) { return node }
        }
        return nil
    }

    /// Whether a name or an address leads to no other machine than the one that asks.
    ///
    /// A name that nobody here knows is taken for one that is known elsewhere.
    func isLoopback(_ host: String) async -> Bool {
        if host.lowercased() == "localhost" { return true }
        let found = await withUnsafeContinuation { waiter in
            environment.network.resolve(host) { waiter.resume(returning: $0) }
        }
        guard case .success(let addresses) = found else { return false }
        return !addresses.isEmpty
            && addresses.allSatisfy { Self.isLoopback(digits: $0) || Self.isAnywhere($0) }
    }

    /// An IP address in any spelling.
    private static func isLoopback(digits host: String) -> Bool {
        if SocketAddress(host: host, port: 0).isLoopback { return true }
        guard host.contains(":") else { return false }
        let isLast = host.filter { $0 != "0" && $0 != ":" } == "1" && host.hasSuffix("1")
        return isLast || host.lowercased().hasPrefix("::ffff:127.")
    }

    /// What stands for all addresses of a machine, and for itself where one connects to it.
    private static func isAnywhere(_ host: String) -> Bool { host == "0.0.0.0" || host == "::" }
}

extension NodeRecord {
    /// Where it is administered.
    fileprivate var place: String {
        SocketAddress(host: host, port: ports.admin).description
    }
}
