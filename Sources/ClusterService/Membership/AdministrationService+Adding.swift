internal import Bytes
internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Adding nodes, requested from any node of the cluster, or by the new node itself.
extension AdministrationService {
    /// How long a new node may take to receive the metadata.
    private static let joinTimeoutNanoseconds: UInt64 = 30_000_000_000
    /// The most attempts: if nodes are added together, the log may have entries of other nodes
    /// before each attempt's own, which must then be checked again.
    private static let invitationsMax = 64
    /// For a node that was removed and has not left yet, or is not ready: ten seconds.
    private static let descriptionAttemptsMax = 100
    private static let descriptionPauseNanoseconds: UInt64 = 100_000_000
    private static let rebalanceRuns = "Cannot add a node during rebalance."

    /// Adds the node at `address`; the node gets vBuckets with the next rebalance.
    ///
    /// - Parameters:
    ///   - address: Its admin port: `[http://]host[:port]`.
    ///   - login: Its administrator. A new node on another machine needs its token (`InitToken`) as the
    ///     password of any user; one on this machine accepts any login.
    ///   - services: Its services; only `kv` is possible.
    ///   - group: Its server group; nil for the first.
    /// - Returns: The node's name, or why it cannot be added.
    package func addNode(
        _ address: String,
        login: (user: String, password: String),
        services: [String],
        group: String? = nil
    ) async -> MembershipOutcome {
        guard state.isProvisioned else { return .refused("This node is not part of a cluster.") }
        guard services.allSatisfy({ $0 == "kv" || $0.isEmpty }) else {
            return .refused("The only service that nodes can have is kv.")
        }
        guard let (host, port) = Self.parse(address) else {
            return .refused("\"\(address)\" is not a host name with an optional port.")
        }
        if state.rebalance != nil { return .busy(Self.rebalanceRuns) }
        let description: NodeDescription
        do {
            description = try await describe(host, port, login: login)
            try description.requireLevel(state.featureLevel)
        } catch {
            if case .provisioned(let cluster?) = error, cluster == state.uuid {
                return .refused(
                    "Prepare join failed. The node \(host):\(port) is part of this cluster already."
                )
            }
            return .refused(error.sentence(host, port))
        }
        if let known = state.nodes.first(where: { $0.uuid == description.uuid }) {
            return .refused(
                "Prepare join failed. The node \(host):\(port) is part of this cluster already, as "
                    + "\(known.host):\(known.ports.admin)."
            )
        }
        for _ in 0..<Self.invitationsMax {
            let names = state.namesRevision
            if let refusal = await reconcileNames(description, as: host) { return refusal }
            let new = newNode(description, host: host, group: group, names: names)
            if let outcome = await invite(new, token: login.password) { return outcome }
        }
        return .busy("Other nodes are being added or renamed. Retry.")
    }

    /// Asks a node for its description.
    ///
    /// A node that was removed from this cluster needs some seconds to learn of its removal and to
    /// become a new node. Until then it reports that it is a member, although the agreed state has no
    /// such node, or that it is not ready, and is asked again.
    private func describe(
        _ host: String,
        _ port: UInt16,
        login: (user: String, password: String)
    ) async throws(NodeDescription.Refusal) -> NodeDescription {
        var attempts = Self.descriptionAttemptsMax
        while true {
            do {
                return try await NodeDescription.ask(host, port, login: login, by: probe)
            } catch {
                guard attempts > 0, isServing, isTemporary(error, host, port) else { throw error }
            }
            attempts -= 1
            await executor.sleep(nanoseconds: Self.descriptionPauseNanoseconds)
        }
    }

    private func isTemporary(
        _ refusal: NodeDescription.Refusal,
        _ host: String,
        _ port: UInt16
    ) -> Bool {
        switch refusal {
        case .notReady: true
        case .provisioned(let cluster?):
            cluster == state.uuid
                && !state.nodes.contains { $0.host == host && $0.ports.admin == port }
        default: false
        }
    }

