internal import Bytes
internal import Credentials
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Adding nodes, requested from any node of the cluster, or by the new node itself.
extension MembershipService {
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
    ///   - token: The token of its data directory (`InitToken`); needed by a node on another machine.
    ///   - fingerprint: The fingerprint of its key; nil if the operator names none.
    ///   - services: Its services; only `kv` is possible.
    ///   - group: Its server group; nil for the first.
    ///   - login: The administrator or local user that orders it.
    /// - Returns: The node's name.
    /// - Throws: `refused`, `busy` or `failed`.
    package func addNode(
        _ address: String,
        token: String,
        fingerprint: String? = nil,
        services: [String],
        group: String? = nil,
        by login: String
    ) async throws(AdministrationError) -> String {
        guard services.allSatisfy({ $0 == "kv" || $0.isEmpty }) else {
            throw .refused("The only service that nodes can have is kv.")
        }
        guard let (host, port) = Self.parse(address) else {
            throw .refused("\"\(address)\" is not a host name with an optional port.")
        }
        try Self.checkScheme(of: address, port)
        try checkAdding()
        let trust = JoinTrust.adding(token: token, fingerprint: fingerprint)
        let (peerPort, ownAddress) = try await patiently(host, port) {
            () async throws(JoinRefusal) in
            try await Introduction.ask(host, port, by: self.addresses.probe)
        }
        // The node has proved nothing yet, so nothing is changed.
        try await addresses.reconcileNames(as: host, ownAddress: ownAddress, isChanging: false)
        let place = PeerAddress(host: host, port: peerPort, key: nil)
        let contact = try await patiently(host, port) { () async throws(JoinRefusal) in
            try await self.describe(place, trust)
        }
        try requireLevel(of: contact.description, host, port)
        return try await add(contact, at: host, trust, group: group, by: login)
    }

    /// - Throws: `refused` if a node cannot be a member of a cluster of the present level.
    private func requireLevel(
        of node: NodeDescription,
        _ host: String,
        _ port: UInt16
    ) throws(AdministrationError) {
        let required = cluster.state.featureLevel
        guard node.level < required else { return }
        throw refused(.levelTooLow(node.level, required: required), host, port)
    }

    /// The error of a refusal, with an event if the other side did not prove what it should.
    private func refused(
        _ refusal: JoinRefusal,
        _ host: String,
        _ port: UInt16
    ) -> AdministrationError {
        let text = refusal.sentence(host, port)
        switch refusal {
        case .provisioned(let uuid) where uuid == cluster.state.uuid:
            return .refused(
                "Prepare join failed. The node \(host):\(port) is part of this cluster already."
            )
        case .wrongFingerprint, .wrongToken: cluster.logEvent(.warning, .node, text)
        default: break
        }
        return .refused(text)
    }

    /// - Throws: `refused` or `busy` if no node can be added now.
    private func checkAdding() throws(AdministrationError) {
        guard cluster.state.isProvisioned else {
            throw .refused("This node is not part of a cluster.")
        }
        guard cluster.state.rebalance == nil else { throw .busy(Self.rebalanceRuns) }
    }

    /// A node that may be added, as it has described itself.
    private struct Contact {
        var description: NodeDescription
        var met: Stranger
    }

    private func add(
        _ contact: Contact,
        at host: String,
        _ trust: JoinTrust,
        group: String?,
        by login: String
    ) async throws(AdministrationError) -> String {
        let description = contact.description
        if let known = cluster.state.nodes.first(where: { $0.uuid == description.uuid }) {
            throw .refused(
                "Prepare join failed. The node \(host):\(description.ports.admin) is part of this "
                    + "cluster already, as \(known.host):\(known.ports.admin)."
            )
        }
        for _ in 0..<Self.invitationsMax {
            let names = cluster.state.namesRevision
            try await addresses.reconcileNames(as: host, ownAddress: contact.met.ownHost)
            let new = description.node(
                at: host,
                identity: contact.met.key,
                group: group ?? cluster.state.groups.first?.name ?? ServerGroup.first.name,
                names: names
            )
            guard let new else {
                throw .refused(JoinRefusal.notDivan.sentence(host, description.ports.admin))
            }
            if let name = try await invite(new, trust, by: login) { return name }
        }
        throw .busy("Other nodes are being added or renamed. Retry.")
    }

