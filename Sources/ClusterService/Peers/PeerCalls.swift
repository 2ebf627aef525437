package import Seams
package import Vocabulary
internal import Wire

/// Why a call has no answer.
package enum PeerCallError: Error, Hashable, Sendable {
    /// There was no connection, or it ended: the call may have been carried out, or not.
    case unreachable
    /// As `unreachable`.
    case timedOut
    /// The caller does not trust the key that the other side has proved: the call was not sent.
    case untrusted
    /// The queue to the node is full: the call was not sent.
    case overloaded
    /// The node knows no such call, or the cluster's feature level is below the call's: then it was not
    /// sent.
    case notHandled
}

/// The other side of a call of the service `join`.
package struct Stranger: Hashable, Sendable {
    package var address: SocketAddress
    /// This node's own address on the connection.
    package var ownHost: String
    /// The public key that it has proved.
    package var key: [UInt8]

    /// Whether it is on this machine.
    var isLocal: Bool { ClientOrigin(peer: address.host) == .loopback }

    init(_ port: PeerPort) {
        address = port.peer
        ownHost = port.local.host
        key = port.identity.key
    }
}

/// Events of the streams of messages, one to each node of the directory.
package enum PeerEvent: Sendable {
    case connected(NodeNumber)
    case disconnected(NodeNumber)
    /// A connection attempt failed. If the reason is a refusal `removed`, the other node has proved
    /// that it is a member.
    case failed(NodeNumber, PeerFailure)
    /// A connection from this address was refused.
    case refused(SocketAddress, PeerRefusal)
    /// A message was dropped: there is no connection, or its queue is full.
    case dropped(NodeNumber)
}

