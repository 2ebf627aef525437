internal import Bytes
package import Seams
package import Vocabulary
package import Wire

/// Connections between nodes: this node's identity, the other nodes' addresses, and the services.
///
/// Wraps any `ConnectionHandler` in a secured connection whose both sides have proved a key, by
/// service. All calls may come from any thread; handlers are made and called on reactors.
///
/// - A node is who it says only with the key that the directory has for it. Before that comparison,
///   nothing is sent to the other side and nothing of it is believed.
/// - A connection is closed if this node's identity changes or the other node's entry leaves the
///   directory. Connections of `join` depend on neither: they stay open until one side closes them.
/// - Strangers are bounded in number and time.
package final class PeerTransport: Sendable {
    package typealias Accept = @Sendable (any PeerPort) -> any ConnectionHandler
    package typealias Failed = @Sendable (PeerFailure) -> Void

    private struct Entry {
        let port: any ConnectionPort
        let generation: UInt64
        let isAccepted: Bool
        /// Whether it comes from an address of a member.
        let isFromMember: Bool
        /// Nil until the handshake is done.
        var identity: PeerIdentity?
    }

    /// This node, and what secures its connections.
    struct Own: Sendable {
        var proof: PeerIdentityProof
        var security: any SecurityIdentity
    }

    private struct State {
        var own: Own?
        /// The number of identities that this node has had.
        var generation: UInt64 = 0
        var directory = PeerDirectory()
        /// Addresses from which, or at which, members have proved their keys.
        var memberHosts: [NodeNumber: String] = [:]
        var refusals = RefusalLog()
        var services: [PeerService: Accept] = [:]
        var entries: [UInt64: Entry] = [:]
        var numbers: UInt64 = 0
        var refused: (@Sendable (SocketAddress, PeerRefusal) -> Void)?
        var listener: (any Listener)?
        var isStopped = false
    }

    let environment: Environment
    let limits: PeerLimits
    private let state = Guarded(State())

    package init(environment: Environment, limits: PeerLimits = PeerLimits()) {
        self.environment = environment
        self.limits = limits
    }

    // MARK: Identity and directory

    /// Sets this node's identity.
    ///
    /// A change closes all connections except those of `join` and `epoch`, which still have to send
    /// the answer that reports the change.
    package func setIdentity(_ identity: PeerIdentityProof) {
        let ending = state.withLock { state in
            if state.own?.proof == identity { return [any ConnectionPort]() }
            let isSameKey = state.own?.proof.keys == identity.keys
            let security = isSameKey ? state.own?.security : nil
            state.own = Own(
                proof: identity,
                security: security ?? environment.security.identity(of: identity.keys)
            )
            state.generation += 1
            return PeerTransport.removeEntries(&state) { entry in
                entry.identity?.service != .join && entry.identity?.service != .epoch
            }
        }
        for port in ending { port.close() }
    }

    package var identity: PeerClaim? { own?.proof.claim }
    var own: Own? { state.withLock { $0.own } }

    /// Sets the addresses and keys of the other nodes; closes connections to nodes that left, or that
    /// announce a feature level below the cluster's.
    package func setDirectory(_ directory: PeerDirectory) {
        let ending = state.withLock { state in
            state.directory = directory
            state.memberHosts = state.memberHosts.filter { directory.nodes[$0.key] != nil }
            return PeerTransport.removeEntries(&state) { entry in
                guard let identity = entry.identity, identity.isProved else { return false }
                // A node that changes its group has no directory for a moment, and still answers.
                if identity.service == .epoch {
                    return !directory.nodes.isEmpty
                        && directory.nodes[identity.node]?.key != identity.key
                }
                return directory.nodes[identity.node]?.key != identity.key
                    || identity.level < directory.level
            }
        }
        for port in ending { port.close() }
    }

    /// The address of a node; nil if the directory does not have it.
    func address(of node: NodeNumber) -> PeerAddress? {
        state.withLock { $0.directory.nodes[node] }
    }

    /// Calls `refused` for each accepted connection that was refused.
    func observeRefusals(_ refused: @escaping @Sendable (SocketAddress, PeerRefusal) -> Void) {
        state.withLock { $0.refused = refused }
    }

    /// Serves `service` to other nodes of the cluster; `join` is served to strangers.
    package func register(_ service: PeerService, accept: @escaping Accept) {
        state.withLock { $0.services[service] = accept }
    }

    // MARK: Being called

    /// Listens on the peer port; may be called once.
    ///
    /// Returns the bound address.
    ///
    /// - Throws: `NetworkError` if the address cannot be listened on.
    package func listen(on address: SocketAddress) throws(NetworkError) -> SocketAddress {
        let listener = try environment.network.listen(on: address, for: .nodes) { port in
            self.accept(port)
        }
        let isTaken = state.withLock { state in
            if state.isStopped || state.listener != nil { return false }
            state.listener = listener
            return true
        }
        precondition(isTaken, "a node has one peer port")
        return listener.address
    }

    private func accept(_ port: any ConnectionPort) -> any ConnectionHandler {
        guard let (number, own) = enter(port, isAccepted: true) else { return ClosingHandler(port) }
        guard let own else {
            forget(number)
            return ClosingHandler(port)
        }
        let claim = own.proof.claim
        let connection = PeerConnection(
            over: port,
            entry: number,
            handshake: .responder(claim),
            isInitiator: false,
            transport: self,
            hooks: PeerConnection.Hooks(
                judge: { self.judge($0, $1, key: $2, claim) },
                established: { peer in
                    let accept = self.state.withLock { $0.services[peer.identity.service] }
                    return accept?(peer)
                },
                failed: { failure in
                    guard case .refused(let refusal) = failure else { return }
                    self.logRefusal(refusal, "refused \(port.peer)", isExpected: self.isNewNode)
                    let refused = self.state.withLock { $0.refused }
                    refused?(port.peer, refusal)
                }
            )
        )
        return connection.begin(own.security)
    }

    /// Why a connection is refused; nil if it is accepted.
    private func judge(
        _ claim: PeerClaim,
        _ service: PeerService,
        key: [UInt8],
        _ own: PeerClaim
    ) -> PeerRefusal? {
        let (directory, isServed) = state.withLock { state in
            (state.directory, state.services[service] != nil)
        }
        guard isServed else { return .notExpected }
        if service == .join { return nil }
        guard let known = directory.nodes[claim.node] else {
            // If a number was assigned and is not in the directory, its node was removed. An
            // unknown higher number may belong to a node whose entry is not applied here yet. If
            // its epoch is later than ours, this node is behind.
            let isOurs = claim.group == own.group || directory.pastGroups.contains(claim.group)
            let isGone =
                claim.node <= directory.highestGiven && claim.epoch <= own.epoch && isOurs
            return isGone ? .removed(epoch: own.epoch) : .notExpected
        }
        guard known.key == key else { return .wrongKey }
        // A member of another epoch uses `epoch` to learn of ours, or to report its own.
        let isCurrent = claim.group == own.group && claim.epoch == own.epoch
        guard isCurrent || service == .epoch else { return .notExpected }
        return judge(levelOf: claim, for: service)
    }

    /// Why a member with this claim is refused for its feature level; nil if it is not.
    func judge(levelOf claim: PeerClaim, for service: PeerService) -> PeerRefusal? {
        let required = max(state.withLock { $0.directory.level }, service.level)
        return claim.level < required ? .levelTooLow(required: required) : nil
    }

    // MARK: Calling

    /// Opens a connection to a node of the directory.
    ///
    /// - Parameters:
    ///   - service: The service that uses the connection.
    ///   - node: The node to call.
    ///   - connected: Called on a reactor when the node has proved its identity.
    ///   - failed: Called instead, on any thread, perhaps before this returns.
    package func open(
        _ service: PeerService,
        to node: NodeNumber,
        connected: @escaping Accept,
        failed: @escaping Failed
    ) {
        precondition(service != .join, "strangers have no number")
        let (own, address, level) = state.withLock { state in
            (state.own, state.directory.nodes[node], state.directory.level)
        }
        guard let own else { return failed(.noIdentity) }
        guard level >= service.level else { return failed(.levelTooLow(service.level)) }
        guard let address else { return failed(.unknownNode(node)) }
        let call = PeerDial.Call(
            service: service,
            node: node,
            claim: own.proof.claim
        )
        PeerDial(call, to: address, by: self, connected: connected, failed: failed).begin()
    }

    /// Opens a connection to a node that need not be a member, for `join`.
    ///
    /// The other side has proved the key of `address`, or any key if that has none.
    package func openStranger(
        to address: PeerAddress,
        connected: @escaping Accept,
        failed: @escaping Failed
    ) {
        guard let claim = identity else { return failed(.noIdentity) }
        let call = PeerDial.Call(service: .join, node: NodeNumber(0), claim: claim)
        PeerDial(call, to: address, by: self, connected: connected, failed: failed).begin()
    }

    /// Closes the port and all connections; no connection can be opened afterwards.
    package func stop() {
        let (listener, ending) = state.withLock { state in
            state.isStopped = true
            let listener = state.listener
            state.listener = nil
            return (listener, PeerTransport.removeEntries(&state) { _ in true })
        }
        for port in ending { port.close() }
        listener?.close()
    }

    /// The number of connections, and how many of them have not finished the handshake.
    package var counts: (all: Int, halfOpen: Int) {
        state.withLock { state in
            (state.entries.count, state.entries.values.count { $0.identity == nil })
        }
    }
}