    /// Asks a node again if that may help.
    ///
    /// A node that was removed from this cluster needs some seconds to learn of its removal and to
    /// become a new node. Until then it reports that it is a member, although the agreed state has no
    /// such node, or that it is not ready, and is asked again.
    private func patiently<Result: Sendable>(
        _ host: String,
        _ port: UInt16,
        _ ask: @Sendable () async throws(JoinRefusal) -> Result
    ) async throws(AdministrationError) -> Result {
        var attempts = Self.descriptionAttemptsMax
        while true {
            do throws(JoinRefusal) {
                return try await ask()
            } catch {
                guard attempts > 0, cluster.isServing, isTemporary(error, host, port) else {
                    throw refused(error, host, port)
                }
            }
            attempts -= 1
            await cluster.executor.sleep(nanoseconds: Self.descriptionPauseNanoseconds)
        }
    }

    /// Asks a node for its description, and has both sides prove what the operator has named.
    private func describe(
        _ place: PeerAddress,
        _ trust: JoinTrust
    ) async throws(JoinRefusal) -> Contact {
        let own = cluster.member.identity.secrets.publicKeys.identity
        let (met, bytes) = try await callStranger(
            place,
            PeerKind.describe,
            trust,
            timeoutNanoseconds: Cluster.engageTimeoutNanoseconds
        ) { DescribeMessage(proof: trust.proof(adding: own, waiting: $0.identity.key)).encoded }
        guard let answer = DescribeAnswer(message: bytes) else { throw .notDivan }
        switch (answer.standing, answer.description) {
        case (.provisioned, _): throw .provisioned(answer.clusterUUID)
        case (.notReady, _): throw .notReady
        case (.tokenNeeded, _): throw trust.token.isEmpty ? .tokenNeeded : .wrongToken
        case (.waiting, let description?):
            guard trust.accepts(answer.proof, of: met, adding: own) else { throw .wrongToken }
            return Contact(description: description, met: met)
        case (.waiting, nil): throw .notDivan
        }
    }

    /// Calls a node that is no member yet, if what it proves suffices.
    ///
    /// - Parameters:
    ///   - address: Where it listens for other nodes.
    ///   - kind: The kind of the call.
    ///   - trust: What the operator has named.
    ///   - timeoutNanoseconds: How long the call may take.
    ///   - payload: The payload of the call; called on a reactor.
    /// - Throws: `JoinRefusal` if the node cannot be reached or is not trusted.
    /// - Returns: The node, and its answer.
    private func callStranger(
        _ address: PeerAddress,
        _ kind: UInt16,
        _ trust: JoinTrust,
        timeoutNanoseconds: UInt64,
        payload: @escaping @Sendable (PeerPort) -> [UInt8]
    ) async throws(JoinRefusal) -> (met: Stranger, answer: [UInt8]) {
        let found = Guarded<(met: Stranger, refusal: JoinRefusal?)?>(nil)
        let result = await cluster.member.callStranger(
            address,
            kind,
            timeoutNanoseconds: timeoutNanoseconds
        ) { port in
            let met = Stranger(port)
            let refusal = trust.refusal(of: met)
            found.withLock { $0 = (met, refusal) }
            return refusal == nil ? payload(port) : nil
        }
        let (met, refusal) = found.withLock { $0 } ?? (nil, nil)
        if let refusal { throw refusal }
        switch result {
        case .success(let answer):
            guard let met else { throw .notDivan }
            return (met, answer)
        case .failure(.timedOut) where kind == PeerKind.join: throw .noAnswer
        case .failure: throw .peerPortUnreachable(address.port)
        }
    }

    private func isTemporary(_ refusal: JoinRefusal, _ host: String, _ port: UInt16) -> Bool {
        switch refusal {
        case .notReady: true
        case .provisioned(let uuid):
            uuid == cluster.state.uuid
                && !cluster.state.nodes.contains { $0.host == host && $0.ports.admin == port }
        default: false
        }
    }

    /// Refuses a port with TLS that is not the known one, which stands for the plain one.
    private static func checkScheme(
        of address: String,
        _ port: UInt16
    ) throws(AdministrationError) {
        guard address.hasPrefix("https://"), port != 8_091 else { return }
        throw .refused(
            "Name the plain admin port of the node, without https: it is asked for the port of its peers "
                + "only, and these connections are secured by the keys of the nodes."
        )
    }

    /// Parses `[http[s]://]host[:port]`; IPv6 addresses are in brackets.
    ///
    /// - Returns: The plain admin port, also for the known one with TLS; nil if it is not an address.
    static func parse(_ address: String) -> (host: String, port: UInt16)? {
        guard let (host, port) = parts(of: address) else { return nil }
        return (host, address.hasPrefix("https://") && port == 18_091 ? 8_091 : port)
    }

