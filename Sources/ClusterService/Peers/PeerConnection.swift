internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// One connection between nodes, inside a secured connection: a handshake, then the link.
///
/// - The link is made only after the handshake, and called as on a socket.
final class PeerConnection: SecuredHandler, DuplexHandler,
    @unchecked Sendable  // tidy:allow its state belongs to one reactor's thread
{
    /// Makes the link; nil if the connection is no longer wanted.
    typealias Established = @Sendable (PeerPort) -> NodeLink?
    typealias Failed = @Sendable (PeerFailure) -> Void
    /// Whether a side that has proved this public key may be the one that was called.
    typealias Secured = @Sendable ([UInt8]) -> PeerRefusal?
    /// Decides whether a claim is accepted from the side that has proved this public key.
    typealias Validation = @Sendable (PeerClaim, NodeService.Connection, [UInt8]) -> PeerRefusal?

    /// Decisions and notifications of the connection's maker.
    struct Hooks: Sendable {
        var secured: Secured = { _ in nil }
        var validate: Validation
        /// Called once, on the reactor, unless `failed` is.
        var established: Established
        /// Called once, on the reactor, unless `established` made a handler.
        var failed: Failed
    }

    private let outer: any ConnectionPort
    private let transport: PeerTransport
    private let number: UInt64
    private let isInitiator: Bool
    private let limits: PeerLimits
    private let hooks: Hooks
    private var failed: Failed?
    private var timer: LaneTimer?

    /// Nil once it is done.
    private var handshake: PeerHandshake?
    private var hasStarted = false
    private var isStranger = false
    private var key: [UInt8] = []
    private var inner: NodeLink?

    /// A connection over `outer`.
    ///
    /// - Parameters:
    ///   - outer: The socket's connection.
    ///   - entry: Its number in the transport.
    ///   - handshake: This side of the handshake.
    ///   - isInitiator: Whether this node opened the connection.
    ///   - transport: The transport that has the entry.
    ///   - hooks: Decide, and get the result.
    init(
        over outer: any ConnectionPort,
        entry: UInt64,
        handshake: PeerHandshake,
        isInitiator: Bool,
        transport: PeerTransport,
        hooks: Hooks
    ) {
        self.outer = outer
        self.number = entry
        self.handshake = handshake
        self.isInitiator = isInitiator
        self.transport = transport
        self.limits = transport.limits
        self.hooks = hooks
        self.failed = hooks.failed
    }

    /// The handler for the socket, whose handshakes have begun: both must end in time.
    func begin(_ identity: any SecurityIdentity) -> any ConnectionHandler {
        let lane = transport.environment.network.lane(ofReactor: outer.reactor)
        timer = lane.post(after: limits.handshakeNanoseconds) { [weak self] in
            guard let self, self.handshake != nil else { return }
            self.fail(.timedOut)
            self.outer.close()
        }
        if isInitiator { outer.wake() }
        return SecureConnection(
            identity.makeChannel(isInitiator: isInitiator),
            limits: .init(
                contentBytesMax: limits.contentBytesMax,
                outputBytesMax: limits.outputBytesMax
            ),
            inner: self
        )
    }

    // MARK: Called on the reactor

    func secured(by channel: any SecureChannel) -> Bool {
        guard let key = channel.peerKey else {
            preconditionFailure("a channel between nodes is open once the other side has a key")
        }
        self.key = key
        guard let refusal = hooks.secured(key) else { return true }
        fail(.refused(refusal))
        return false
    }

    func broken(_ reason: String) {
        if handshake == nil {
            let text = "closed \(outer.peer): \(reason)"
            // Any process that reaches the port can bring about any number of these.
            isStranger ? transport.logBroken(text) : transport.logWarning(text)
        } else {
            transport.logBroken("\(outer.peer) is no node that can be talked to: \(reason)")
            fail(.refused(.invalidHandshake))
        }
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if handshake != nil { return greet(input, output) }
        return inner?.receive(input, output: output) ?? PeerConnection.closing(input)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if handshake != nil { return greet(input, output) }
        return inner?.wake(input, output: output) ?? PeerConnection.closing(input)
    }

    var isDuplex: Bool { inner?.isDuplex ?? false }

    func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        inner?.receiveWhileSending(input, output: output) ?? PeerConnection.closing(input)
    }

    private static func closing(_ input: ByteView) -> ReceiveProgress {
        ReceiveProgress(consumed: input.count, next: .close)
    }

    func closed() {
        timer?.cancel()
        fail(.closed)
        handshake = nil
        transport.forget(number)
        let told = inner
        inner = nil
        told?.closed()
    }

    // MARK: Handshake

    private func greet(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        guard let handshake else { preconditionFailure("a greeting needs a handshake") }
        if !hasStarted {
            hasStarted = true
            handshake.start(output: output)
        }
        let (consumed, step) = handshake.receive(input, output: output) { claim, service in
            hooks.validate(claim, service, key)
        }
        switch step {
        case .waiting(let needed):
            return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
        case .refused(let refusal):
            fail(.refused(refusal))
            return ReceiveProgress(consumed: input.count, next: .close)
        case .established(let claim, let service):
            self.handshake = nil
            timer?.cancel()
            guard open(PeerIdentity(claim, service, key)), let inner else {
                fail(.closed)
                return ReceiveProgress(consumed: input.count, next: .close)
            }
            let rest = input.dropFirst(consumed)
            guard !rest.isEmpty else {
                return ReceiveProgress(consumed: consumed, next: .receive)
            }
            var progress = inner.receive(rest, output: output)
            progress.consumed += consumed
            return progress
        }
    }

    private func open(_ identity: PeerIdentity) -> Bool {
        guard transport.establish(number, identity) else { return false }
        inner = hooks.established(PeerPort(outer: outer, identity: identity))
        guard inner != nil else { return false }
        failed = nil
        if identity.connection == .join && !isInitiator { boundStranger() }
        return true
    }

    /// Any process that reaches the port can open such a connection, so its time is limited.
    private func boundStranger() {
        isStranger = true
        let lane = transport.environment.network.lane(ofReactor: outer.reactor)
        timer = lane.post(after: limits.strangerNanoseconds) { [weak self] in self?.outer.close() }
    }

    private func fail(_ failure: PeerFailure) {
        timer?.cancel()
        let told = failed
        failed = nil
        told?(failure)
    }
}