// MARK: Book-keeping, for connections

extension PeerTransport {
    /// Registers a new connection; nil after `stop`.
    ///
    /// If too many accepted connections have not finished the handshake, the oldest is closed. Those
    /// from addresses of members and from other addresses do not close each other.
    func enter(_ port: any ConnectionPort, isAccepted: Bool) -> (number: UInt64, own: Own?)? {
        let (entered, ending) = state.withLock { state in
            guard !state.isStopped else {
                return ((number: UInt64, own: Own?)?.none, (any ConnectionPort)?.none)
            }
            state.numbers += 1
            var ending: (any ConnectionPort)?
            let host = port.peer.host
            let isFromMember =
                state.memberHosts.values.contains(host)
                || state.directory.nodes.values.contains { $0.host == host }
            if isAccepted {
                ending = PeerTransport.pushOut(&state, limits.halfOpenMax) { entry in
                    entry.identity == nil && entry.isFromMember == isFromMember
                }
            }
            state.entries[state.numbers] = Entry(
                port: port,
                generation: state.generation,
                isAccepted: isAccepted,
                isFromMember: isFromMember,
                identity: nil
            )
            return ((state.numbers, state.own), ending)
        }
        ending?.close()
        return entered
    }

    /// Whether a connection whose handshake is done may be used: identity and directory still allow
    /// it.
    func establish(_ number: UInt64, _ identity: PeerIdentity) -> Bool {
        let (isWelcome, ending) = state.withLock { state in
            guard let entry = state.entries[number] else {
                return (false, (any ConnectionPort)?.none)
            }
            if identity.isProved {
                let isKnown = state.directory.nodes[identity.node]?.key == identity.key
                guard entry.generation == state.generation, isKnown else { return (false, nil) }
                state.memberHosts[identity.node] = entry.port.peer.host
            }
            var ending: (any ConnectionPort)?
            if !identity.isProved && entry.isAccepted {
                ending = PeerTransport.pushOut(&state, limits.strangersMax) {
                    $0.identity?.isProved == false
                }
            }
            state.entries[number]?.identity = identity
            return (true, ending)
        }
        ending?.close()
        return isWelcome
    }