    /// `names`: the revision of the node names with which the new name was checked.
    private func newNode(
        _ other: NodeDescription,
        host: String,
        group: String?,
        names: UInt32
    ) -> NewNode {
        var new = NewNode(
            uuid: other.uuid,
            host: host,
            ports: NodePorts(
                admin: other.adminPort,
                data: other.dataPort,
                peer: other.peerPort,
                views: other.viewsPort
            ),
            group: group ?? state.groups.first?.name ?? ServerGroup.first.name
        )
        new.namesRevision = names
        new.memoryTotal = other.memoryTotal
        new.level = other.level
        return new
    }

    /// Parses `[http://]host[:port]`; IPv6 addresses are in brackets.
    ///
    /// Nil if it is not an address.
    static func parse(_ address: String) -> (host: String, port: UInt16)? {
        var rest = address[...]
        for scheme in ["http://", "https://"] where rest.hasPrefix(scheme) {
            rest = rest.dropFirst(scheme.count)
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        guard !rest.isEmpty else { return nil }
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            let host = String(rest[rest.index(after: rest.startIndex)..<end])
            let tail = rest[rest.index(after: end)...]
            if tail.isEmpty { return (host, 8_091) }
            guard tail.hasPrefix(":"), let port = UInt16(tail.dropFirst()) else { return nil }
            return (host, port)
        }
        let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2, let host = parts.first, !host.isEmpty else { return nil }
        guard parts.count == 2 else { return (String(host), 8_091) }
        return UInt16(parts[1]).map { (String(host), $0) }
    }

    /// Adds the node to the state, has it join this cluster, and waits until it has the metadata.
    ///
    /// - Returns: Nil if the names of the nodes changed meanwhile, so that its name must be checked
    ///   again.
    private func invite(_ new: NewNode, token: String) async -> MembershipOutcome? {
        let host = new.host
        let outcome: ClusterOutcome
        do throws(ClusterError) {
            outcome = try await member.propose(.addNode(new))
        } catch {
            return .failed("The cluster did not agree on adding the node: \(error)")
        }
        var number: NodeNumber?
        for case .nodeAdded(let added) in outcome.effects { number = added }
        // The entry was applied as part of a snapshot.
        if outcome == .repeated { number = state.nodes.first { $0.uuid == new.uuid }?.number }
        guard let number else {
            switch outcome {
            case .refused(.changedMeanwhile): return nil
            case .refused(.rebalanceRunning): return .busy(Self.rebalanceRuns)
            case .refused(.nodeTooSmall):
                return .refused(
                    "Prepare join failed. The memory quota of this cluster, "
                        + "\(state.memoryQuota >> 20) MB on each node, is more than the node "
                        + "\(host):\(new.ports.admin) can give: at most "
                        + "\(MemoryQuota.megabytesMax(memoryTotal: new.memoryTotal)) MB of its "
                        + "\(new.memoryTotal >> 20) MB. Lower the quota (memoryQuota of "
                        + "/pools/default), or add a node with more memory."
                )
            case .refused(.levelTooLow):
                return .refused(
                    NodeDescription.Refusal.levelTooLow(new.level, required: state.featureLevel)
                        .sentence(host, new.ports.admin)
                )
            case .refused(let refusal) where refusal != .nodeExists:
                return .refused("Prepare join failed. \(refusal.sentence)")
            default:
                return .refused("Prepare join failed. \(host) is part of this cluster already.")
            }
        }
        let place = PeerAddress(host: host, port: new.ports.peer)
        if let reason = await engage(number, at: place, token: token) {
            _ = await carryMembership(.removeNode(number))
            return .refused("Join completion failed. \(reason)")
        }
        _ = await whenChanged(within: Self.joinTimeoutNanoseconds) {
            $0.node(number: number)?.membership != .joining
        }
        guard let node = state.node(number: number), node.membership != .joining else {
            return .failed(
                "The node \(host) was invited but did not receive the cluster's metadata. Check "
                    + "that it runs."
            )
        }
        logEvent(.info, .node, "Node \(host):\(new.ports.admin) joined the cluster.")
        return .done(node.otpNode)
    }