    private static func parts(of address: String) -> (host: String, port: UInt16)? {
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
    /// - Returns: The name of the node; nil if the names of the nodes changed meanwhile, so that its name
    ///   must be checked again.
    private func invite(
        _ new: NewNode,
        _ trust: JoinTrust,
        by login: String
    ) async throws(AdministrationError) -> String? {
        let host = new.host
        let outcome: ClusterOutcome
        do throws(ClusterError) {
            outcome = try await cluster.member.propose(.addNode(new), by: login)
        } catch {
            throw .failed("The cluster did not agree on adding the node: \(error)")
        }
        var number: NodeNumber?
        for case .nodeAdded(let added) in outcome.effects { number = added }
        // The entry was applied as part of a snapshot.
        if outcome == .repeated {
            number = cluster.state.nodes.first { $0.uuid == new.uuid }?.number
        }
        guard let number else {
            switch outcome {
            case .refused(.changedMeanwhile): return nil
            case .refused(.rebalanceRunning): throw .busy(Self.rebalanceRuns)
            case .refused(.nodeTooSmall):
                throw .refused(
                    "Prepare join failed. The memory quota of this cluster, "
                        + "\(cluster.state.memoryQuota >> 20) MB on each node, is more than the node "
                        + "\(host):\(new.ports.admin) can give: at most "
                        + "\(MemoryQuota.megabytesMax(memoryTotal: new.memoryTotal)) MB of its "
                        + "\(new.memoryTotal >> 20) MB. Lower the quota (memoryQuota of "
                        + "/pools/default), or add a node with more memory."
                )
            case .refused(.levelTooLow):
                throw .refused(
                    JoinRefusal.levelTooLow(new.level, required: cluster.state.featureLevel)
                        .sentence(host, new.ports.admin)
                )
            case .refused(let refusal) where refusal != .nodeExists:
                throw .refused("Prepare join failed. \(refusal.sentence)")
            default:
                throw .refused("Prepare join failed. \(host) is part of this cluster already.")
            }
        }
        if let reason = await engage(number, new, trust) {
            _ = await Result(of: try await cluster.carryMembership(.removeNode(number)))
            throw .refused("Join completion failed. \(reason)")
        }
        _ = await cluster.whenChanged(within: Self.joinTimeoutNanoseconds) {
            $0.node(number: number)?.membership != .joining
        }
        guard let node = cluster.state.node(number: number), node.membership != .joining else {
            throw .failed(
                "The node \(host) was invited but did not receive the cluster's metadata. Check "
                    + "that it runs."
            )
        }
        cluster.logEvent(.info, .node, "Node \(host):\(new.ports.admin) joined the cluster.")
        return node.otpNode
    }

    /// Sends a new node the cluster's identity; returns why the node refused, or nil.
    private func engage(_ number: NodeNumber, _ new: NewNode, _ trust: JoinTrust) async -> String? {
        var message = EngageMessage(
            clusterUUID: cluster.state.uuid ?? "",
            groupID: cluster.state.groupID,
            revEpoch: cluster.state.revEpoch,
            number: number,
            host: new.host,
            members: cluster.state.nodes.filter { $0.number != number }.map {
                PeerPlace(
                    node: $0.number,
                    host: $0.host,
                    port: $0.ports.peer,
                    key: $0.keys.identity
                )
            }
        )
        message.level = cluster.state.featureLevel
        message.proof = trust.proof(
            adding: cluster.member.identity.secrets.publicKeys.identity,
            waiting: new.keys.identity
        )
        let bytes = message.encoded
        let place = PeerAddress(host: new.host, port: new.ports.peer, key: new.keys.identity)
        let result = await cluster.member.callStranger(
            place,
            PeerKind.engage,
            timeoutNanoseconds: Cluster.engageTimeoutNanoseconds
        ) { _ in bytes }
        switch result {
        case .success(let bytes):
            guard let answer = EngageAnswer(message: bytes) else {
                return "It sent an invalid answer."
            }
            return answer.refusal.isEmpty
                ? nil : ForeignSentences.text(ofRefusal: answer.refusal)
        case .failure(.untrusted):
            return "What answers at \(place.host):\(place.port) is not the node that was added."
        case .failure:
            return
                "Its port for other nodes, \(place.host):\(place.port), could not be reached. Check that it is "
                + "open to the nodes of this cluster."
        }
    }

    // MARK: By the new node's own request

    /// How long a member may take to add a node that requests it.
    private static let joinRequestNanoseconds: UInt64 = 55_000_000_000

    /// Requests from a cluster that it add this node.
    ///
    /// - Parameters:
    ///   - address: The admin port of a member.
    ///   - login: A login of the cluster, which is sent only to the member with `fingerprint`, or on
    ///     this machine.
    ///   - fingerprint: The fingerprint of the member's key; nil if the operator names none.
    /// - Throws: `refused`, `busy` or `failed`.
    package func joinCluster(
        at address: String,
        login: (user: String, password: String),
        fingerprint: String? = nil
    ) async throws(AdministrationError) {
        guard !cluster.state.isProvisioned else {
            throw .refused(
                "Node is already provisioned. To join use controller/addNode api of the cluster"
            )
        }
        guard let (host, port) = Self.parse(address) else {
            throw .refused("\"\(address)\" is not a host name with an optional port.")
        }
        try Self.checkScheme(of: address, port)
        guard let own = cluster.state.node(number: cluster.thisNode) else {
            throw .refused("This node is not ready yet.")
        }
        // One at a time: the member that is named last must not keep that of another request out.
        let isFree = engagement.core.withLock { core in
            guard core.expectedInviter == nil else { return false }
            core.expectedInviter = []
            return true
        }
        guard isFree else { throw .busy("This node is joining a cluster already.") }
        defer { engagement.core.withLock { $0.expectedInviter = nil } }
        let isLocal = await addresses.isLoopback(host)
        let description = NodeDescription(own)
        let trust = JoinTrust.joining(fingerprint: fingerprint)
        let answer: EngageAnswer
        do throws(JoinRefusal) {
            let (peerPort, _) = try await Introduction.ask(host, port, by: addresses.probe)
            let (_, bytes) = try await callStranger(
                PeerAddress(host: host, port: peerPort, key: nil),
                PeerKind.join,
                trust,
                timeoutNanoseconds: Self.joinRequestNanoseconds
            ) { port in
                // The operator has named it, so it may invite this node.
                self.engagement.core.withLock { $0.expectedInviter = port.identity.key }
                return JoinRequest(
                    user: login.user,
                    password: login.password,
                    host: own.isLoopback && !isLocal ? port.local.host : own.host,
                    description: description
                ).encoded
            }
            guard let read = EngageAnswer(message: bytes) else { throw .notDivan }
            answer = read
        } catch {
            throw refused(error, host, port)
        }
        guard answer.refusal.isEmpty else {
            throw .refused(ForeignSentences.text(ofRefusal: answer.refusal))
        }
        // The caller gets its answer only once the cluster's state is here, with its password.
        let isIn = await cluster.whenChanged(within: Cluster.engageTimeoutNanoseconds) { state in
            state.isProvisioned && state.node(number: self.cluster.thisNode) != nil
        }
        await cluster.awaitInitToken()
        guard isIn else {
            throw .failed("The cluster added this node, but has not sent its metadata yet.")
        }
    }

    /// A node on another machine or on this one requests to be added, with a login of this cluster.
    func joinRequested(
        _ bytes: [UInt8],
        by stranger: Stranger,
        _ answer: @escaping PeerCalls.Answer
    ) {
        guard let request = JoinRequest(message: bytes) else {
            return answer(EngageAnswer(refusal: "The request is malformed.").encoded)
        }
        cluster.executor.spawn {
            do throws(AdministrationError) {
                try await self.addRequested(request, stranger)
                answer(EngageAnswer().encoded)
            } catch {
                answer(EngageAnswer(refusal: error.description).encoded)
            }
        }
    }

    private func addRequested(
        _ request: JoinRequest,
        _ stranger: Stranger
    ) async throws(AdministrationError) {
        let host = stranger.address.host
        try checkAdding()
        let delay = users.strangers.delayNanoseconds(from: host, at: cluster.monotonicNanoseconds)
        if delay > 0 { await cluster.executor.sleep(nanoseconds: delay) }
        // One login at a time for each address, so that each one waits for the refusals before it.
        guard core.withLock({ $0.joinLogins.insert(host).inserted }) else {
            throw .busy("Another request to join from \(host) is being checked. Retry.")
        }
        let login = await users.checkLogin(request.user, request.password, from: host)
        if login == nil { users.noteRefusedLogin(request.user, from: host) }
        core.withLock { _ = $0.joinLogins.remove(host) }
        guard let login else { throw .refused("The cluster refused user and password.") }
        guard cluster.state.allows(login.name, .securityWrite) else {
            throw .refused(
                "The user \"\(request.user)\" may not add nodes: that needs a role with the "
                    + "permission \(Permission.securityWrite.text), such as admin."
            )
        }
        let contact = Contact(description: request.description, met: stranger)
        try requireLevel(of: contact.description, request.host, request.description.ports.admin)
        // The node that requests it has proved its key on this connection.
        let trust = JoinTrust.adding(
            token: "",
            fingerprint: NodeKeys.fingerprint(of: stranger.key)
        )
        _ = try await add(contact, at: request.host, trust, group: nil, by: request.user)
    }
}