/// Messages and calls between the cluster services of all nodes.
///
/// A message has no answer and goes on one of two streams to its node, the urgent or the bulk one. Each call
/// is a stream of its own: the request is a message with the kind in front, and so is the answer.
///
/// - All methods are called on the control lane, and all callbacks run there; `Answer` may be
///   called on any thread.
/// - Messages to one node keep their order among the urgent ones and among the bulk ones.
/// - A message to this node itself is delivered like any other.
package final class PeerCalls: @unchecked Sendable {  // tidy:allow belongs to the control lane
    package typealias Done = @Sendable (Result<[UInt8], PeerCallError>) -> Void
    package typealias Answer = @Sendable ([UInt8]) -> Void
    package typealias MessageHandler = @Sendable (NodeNumber, [UInt8]) -> Void
    package typealias CallHandler = @Sendable (NodeNumber, [UInt8], @escaping Answer) -> Void
    package typealias StrangerHandler = @Sendable (Stranger, [UInt8], @escaping Answer) -> Void
    /// The payload of a call; nil if the other side is not trusted with it.
    ///
    /// Called on a reactor.
    package typealias StrangerPayload = @Sendable (PeerPort) -> [UInt8]?

    package let transport: PeerTransport
    let environment: Environment
    let lane: any Lane
    var limits: PeerLimits { transport.limits }

    private var directory = PeerDirectory()
    private var links: [NodeNumber: PeerLink] = [:]
    private var messageHandlers: [UInt16: MessageHandler] = [:]
    private var callHandlers: [UInt16: CallHandler] = [:]
    private var strangerHandlers: [UInt16: StrangerHandler] = [:]
    private var epochHandlers: [UInt16: CallHandler] = [:]
    private var observer: @Sendable (PeerEvent) -> Void = { _ in }

    /// Serves the messages and calls of `transport`.
    package init(over transport: PeerTransport, lane: any Lane) {
        self.transport = transport
        self.lane = lane
        environment = transport.environment
        for service in [NodeService.messages, .bulkMessages] {
            transport.serve(service) { [weak self] port, _ in
                guard let self else { return nil }
                // The node is up: this one need not wait until its pause is over.
                lane.post { self.links[port.node]?.hurry() }
                return MessageReceiver(port, on: lane) { [weak self] kind, payload in
                    self?.messageHandlers[kind]?(port.node, payload)
                }
            }
        }
        for service in [NodeService.calls, .join, .epoch] {
            transport.serve(service) { [weak self] port, _ in
                self.map { calls in AnsweredCall(port) { calls.answer($0, $1, port, service, $2) } }
            }
        }
    }

    // MARK: Setting up

    /// Sets the receiver of connection events; replaces the previous one.
    package func observe(_ observer: @escaping @Sendable (PeerEvent) -> Void) {
        self.observer = observer
        transport.observeRefusals { [weak self] address, refusal in
            guard let self else { return }
            lane.post { self.reportEvent(.refused(address, refusal)) }
        }
    }

    /// Handles messages of a kind (from 1).
    package func handleMessages(_ kind: UInt16, by handler: @escaping MessageHandler) {
        PeerCalls.check(kind)
        messageHandlers[kind] = handler
    }

    /// Handles calls of a kind (from 1); the handler answers each call once.
    package func handleCalls(_ kind: UInt16, by handler: @escaping CallHandler) {
        PeerCalls.check(kind)
        callHandlers[kind] = handler
    }

    /// Handles calls of strangers, of which only the address and the key are known.
    package func handleStrangers(_ kind: UInt16, by handler: @escaping StrangerHandler) {
        PeerCalls.check(kind)
        strangerHandlers[kind] = handler
    }

    /// Handles calls of cluster members that may be of another epoch.
    package func handleEpochCalls(_ kind: UInt16, by handler: @escaping CallHandler) {
        PeerCalls.check(kind)
        epochHandlers[kind] = handler
    }

    private static func check(_ kind: UInt16) {
        precondition(kind > 0, "kinds count from 1")
    }

    /// Sets this node's identity.
    ///
    /// Connections made under another identity are closed and reopened.
    package func setIdentity(_ identity: PeerIdentityProof) {
        // The directory of another group may have this node under its previous number.
        let isSameNode = transport.identity.map { $0.node == identity.claim.node } ?? true
        transport.setIdentity(identity)
        setDirectory(isSameNode ? directory : PeerDirectory())
    }

    /// Sets the nodes and their addresses: opens links to new nodes, closes links to nodes that
    /// left.
    package func setDirectory(_ directory: PeerDirectory) {
        self.directory = directory
        transport.setDirectory(directory)
        let own = transport.identity?.node
        let wanted = Set(directory.nodes.keys).subtracting(own.map { [$0] } ?? [])
        for node in links.keys.filter({ !wanted.contains($0) }).sorted() {
            links.removeValue(forKey: node)?.end()
        }
        guard own != nil else { return }
        for node in wanted.subtracting(links.keys).sorted() {
            let link = PeerLink(to: node, of: self)
            links[node] = link
            link.connect()
        }
    }

    /// Closes all streams of messages.
    ///
    /// The owner of the transport stops the transport, which fails all calls.
    package func stop() {
        let ending = links.sorted { $0.key < $1.key }
        links = [:]
        directory = PeerDirectory()
        for (_, link) in ending { link.end() }
    }

    package func isConnected(to node: NodeNumber) -> Bool { links[node]?.isOpen ?? false }

    /// Connects to a node again after its address changed; an open connection stays.
    package func redial(_ node: NodeNumber) {
        transport.redial(node)
        links[node]?.hurry()
    }

    // MARK: Sending

    /// Sends a message.
    ///
    /// Without a connection the message is dropped and `PeerEvent.dropped` is sent.
    ///
    /// - Parameters:
    ///   - kind: From 1; dropped, too, if the cluster's feature level is below the kind's.
    ///   - payload: At most `NodeService.callBytesMax` bytes.
    ///   - node: The receiver; may be this node.
    ///   - isBulk: Whether the message waits behind all urgent ones; nil: decided by its size.
    package func send(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        isBulk: Bool? = nil
    ) {
        guard mayUse(kind) else { return observer(.dropped(node)) }
        if node == transport.identity?.node {
            lane.post { self.messageHandlers[kind]?(node, payload) }
        } else if links[node]?.send(kind, payload, isBulk: isBulk) != true {
            observer(.dropped(node))
        }
    }

    /// Calls a node; `done` receives the answer or the error, once.
    ///
    /// If there is no connection, the call waits for the attempt that is under way.
    package func call(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        timeoutNanoseconds: UInt64,
        done: @escaping Done
    ) {
        guard mayUse(kind) || node == transport.identity?.node else {
            return done(.failure(.notHandled))
        }
        let request: MakeRequest = { _ in payload }
        begin(kind, .calls, timeoutNanoseconds, request, done) { transport.open($0, to: node) }
    }

    /// Whether every member of the cluster understands this kind.
    func mayUse(_ kind: UInt16) -> Bool { PeerKind.level(of: kind) <= directory.level }

    /// Calls a node and waits for its answer.
    package func call(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        timeoutNanoseconds: UInt64
    ) async -> Result<[UInt8], PeerCallError> {
        await withUnsafeContinuation { continuation in
            lane.post {
                self.call(
                    kind,
                    payload,
                    to: node,
                    timeoutNanoseconds: timeoutNanoseconds
                ) { continuation.resume(returning: $0) }
            }
        }
    }

    func reportEvent(_ event: PeerEvent) { observer(event) }
}

// MARK: Being called

extension PeerCalls {
    /// Answers a call, on the lane; `answer` gets nil if there is no handler for its kind.
    private func answer(
        _ kind: UInt16,
        _ payload: [UInt8],
        _ port: any StreamPort,
        _ service: NodeService,
        _ answer: @escaping @Sendable ([UInt8]?) -> Void
    ) {
        lane.post {
            let handlers = service == .epoch ? self.epochHandlers : self.callHandlers
            if service != .join, let handler = handlers[kind] {
                handler(port.node, payload, answer)
            } else if service == .join, let handler = self.strangerHandlers[kind],
                let link = (port as? LinkStream)?.link
            {
                handler(Stranger(link.port), payload, answer)
            } else {
                answer(nil)
            }
        }
    }
}
