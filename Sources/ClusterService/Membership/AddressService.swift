internal import Bytes
internal import Credentials
package import Orchestration
internal import Seams
internal import Vocabulary

/// Whether the names of nodes can be used on other machines.
///
/// A loopback address leads every machine to itself: a cluster map with one sends remote clients to
/// the wrong node. So either all nodes of a cluster have loopback addresses, on one machine, or
/// none.
package final class AddressService: Sendable {
    let cluster: Cluster
    let probe: any NodeProbe

    init(_ cluster: Cluster, _ probe: any NodeProbe) {
        (self.cluster, self.probe) = (cluster, probe)
    }

    /// The address at which this node listens.
    struct Address {
        let host: String
        let ports: NodePorts
    }

    // MARK: This node's own name

    /// Announces this node's current address to the cluster.
    ///
    /// - Throws: `ClusterError` if the cluster does not agree on the address.
    func announceAddress() async throws(ClusterError) {
        guard let own = cluster.core.withLock({ $0.address }) else { return }
        let (host, ports) = (own.host, own.ports)
        let member = cluster.member
        guard let known = cluster.state.node(number: member.node) else {
            var node = NewNode(
                uuid: member.identity.nodeUUID,
                host: Self.reachable(host),
                ports: ports,
                keys: member.identity.secrets.publicKeys
            )
            node.memoryTotal = cluster.settings.memoryTotal
            node.level = cluster.settings.level
            _ = try await member.propose(.addNode(node))
            return
        }
        var address = address(host, ports, instead: known)
        address.memoryTotal = cluster.settings.memoryTotal
        address.level = cluster.settings.level
        if known.host != address.host || known.ports != address.ports
            || known.memoryTotal != cluster.settings.memoryTotal
            || known.level != cluster.settings.level
        {
            _ = try await member.propose(.setNode(address))
        }
        let isHidden = isHidden(host, known)
        if isHidden {
            cluster.logEvent(
                .warning,
                .node,
                "This node listens on \(host) only, where the other nodes and their clients, which "
                    + "know it as \(known.host), cannot reach it. Start it with --bind and that "
                    + "address, or 0.0.0.0 for all addresses."
            )
        }
    }

    func announceUntilKnown() async {
        while !cluster.isStopped {
            do throws(ClusterError) {
                if !cluster.isInvited { return try await announceAddress() }
                await cluster.member.sleep(milliseconds: 1_000)
            } catch {
                await cluster.member.sleep(milliseconds: 1_000)
            }
        }
    }

    /// Keeps the name by which the cluster knows this node if the listening address is less
    /// specific.
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

    /// This node's address, and whether the applied state has it; nil if the state has no other
    /// nodes.
    private var currentAddress: (address: NodeAddress, isKnown: Bool)? {
        guard let own = cluster.core.withLock({ $0.address }),
            let known = cluster.state.node(number: cluster.thisNode),
            cluster.state.members.count > 1
        else { return nil }
        let address = address(own.host, own.ports, instead: known)
        return (address, known.host == address.host && known.ports == address.ports)
    }

    /// The cluster has agreed on this node's address and on the feature level that it announces.
    var isKnownAsItIs: Bool {
        guard let current = currentAddress else { return true }
        return current.isKnown
            && cluster.state.node(number: cluster.thisNode)?.level == cluster.settings.level
    }

    /// Sends this node's address to every other node, which may still dial an older one.
    ///
    /// Sends the address even if the applied state has it: that state may be older than the last restart.
    /// On the control lane.
    func sendPlace() {
        for other in cluster.state.members where other.number != cluster.thisNode {
            sendPlace(to: other.number)
        }
    }

    /// Sends this node's address to one node, which may have missed it or know an older one.
    func sendPlace(to other: NodeNumber) {
        guard let (address, _) = currentAddress, address.ports.peer != 0 else { return }
        let place = PeerPlace(
            node: cluster.thisNode,
            host: address.host,
            port: address.ports.peer,
            key: cluster.member.identity.secrets.publicKeys.identity
        ).encoded
        cluster.calls.send(PeerKind.place, place, to: other, isBulk: false)
    }

    /// Whether this node listens only on loopback while other nodes know it by another address.
    private func isHidden(_ host: String, _ known: NodeRecord) -> Bool {
        let others = cluster.state.members.filter { $0.number != known.number }
        return Self.isLoopback(digits: host) && !known.isLoopback
            && others.contains { !$0.isLoopback }
    }

    /// The name of a node that listens on all addresses is a loopback address, in place of which
    /// each client gets the address that it used.
    private static func reachable(_ host: String) -> String {
        switch host {
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: host
        }
    }

    /// Sets the address at which external clients reach this node; nil removes it.
    ///
    /// - Throws: `refused` or `failed`.
    package func setAlternate(_ address: AlternateAddress?) async throws(AdministrationError) {
        let change = AlternateChange(number: cluster.thisNode, address: address)
        try await cluster.carryMembership(.setAlternate(change))
        let host = address.map { "are sent to \($0.host)" } ?? "have no address of their own"
        cluster.logEvent(.info, .node, "External clients \(host) for this node.")
    }

    /// Renames this node; only possible while the cluster has no other node.
    ///
    /// - Throws: `refused` or `failed`.
    package func rename(to name: String) async throws(AdministrationError) {
        let state = cluster.state
        guard let own = state.node(number: cluster.thisNode) else {
            throw .failed("This node is not ready yet.")
        }
        if own.host == name { return }
        guard state.nodes.count == 1 else { throw .refused(Self.isKnownByName) }
        let question = ProbeRequest(host: name, port: own.ports.admin, path: "/pools")
        if case .unreachable(let reason) = await probe.ask(question) {
            throw .refused("This node cannot be reached by the name \(name): \(reason)")
        }
        var address = NodeAddress(number: own.number, host: name, ports: own.ports)
        address.isOfLoneNode = true
        do throws(AdministrationError) {
            try await cluster.carryMembership(.setNode(address))
        } catch {
            // If a node was added meanwhile, the log has refused the new name.
            throw cluster.state.nodes.count == 1 ? error : .refused(Self.isKnownByName)
        }
        cluster.logEvent(.info, .node, "This node is known by the name \(name) now.")
    }

    private static let isKnownByName =
        "The node is part of a cluster with other nodes, which know it by its name: it cannot be "
        + "renamed."

    // MARK: Names of other nodes

    /// Checks that a node known as `host` and the nodes of the cluster can reach each other.
    ///
    /// - Parameters:
    ///   - host: The new node's name.
    ///   - ownAddress: This node's address on a connection with the new node.
    ///   - isChanging: Whether this node gets that address as its name if it has none that others reach.
    /// - Throws: `refused` if they cannot, or `failed`.
    func reconcileNames(
        as host: String,
        ownAddress: String,
        isChanging: Bool = true
    ) async throws(AdministrationError) {
        let members = cluster.state.members
        let reached = await reachedFromElsewhere(members)
        if await isLoopback(host) {
            guard let reached else { return }
            throw .refused(
                "Prepare join failed. \"\(host)\" leads every machine to itself, but the nodes of "
                    + "this cluster have names that other machines can reach, such as "
                    + "\(reached.host). Add the node by such an address or host name. A node that "
                    + "joins by its own request gets one if it names \(reached.place)."
            )
        }
        guard reached == nil, members.contains(where: \.isLoopback) else { return }
        guard members.count == 1, let own = members.first, own.number == cluster.thisNode else {
            throw .refused(
                "Prepare join failed. The nodes of this cluster know each other by loopback "
                    + "addresses, so \(host) could not reach them. Add it by a loopback address if "
                    + "it runs on the same machine. Otherwise create a new cluster of nodes that "
                    + "are added by reachable addresses."
            )
        }
        try await renameLoneNode(
            ownAddress,
            insteadOf: own,
            for: host,
            isChanging: isChanging
        )
    }

    /// Renames a lone node with a loopback address to the address under which `host` sees it.
    private func renameLoneNode(
        _ address: String,
        insteadOf own: NodeRecord,
        for host: String,
        isChanging: Bool
    ) async throws(AdministrationError) {
        if let bound = cluster.core.withLock({ $0.address?.host }), Self.isLoopback(digits: bound) {
            throw .refused(
                "Prepare join failed. This node listens on \(bound) only, where \(host) could not "
                    + "reach it. Start it with --bind and a reachable address, or 0.0.0.0 for all "
                    + "addresses."
            )
        }
        guard !address.isEmpty, !Self.isLoopback(digits: address) else {
            throw .refused(
                "Prepare join failed. This node is known by the loopback address \(own.host), so "
                    + "\(host) could not reach it. Give it a reachable name "
                    + "(POST /node/controller/rename)."
            )
        }
        guard isChanging else { return }
        var change = NodeAddress(number: own.number, host: address, ports: own.ports)
        change.isOfLoneNode = true
        // If another node was added, the caller sees other names and checks again.
        try await cluster.carryMembership(.setNode(change), expecting: .changedMeanwhile)
    }

    /// The first node whose name is not a loopback address; nil if there is none.
    private func reachedFromElsewhere(_ nodes: [NodeRecord]) async -> NodeRecord? {
        for node in nodes where !node.isLoopback {
            if await !isLoopback(node.host) { return node }
        }
        return nil
    }

    /// Whether a name or an address leads to this machine itself.
    ///
    /// A name that cannot be resolved here is assumed to be known elsewhere.
    func isLoopback(_ host: String) async -> Bool {
        if host.lowercased() == "localhost" { return true }
        let found = await withUnsafeContinuation { waiter in
            cluster.environment.network.resolve(host) { waiter.resume(returning: $0) }
        }
        guard case .success(let addresses) = found else { return false }
        return !addresses.isEmpty
            && addresses.allSatisfy { Self.isLoopback(digits: $0) || Self.isAnywhere($0) }
    }

    /// Whether an IP address, in any spelling, is a loopback address.
    private static func isLoopback(digits host: String) -> Bool {
        if SocketAddress(host: host, port: 0).isLoopback { return true }
        guard host.contains(":") else { return false }
        let isLast = host.filter { $0 != "0" && $0 != ":" } == "1" && host.hasSuffix("1")
        return isLast || host.lowercased().hasPrefix("::ffff:127.")
    }

    /// Whether an address stands for all addresses of a machine (a connection to it is to itself).
    private static func isAnywhere(_ host: String) -> Bool { host == "0.0.0.0" || host == "::" }
}

extension NodeRecord {
    /// The host and port of its admin port.
    fileprivate var place: String {
        SocketAddress(host: host, port: ports.admin).description
    }
}