    /// Sends a new node the cluster's identity; returns why the node refused, or nil.
    private func engage(
        _ number: NodeNumber,
        at place: PeerAddress,
        token: String
    ) async -> String? {
        var message = EngageMessage(
            clusterUUID: state.uuid ?? "",
            groupID: state.groupID,
            revEpoch: state.revEpoch,
            secret: member.identity.secret,
            number: number,
            host: place.host,
            members: state.nodes.filter { $0.number != number }.map {
                PeerPlace($0.number, host: $0.host, port: $0.ports.peer)
            }
        )
        message.level = state.featureLevel
        message.token = token
        let result = await member.callStranger(
            place,
            PeerKind.engage,
            message.bytes,
            timeoutNanoseconds: Self.engageTimeoutNanoseconds
        )
        switch result {
        case .success(let bytes):
            guard let answer = EngageAnswer(bytes: bytes) else {
                return "It sent an invalid answer."
            }
            return answer.refusal.isEmpty
                ? nil : ForeignSentences.text(ofRefusal: answer.refusal)
        case .failure:
            return
                "Its port for other nodes, \(place.host):\(place.port), could not be reached. Check that it is "
                + "open to the nodes of this cluster."
        }
    }

    /// Requests from a cluster that it add this node.
    package func joinCluster(
        at address: String,
        login: (user: String, password: String)
    ) async -> MembershipOutcome {
        guard !state.isProvisioned else {
            return .refused(
                "Node is already provisioned. To join use controller/addNode api of the cluster"
            )
        }
        guard let (host, port) = Self.parse(address) else {
            return .refused("\"\(address)\" is not a host name with an optional port.")
        }
        guard let own = state.node(number: thisNode) else {
            return .refused("This node is not ready yet.")
        }
        var name = own.host
        if own.isLoopback, await !isLoopback(host) {
            let pools = ProbeRequest(host: host, port: port, path: "/pools", login: login)
            switch await probe.ask(pools) {
            case .answered(_, _, let local): name = local
            case .unreachable(let reason):
                return .refused(NodeDescription.Refusal.unreachable(reason).sentence(host, port))
            }
        }
        let place = name.contains(":") ? "[\(name)]" : name
        let request = ProbeRequest(
            host: host,
            port: port,
            path: "/controller/addNode",
            login: login,
            form: [
                ("hostname", "\(place):\(own.ports.admin)"), ("user", ""),
                // With it the cluster may change this node, whose caller was allowed to do that.
                ("password", initToken.text ?? ""), ("services", "kv"),
            ]
        )
        switch await probe.ask(request) {
        case .answered(200, _, _):
            // The caller gets its answer only once the cluster's state is here, with its password.
            let isIn = await whenChanged(within: Self.engageTimeoutNanoseconds) { state in
                state.isProvisioned && state.node(number: self.thisNode) != nil
            }
            await awaitInitToken()
            if isIn { return .done(own.otpNode) }
            return .failed("The cluster added this node, but has not sent its metadata yet.")
        case .answered(401, _, _):
            return .refused("The cluster at \(host):\(port) refused user and password.")
        case .answered(404, _, _):
            return .refused(
                "What answers at \(host):\(port) is not part of a cluster. Set that node up first, "
                    + "or add it to a cluster from there."
            )
        case .answered(let status, let body, _):
            let other =
                "What answers at \(host):\(port) refused to add this node (status \(status))."
            return .refused(ForeignSentences.text(of: body) ?? other)
        case .unreachable(let reason):
            return .refused(NodeDescription.Refusal.unreachable(reason).sentence(host, port))
        }
    }
}
