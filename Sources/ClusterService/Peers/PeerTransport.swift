package import Bytes
package import Seams
package import Vocabulary
package import Wire

/// Links between nodes: this node's identity, the other nodes' addresses, and the services.
///
/// Each pair of nodes has one link for Raft, calls and queries, and one for bulk, each over a secured
/// connection whose both sides have proved a key. A link is opened when the first stream needs it. All calls
/// may come from any thread; handlers are made and called on reactors.
///
/// - A node is who it says only with the key that the directory has for it. Before that comparison,
///   nothing is sent to the other side and nothing of it is believed.
/// - A connection is closed if this node's identity changes or the other node's entry leaves the
///   directory. Connections of `join` depend on neither: they stay open until one side closes them.
/// - If two nodes call each other at once, the connection of the lower number stays: its node refuses the
///   other's call while it calls itself or has a link. A call of the lower node replaces the link that the
///   higher one has.
/// - Strangers are bounded in number and time.
package final class PeerTransport: NodeStreams {
    typealias Accept = @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?
    typealias Connected = @Sendable (PeerPort) -> NodeLink
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

    /// A shared connection of this node and another one.
    private struct LinkKey: Hashable {
        let node: NodeNumber
        let connection: NodeService.Connection
    }

    private struct Slot {
        var link: NodeLink?
        /// The attempt that is under way; results of older ones are ignored.
        var attempt: UInt64?
        var attemptedAt: UInt64 = 0
        /// Streams that wait for the link, and since when.
        var waiting: [NodeLink.Opening] = []
        var waitingSince: UInt64 = 0
    }

    private struct State {
        var own: Own?
        /// The number of identities that this node has had.
        var generation: UInt64 = 0
        var directory = PeerDirectory()
        /// Addresses from which, or at which, members have proved their keys.
        var memberHosts: [NodeNumber: String] = [:]
        var refusals = RefusalLog()
        var services: [NodeService: Accept] = [:]
        var slots: [LinkKey: Slot] = [:]
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
                entry.identity?.connection.isShared ?? true
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
                if identity.connection == .epoch {
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

    package func serve(
        _ service: NodeService,
        _ accept: @escaping @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?
    ) {
        state.withLock { $0.services[service] = accept }
    }

    /// The server of a service; nil if it has none.
    func accept(_ service: NodeService) -> Accept? { state.withLock { $0.services[service] } }

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
                validate: { self.validate($0, $1, key: $2, claim) },
                established: { self.accepted($0) },
                failed: { failure in
                    guard case .refused(let refusal) = failure, refusal != .connected else {
                        return
                    }
                    self.logRefusal(refusal, "refused \(port.peer)", isExpected: self.isNewNode)
                    let refused = self.state.withLock { $0.refused }
                    refused?(port.peer, refusal)
                }
            )
        )
        return connection.begin(own.security)
    }

    /// Why a connection is refused; nil if it is accepted.
    private func validate(
        _ claim: PeerClaim,
        _ connection: NodeService.Connection,
        key: [UInt8],
        _ own: PeerClaim
    ) -> PeerRefusal? {
        let directory = state.withLock { $0.directory }
        if connection == .join { return nil }
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
        guard isCurrent || connection == .epoch else { return .notExpected }
        if let refusal = validate(levelOf: claim) { return refusal }
        return isCrossing(claim.node, connection, own) ? .connected : nil
    }

    /// Why a member with this claim is refused for its feature level; nil if it is not.
    func validate(levelOf claim: PeerClaim) -> PeerRefusal? {
        let required = state.withLock { $0.directory.level }
        return claim.level < required ? .levelTooLow(required: required) : nil
    }

    /// Whether this node's own call or link is the one that stays.
    private func isCrossing(
        _ node: NodeNumber,
        _ connection: NodeService.Connection,
        _ own: PeerClaim
    ) -> Bool {
        guard connection.isShared, own.node < node else { return false }
        let key = LinkKey(node: node, connection: connection)
        let slot = state.withLock { $0.slots[key] }
        // If the other node has lost it, it ends soon.
        slot?.link?.probe()
        if slot?.link != nil { return true }
        // The first packet of an older call may be lost, and TCP repeats it only after seconds.
        let age = environment.time.monotonicNanoseconds() &- (slot?.attemptedAt ?? 0)
        return slot?.attempt != nil && age < limits.promptNanoseconds
    }

    // MARK: Links

    package func open(
        _ service: NodeService,
        to node: NodeNumber,
        request: [UInt8],
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        let opening = NodeLink.Opening(service: service, request: request, opened: opened) {
            failed($0.description)
        }
        open(opening, to: node)
    }

    /// Opens a stream of the link of the two nodes, or of a connection of its own.
    func open(_ opening: NodeLink.Opening, to node: NodeNumber) {
        let row = opening.service.row
        precondition(row.connection != .join, "strangers have no number")
        let (own, level) = state.withLock { ($0.own, $0.directory.level) }
        guard let own else { return opening.failed(.noIdentity) }
        guard level >= row.level else { return opening.failed(.levelTooLow(row.level)) }
        if node == own.proof.claim.node { return openHere(opening, node) }
        guard row.connection.isShared else {
            let address = address(of: node)
            guard let address else { return opening.failed(.unknownNode(node)) }
            return openOnce(opening, node, at: address)
        }
        let key = LinkKey(node: node, connection: row.connection)
        let now = environment.time.monotonicNanoseconds()
        let (link, attempt, isFull) = state.withLock { state in
            var slot = state.slots[key] ?? Slot()
            defer { state.slots[key] = slot }
            if let link = slot.link { return (NodeLink?.some(link), UInt64?.none, false) }
            guard slot.waiting.count < limits.waitingMax else { return (nil, nil, true) }
            if slot.waiting.isEmpty { slot.waitingSince = now }
            slot.waiting.append(opening)
            guard slot.attempt == nil else { return (nil, nil, false) }
            return (nil, PeerTransport.begin(&slot, &state, now), false)
        }
        if isFull { return opening.failed(.tooManyStreams) }
        if let attempt { return dial(key, attempt) }
        guard let link, !link.open(opening) else { return }
        // It has just ended.
        unlink(link)
        open(opening, to: node)
    }

    private static func begin(_ slot: inout Slot, _ state: inout State, _ now: UInt64) -> UInt64 {
        state.numbers += 1
        slot.attempt = state.numbers
        slot.attemptedAt = now
        return state.numbers
    }

    /// Calls a node at its new address if it is being called.
    func redial(_ node: NodeNumber) {
        let now = environment.time.monotonicNanoseconds()
        for connection in NodeService.Connection.allCases where connection.isShared {
            let key = LinkKey(node: node, connection: connection)
            let attempt = state.withLock { state -> UInt64? in
                guard var slot = state.slots[key], slot.attempt != nil else { return nil }
                defer { state.slots[key] = slot }
                return PeerTransport.begin(&slot, &state, now)
            }
            if let attempt { dial(key, attempt) }
        }
    }

    private func openHere(_ opening: NodeLink.Opening, _ node: NodeNumber) {
        guard let accept = accept(opening.service) else {
            return opening.failed(.refused(.notExpected))
        }
        LocalStream.open(
            opening.service,
            between: (node, node),
            on: environment.network.lane(ofReactor: 0),
            request: opening.request,
            accept: accept,
            opened: opening.opened
        )
    }

    private func dial(_ key: LinkKey, _ attempt: UInt64) {
        let (own, address) = state.withLock { ($0.own, $0.directory.nodes[key.node]) }
        guard let own else { return dialFailed(key, attempt, .noIdentity) }
        guard let address else { return dialFailed(key, attempt, .unknownNode(key.node)) }
        let call = PeerDial.Call(
            connection: key.connection,
            node: key.node,
            claim: own.proof.claim
        )
        PeerDial(
            call,
            to: address,
            by: self,
            connected: { port in
                let link = NodeLink(over: port, key.connection, isInitiator: true, transport: self)
                return self.join(link, attempt)
            },
            failed: { self.dialFailed(key, attempt, $0) }
        ).begin()
    }

    private func dialFailed(_ key: LinkKey, _ attempt: UInt64, _ failure: PeerFailure) {
        let now = environment.time.monotonicNanoseconds()
        let (failed, isRetried) = state.withLock { state in
            guard var slot = state.slots[key], slot.attempt == attempt else {
                return ([NodeLink.Opening](), false)
            }
            defer { state.slots[key] = slot }
            let isInTime = now &- slot.waitingSince < limits.openNanoseconds
            // The other node calls this one, whose link then takes what waits.
            if failure == .refused(.connected), isInTime { return ([], true) }
            slot.attempt = nil
            defer { slot.waiting = [] }
            return (slot.waiting, false)
        }
        if isRetried {
            environment.network.lane(ofReactor: 0).post(after: limits.crossingNanoseconds) {
                let isDue = self.state.withLock { $0.slots[key]?.attempt == attempt }
                if isDue { self.dial(key, attempt) }
            }
        }
        for opening in failed { opening.failed(failure) }
    }

    private func accepted(_ port: PeerPort) -> NodeLink {
        let connection = port.identity.connection
        let link = NodeLink(over: port, connection, isInitiator: false, transport: self)
        return connection.isShared ? join(link) : link
    }

    /// Makes a link that of its pair of nodes: what waits for it is opened, and an older one ends.
    ///
    /// - Parameters:
    ///   - link: The link, which has just been opened.
    ///   - attempt: The attempt that opened it; nil if the other node has.
    /// - Returns: The link.
    private func join(_ link: NodeLink, _ attempt: UInt64? = nil) -> NodeLink {
        let key = LinkKey(node: link.node, connection: link.connection)
        let (previous, waiting) = state.withLock { state -> (NodeLink?, [NodeLink.Opening]) in
            let slot = state.slots[key] ?? Slot()
            // Meanwhile the other node has opened one, or a later attempt began.
            if let attempt, slot.attempt != attempt { return (link, []) }
            state.slots[key] = Slot(link: link)
            return (slot.link, slot.waiting)
        }
        previous?.end("it has opened another connection")
        for opening in waiting where !link.open(opening) { opening.failed(.closed) }
        return link
    }

    /// Forgets a link that is over.
    func unlink(_ link: NodeLink) {
        let key = LinkKey(node: link.node, connection: link.connection)
        state.withLock { state in
            if state.slots[key]?.link === link { state.slots[key] = nil }
        }
    }

    // MARK: Single calls

    /// Opens a connection with one stream to a node that need not be a member.
    ///
    /// The other side has proved the key of `address`, or any key if that has none.
    func openOnce(_ opening: NodeLink.Opening, at address: PeerAddress) {
        openOnce(opening, NodeNumber(0), at: address)
    }

    private func openOnce(_ opening: NodeLink.Opening, _ node: NodeNumber, at address: PeerAddress)
    {
        guard let claim = identity else { return opening.failed(.noIdentity) }
        let connection = opening.service.row.connection
        PeerDial(
            PeerDial.Call(connection: connection, node: node, claim: claim),
            to: address,
            by: self,
            connected: { port in
                let link = NodeLink(over: port, connection, isInitiator: true, transport: self)
                _ = link.open(opening)
                return link
            },
            failed: opening.failed
        ).begin()
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
        let waiting = state.withLock { state -> [NodeLink.Opening] in
            defer { state.slots = [:] }
            return state.slots.values.flatMap(\.waiting)
        }
        for opening in waiting { opening.failed(.closed) }
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
        if isExpected {
            return environment.trace.log(.debug, "peers", message: "\(what): \(refusal)")
        }
        let now = environment.time.monotonicNanoseconds()
        let line = state.withLock { $0.refusals.line("\(what): \(refusal)", at: now) }
        if let line { environment.trace.log(.info, "peers", message: line) }
    }

    /// Logs a connection that ended before its handshakes did, for example one that is not TLS.
    func logBroken(_ message: String) { environment.trace.log(.debug, "peers", message: message) }

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
