internal import Bytes
internal import Credentials
internal import Seams
internal import Wire

/// One connection between nodes: a handshake, then sealed records around another protocol.
///
/// The inner handler receives the bytes that the other side's inner handler appended, under the
/// same rules as on a socket: it may leave bytes unconsumed, pause, let its output drain, or close.
///
/// - The inner handler is made only after the other side has proved its identity.
/// - Decrypted and unconsumed bytes are bounded. While the inner handler is paused, no record is
///   opened, so the socket's flow control holds the other side back.
final class PeerConnection: ConnectionHandler,
    @unchecked Sendable  // tidy:allow its state belongs to one reactor's thread
{
    /// Makes the inner handler; nil if the connection is no longer wanted.
    typealias Established = @Sendable (any PeerPort) -> (any ConnectionHandler)?
    typealias Failed = @Sendable (PeerFailure) -> Void

    private let outer: any ConnectionPort
    private let transport: PeerTransport
    private let number: UInt64
    private let isInitiator: Bool
    private let limits: PeerLimits
    private var contentBytesMax: Int
    private let judge: PeerHandshake.Judge
    private let established: Established
    private var failed: Failed?
    private var timer: LaneTimer?

    private var handshake: PeerHandshake?
    private var hasStarted = false
    private var cipher: PeerCipher?
    private var inner: (any ConnectionHandler)?
    /// Decrypted bytes that the inner handler has not consumed.
    private let content = ByteWriter(capacity: 16)
    private let replies = ByteWriter(capacity: 16)
    /// How many bytes the inner handler needs in all before it is called again.
    private var needed = 0
    private var isPaused = false
    private var isDraining = false

    /// A connection over `outer`.
    ///
    /// - Parameters:
    ///   - outer: The socket's connection.
    ///   - entry: Its number in the transport.
    ///   - handshake: This side of the handshake.
    ///   - isInitiator: Whether this node opened the connection.
    ///   - transport: The transport that has the entry.
    ///   - judge: Decides whether a proved claim is accepted.
    ///   - established: Called once, on the reactor, unless `failed` is.
    ///   - failed: Called once, on the reactor, unless `established` made a handler.
    init(
        over outer: any ConnectionPort,
        entry: UInt64,
        handshake: PeerHandshake,
        isInitiator: Bool,
        transport: PeerTransport,
        judge: @escaping PeerHandshake.Judge,
        established: @escaping Established,
        failed: @escaping Failed
    ) {
        self.outer = outer
        self.number = entry
        self.handshake = handshake
        self.isInitiator = isInitiator
        self.transport = transport
        self.limits = transport.limits
        contentBytesMax = limits.contentBytesMax
        self.judge = judge
        self.established = established
        self.failed = failed
    }

    /// Starts the handshake timer, and the handshake if this node opened the connection.
    func begin() {
        let lane = transport.environment.network.lane(ofReactor: outer.reactor)
        timer = lane.post(after: limits.handshakeNanoseconds) { [weak self] in
            guard let self, self.handshake != nil else { return }
            self.fail(.timedOut)
            self.outer.close()
        }
        if isInitiator { outer.wake() }
    }

    // MARK: Called by the reactor

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if handshake != nil { return greet(input, output) }
        return serve(input, 0, output, isWake: false)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if handshake != nil { return greet(input, output) }
        return serve(input, 0, output, isWake: true)
    }

    func closed() {
        timer?.cancel()
        fail(.closed)
        handshake = nil
        transport.forget(number)
        let told = inner
        inner = nil
        told?.closed()
        content.removeAll(keepingAtMost: 16)
        replies.removeAll(keepingAtMost: 16)
    }

    // MARK: Handshake

    private func greet(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        if isInitiator && !hasStarted {
            hasStarted = true
            handshake?.start(output: output)
        }
        var consumed = 0
        while true {
            let rest = input.dropFirst(consumed)
            let taken = handshake?.receive(rest, output: output, judge: judge)
            guard let (count, step) = taken else {
                preconditionFailure("a greeting needs a handshake")
            }
            consumed += count
            switch step {
            case .waiting(let needed):
                if count > 0 { continue }
                return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
            case .refused(let refusal):
                fail(.refused(refusal))
                return ReceiveProgress(consumed: input.count, next: .close)
            case .established(let claim, let service, let cipher):
                handshake = nil
                timer?.cancel()
                self.cipher = cipher
                guard open(PeerIdentity(claim, service)) else {
                    fail(.closed)
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
                return serve(input, consumed, output, isWake: false)
            }
        }
    }

    private func open(_ identity: PeerIdentity) -> Bool {
        guard transport.establish(number, identity) else { return false }
        inner = established(SecurePort(outer: outer, identity: identity))
        guard inner != nil else { return false }
        failed = nil
        if identity.service == .join && !isInitiator { boundStranger() }
        return true
    }

    /// Any process that reaches the port can open such a connection, so its size and time are
    /// limited.
    private func boundStranger() {
        contentBytesMax = limits.strangerContentBytesMax
        let lane = transport.environment.network.lane(ofReactor: outer.reactor)
        timer = lane.post(after: limits.strangerNanoseconds) { [weak self] in self?.outer.close() }
    }

    private func fail(_ failure: PeerFailure) {
        timer?.cancel()
        let told = failed
        failed = nil
        told?(failure)
    }

    // MARK: Records

    /// Opens records until none is complete, or the inner handler pauses, drains or closes.
    private func serve(
        _ input: ByteView,
        _ skipped: Int,
        _ output: ByteWriter,
        isWake: Bool
    ) -> ReceiveProgress {
        var consumed = skipped
        var isDue = isWake || isDraining
        var isWake = isWake
        if isWake { isPaused = false }
        isDraining = false
        while true {
            if isDue {
                let next = callInner(isWake: isWake, output)
                (isDue, isWake) = (false, false)
                if next != .receive || output.count >= limits.outputBytesMax {
                    // The output is full, and more records may be complete: continue when it was
                    // sent.
                    let wanted = next == .receive ? .drain : next
                    return ReceiveProgress(consumed: consumed, next: wanted)
                }
            }
            if isPaused { return ReceiveProgress(consumed: consumed, next: .pause) }
            switch openRecord(input.dropFirst(consumed)) {
            case .incomplete(let needed):
                return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
            case .broken: return ReceiveProgress(consumed: input.count, next: .close)
            case .opened(let byteCount):
                consumed += byteCount
                isDue = content.count >= needed
            }
        }
    }

    private func openRecord(_ input: ByteView) -> PeerCipher.Opening {
        let content = content
        guard let opening = cipher?.open(input, { content.append($0) }) else {
            preconditionFailure("records follow the handshake")
        }
        if case .broken = opening {
            transport.logWarning("closed \(outer.peer): it sent a record that does not open")
            return .broken
        }
        if content.count > contentBytesMax || cipher?.isWornOut ?? false {
            transport.logWarning("closed \(outer.peer): its content goes beyond all bounds")
            return .broken
        }
        return opening
    }

    private func callInner(isWake: Bool, _ output: ByteWriter) -> ReceiveProgress.Next {
        guard let inner else { return .close }
        let view = content.view
        let progress =
            isWake
            ? inner.wake(view, output: replies) : inner.receive(view, output: replies)
        precondition(
            progress.consumed >= 0 && progress.consumed <= view.count,
            "a handler can only consume what it was given"
        )
        precondition(
            progress.next != .drain || replies.count > 0,
            "a handler that waits for its replies to go out must have made some"
        )
        if progress.consumed == view.count {
            content.removeAll(keepingAtMost: 2 * PeerCipher.recordBytesMax)
        } else {
            content.removeFirst(progress.consumed)
        }
        cipher?.seal(replies.view, to: output)
        replies.removeAll(keepingAtMost: 2 * PeerCipher.recordBytesMax)
        needed = progress.needed
        if needed > contentBytesMax {
            transport.logWarning("closed \(outer.peer): it sent a frame beyond all bounds")
            return .close
        }
        isPaused = progress.next == .pause
        isDraining = progress.next == .drain
        return progress.next
    }
}

/// The socket's port with the identity of the other node.
private final class SecurePort: PeerPort {
    let identity: PeerIdentity
    private let outer: any ConnectionPort

    init(outer: any ConnectionPort, identity: PeerIdentity) {
        self.outer = outer
        self.identity = identity
    }

    var peer: SocketAddress { outer.peer }
    var local: SocketAddress { outer.local }
    var reactor: Int { outer.reactor }
    func wake() { outer.wake() }
    func close() { outer.close() }
}
