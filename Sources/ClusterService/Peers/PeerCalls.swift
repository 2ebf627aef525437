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

/// The other side of a connection of the service `join`.
package struct Stranger: Hashable, Sendable {
    package var address: SocketAddress
    /// This node's own address on the connection.
    package var ownHost: String
    /// The public key that it has proved.
    package var key: [UInt8]

    /// Whether it is on this machine.
    var isLocal: Bool { ClientOrigin(peer: address.host) == .loopback }

    init(_ port: any PeerPort) {
        address = port.peer
        ownHost = port.local.host
        key = port.identity.key
    }
}

/// Events of the outgoing connections, one to each node of the directory.
package enum PeerEvent: Sendable {
    case connected(NodeNumber)
    case disconnected(NodeNumber)
    /// A connection attempt failed. If the reason is a refusal `removed`, the other node has proved
    /// that it is a member.
    case failed(NodeNumber, PeerFailure)
    /// A connection from this address was refused.
    case refused(SocketAddress, PeerRefusal)
    /// A one-way frame was dropped: there is no connection, or its queue is full.
    case dropped(NodeNumber)
}

/// Frames and calls between the cluster services of all nodes.
///
/// Keeps one connection to each node of the directory and accepts one from each. A node sends its
/// requests on the connection that it opened; answers return on the same connection.
///
/// - All methods are called on the control lane, and all callbacks run there; `Answer` may be
///   called on any thread.
/// - Frames to one node keep their order among the urgent frames and among the bulk frames.
/// - A frame to this node itself is delivered like any other.
package final class PeerCalls: @unchecked Sendable {  // tidy:allow belongs to the control lane
    package typealias Done = @Sendable (Result<[UInt8], PeerCallError>) -> Void
    package typealias Answer = @Sendable ([UInt8]) -> Void
    package typealias MessageHandler = @Sendable (NodeNumber, [UInt8]) -> Void
    package typealias CallHandler = @Sendable (NodeNumber, [UInt8], @escaping Answer) -> Void
    package typealias StrangerHandler = @Sendable (Stranger, [UInt8], @escaping Answer) -> Void
    /// The payload of a call; nil if the other side is not trusted with it.
    ///
    /// Called on a reactor.
    package typealias StrangerPayload = @Sendable (any PeerPort) -> [UInt8]?

    package let transport: PeerTransport
    let environment: Environment
    let lane: any Lane
    var limits: PeerLimits { transport.limits }

    private var directory = PeerDirectory()
    private var links: [NodeNumber: PeerLink] = [:]
    private var accepted: [NodeNumber: PeerChannel] = [:]
    /// The connections of strangers that have made their call.
    private var called: Set<ObjectIdentifier> = []
    private var messageHandlers: [UInt16: MessageHandler] = [:]
    private var callHandlers: [UInt16: CallHandler] = [:]
    private var strangerHandlers: [UInt16: StrangerHandler] = [:]
    private var epochHandlers: [UInt16: CallHandler] = [:]
    private var numbers: UInt64 = 0
    private var observer: @Sendable (PeerEvent) -> Void = { _ in }

    /// Registers itself for the services `control`, `join` and `epoch` of `transport`.
    package init(over transport: PeerTransport, lane: any Lane) {
        self.transport = transport
        self.lane = lane
        environment = transport.environment
        transport.register(.control) { [weak self] port in
            self?.accept(port) ?? ClosingHandler(port)
        }
        for service in [PeerService.join, .epoch] {
            transport.register(service) { [weak self] port in
                self?.accept(port) ?? ClosingHandler(port)
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

    /// Handles one-way frames of a kind (1 to 0x7ffe).
    package func handleMessages(_ kind: UInt16, by handler: @escaping MessageHandler) {
        PeerCalls.check(kind)
        messageHandlers[kind] = handler
    }

    /// Handles calls of a kind (1 to 0x7ffe); the handler answers each call once.
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
        precondition((1..<PeerChannel.notHandledKind).contains(kind), "such a kind is reserved")
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

    /// Closes all links and fails all calls.
    ///
    /// The owner of the transport stops the transport.
    package func stop() {
        let ending = links.sorted { $0.key < $1.key }
        links = [:]
        directory = PeerDirectory()
        for (_, link) in ending { link.end() }
        for (_, channel) in accepted.sorted(by: { $0.key < $1.key }) { channel.close() }
        accepted = [:]
    }

    package func isConnected(to node: NodeNumber) -> Bool { links[node]?.isOpen ?? false }

    /// Connects to a node again after its address changed; an open connection stays.
    package func redial(_ node: NodeNumber) { links[node]?.redial() }

    // MARK: Sending

    /// Sends a one-way frame.
    ///
    /// Without a connection the frame is dropped and `PeerEvent.dropped` is sent.
    ///
    /// - Parameters:
    ///   - kind: 1 to 0x7ffe; dropped, too, if the cluster's feature level is below the kind's.
    ///   - payload: At most `PeerFrame.payloadBytesMax`.
    ///   - node: The receiver; may be this node.
    ///   - isBulk: Whether the frame waits behind all urgent frames; nil: decided by its size.
    package func send(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        isBulk: Bool? = nil
    ) {
        guard mayUse(kind) else { return observer(.dropped(node)) }
        let frame = PeerCalls.frame(kind, 0, payload)
        if node == transport.identity?.node {
            lane.post { self.messageHandlers[kind]?(node, payload) }
        } else if links[node]?.send(frame, isBulk: isBulk) != true {
            observer(.dropped(node))
        }
    }

    /// Calls a node; `done` receives the answer or the error, once.
    ///
    /// If there is no connection, the call waits for the connection attempt that is next.
    package func call(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        timeoutNanoseconds: UInt64,
        isBulk: Bool? = nil,
        done: @escaping Done
    ) {
        if node == transport.identity?.node {
            return callSelf(kind, payload, node, timeoutNanoseconds, done)
        }
        guard mayUse(kind) else { return done(.failure(.notHandled)) }
        guard let link = links[node] else { return done(.failure(.unreachable)) }
        numbers += 1
        let number = numbers
        let timer = lane.post(after: timeoutNanoseconds) { link.timeOut(number) }
        link.call(
            PeerCalls.frame(kind, number, payload),
            isBulk: isBulk,
            PeerPending(done: done, timer: timer)
        )
    }

    /// Every member of the cluster understands frames of this kind.
    func mayUse(_ kind: UInt16) -> Bool { PeerKind.level(of: kind) <= directory.level }

    /// Calls a node and waits for its answer.
    package func call(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: NodeNumber,
        timeoutNanoseconds: UInt64,
        isBulk: Bool? = nil
    ) async -> Result<[UInt8], PeerCallError> {
        await withUnsafeContinuation { continuation in
            lane.post {
                self.call(
                    kind,
                    payload,
                    to: node,
                    timeoutNanoseconds: timeoutNanoseconds,
                    isBulk: isBulk
                ) { continuation.resume(returning: $0) }
            }
        }
    }

    private func callSelf(
        _ kind: UInt16,
        _ payload: [UInt8],
        _ node: NodeNumber,
        _ timeoutNanoseconds: UInt64,
        _ done: @escaping Done
    ) {
        guard let handler = callHandlers[kind] else {
            return lane.post { done(.failure(.notHandled)) }
        }
        let once = SingleCall(done)
        once.timer = lane.post(after: timeoutNanoseconds) { once.finish(.failure(.timedOut)) }
        lane.post {
            handler(node, payload) { answer in
                self.lane.post { once.finish(.success(answer)) }
            }
        }
    }

    static func frame(_ kind: UInt16, _ call: UInt64, _ payload: [UInt8]) -> ReceivedPeerFrame {
        check(kind)
        precondition(payload.count <= PeerFrame.payloadBytesMax, "a payload is bounded")
        return ReceivedPeerFrame(kind: kind, call: call, payload: payload)
    }

    // MARK: For links

    func reportEvent(_ event: PeerEvent) { observer(event) }

    func ping(_ channel: PeerChannel) {
        numbers += 1
        let ping = ReceivedPeerFrame(kind: PeerChannel.pingKind, call: numbers, payload: [])
        // If the queue is full, skip the ping: the other side already has frames to answer.
        _ = channel.enqueue(ping)
    }
}

// MARK: Being called

extension PeerCalls {
    private func accept(_ port: any PeerPort) -> any ConnectionHandler {
        let box = PeerChannelBox()
        let channel = PeerChannel(
            over: port,
            lane: lane,
            time: environment.time,
            limits: limits,
            arrived: { frames in
                if let channel = box.channel { self.handleFrames(frames, from: channel) }
            },
            ended: {
                if let channel = box.channel { self.lost(channel) }
                box.channel = nil
            }
        )
        lane.post {
            box.channel = channel
            self.accepted(channel)
        }
        return channel
    }

    /// Keeps one accepted connection from each node: a new one means that the older one is broken.
    private func accepted(_ channel: PeerChannel) {
        let identity = channel.port.identity
        guard identity.service == .control else { return }
        accepted.updateValue(channel, forKey: identity.node)?.close()
        links[identity.node]?.hurry()
    }

    private func lost(_ channel: PeerChannel) {
        let node = channel.port.identity.node
        if accepted[node] === channel { accepted[node] = nil }
        called.remove(ObjectIdentifier(channel))
    }

    private func handleFrames(_ frames: [ReceivedPeerFrame], from channel: PeerChannel) {
        for frame in frames {
            guard frame.kind & PeerFrame.answerBit == 0 else { return channel.close() }
            handleFrame(frame, from: channel)
        }
    }

    private func handleFrame(_ frame: ReceivedPeerFrame, from channel: PeerChannel) {
        let identity = channel.port.identity
        let (kind, call) = (frame.kind, frame.call)
        if call == 0 {
            if identity.service == .control { messageHandlers[kind]?(identity.node, frame.payload) }
            return
        }
        let answer: Answer = { payload in
            PeerCalls.answer(channel, kind | PeerFrame.answerBit, call, payload)
        }
        let handlers = identity.service == .epoch ? epochHandlers : callHandlers
        if identity.isProved, let handler = handlers[kind] {
            handler(identity.node, frame.payload, answer)
        } else if !identity.isProved, let handler = strangerHandlers[kind] {
            // One call for each connection: a stranger must not have any number of them answered.
            guard called.insert(ObjectIdentifier(channel)).inserted else { return channel.close() }
            handler(Stranger(channel.port), frame.payload, answer)
        } else {
            let refused = PeerChannel.notHandledKind | PeerFrame.answerBit
            PeerCalls.answer(channel, refused, call, [])
        }
    }

    /// If the queue has no room for an answer, the caller would wait until its timeout; so the
    /// connection is closed.
    private static func answer(
        _ channel: PeerChannel,
        _ kind: UInt16,
        _ call: UInt64,
        _ payload: [UInt8]
    ) {
        precondition(payload.count <= PeerFrame.payloadBytesMax, "an answer is bounded")
        let frame = ReceivedPeerFrame(kind: kind, call: call, payload: payload)
        if !channel.enqueue(frame) { channel.close() }
    }
}