    func forget(_ number: UInt64) { state.withLock { _ = $0.entries.removeValue(forKey: number) } }

    /// Whether this node has no cluster yet, or is invited and knows no other node: a cluster that adds it
    /// calls it at the same time as it invites it.
    private var isNewNode: Bool {
        state.withLock { state in
            state.directory.nodes.isEmpty || state.own?.proof.claim.clusterUUID.isEmpty ?? true
        }
    }

    /// Logs a refused connection; one that joining brings about is of no interest to an operator, who
    /// gets the outcome of `addNode`.
    func logRefusal(_ refusal: PeerRefusal, _ what: String, isExpected: Bool) {
        if isExpected { return environment.trace.log(.debug, "peers", "\(what): \(refusal)") }
        let now = environment.time.monotonicNanoseconds()
        let line = state.withLock { $0.refusals.line("\(what): \(refusal)", at: now) }
        if let line { environment.trace.log(.info, "peers", line) }
    }

    /// Logs a connection that ended before its handshakes did, for example one that is not TLS.
    func logBroken(_ message: String) { environment.trace.log(.debug, "peers", message) }

    func logWarning(_ message: String) { environment.trace.warning("peers", message) }

    /// Makes room for one more accepted connection of a kind: removes the oldest one.
    private static func pushOut(
        _ state: inout State,
        _ most: Int,
        where isOfKind: (Entry) -> Bool
    ) -> (any ConnectionPort)? {
        let kind = state.entries.filter { $1.isAccepted && isOfKind($1) }
        guard kind.count >= most, let oldest = kind.keys.min() else { return nil }
        return state.entries.removeValue(forKey: oldest)?.port
    }

    /// Removes the matching entries, in the order of their numbers.
    private static func removeEntries(
        _ state: inout State,
        where isEnding: (Entry) -> Bool
    ) -> [any ConnectionPort] {
        let ending = state.entries.filter { isEnding($1) }.sorted { $0.key < $1.key }
        for (number, _) in ending { state.entries[number] = nil }
        return ending.map(\.value.port)
    }
}

/// Serves a connection that is refused at once.
final class ClosingHandler: ConnectionHandler {
    init(_ port: any ConnectionPort) { port.close() }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        ReceiveProgress(consumed: input.count, next: .close)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        ReceiveProgress(consumed: input.count, next: .close)
    }

    func closed() {}
}
