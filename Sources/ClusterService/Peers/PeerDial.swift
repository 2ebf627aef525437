internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// One connection attempt to a node; it ends once, with a connection or a failure.
///
/// Resolves the name, tries the addresses in turn, and starts the handshake on the first
/// connection.
final class PeerDial: Sendable {
    struct Call: Sendable {
        let connection: NodeService.Connection
        /// 0 for a stranger.
        let node: NodeNumber
        let claim: PeerClaim
    }

    private struct State {
        var isOver = false
        var addresses: [String] = []
        /// The first error that is not a refusal by the kernel.
        var otherError: NetworkError?
        var timer: LaneTimer?
    }

    private let call: Call
    private let address: PeerAddress
    private let transport: PeerTransport
    private let connected: PeerTransport.Connected
    private let failed: PeerTransport.Failed
    private let state = Guarded(State())

    init(
        _ call: Call,
        to address: PeerAddress,
        by transport: PeerTransport,
        connected: @escaping PeerTransport.Connected,
        failed: @escaping PeerTransport.Failed
    ) {
        self.call = call
        self.address = address
        self.transport = transport
        self.connected = connected
        self.failed = failed
    }

    private var network: any Network { transport.environment.network }

    func begin() {
        let timer = network.lane(ofReactor: 0)
            .post(after: transport.limits.openNanoseconds) { self.fail(.timedOut) }
        state.withLock { $0.timer = timer }
        network.resolve(address.host) { result in
            switch result {
            case .failure(let error): self.fail(.unreachable(error))
            case .success(let addresses):
                self.state.withLock { $0.addresses = addresses }
                self.tryNext(after: nil)
            }
        }
    }

    private func tryNext(after error: NetworkError?) {
        let (host, isOver, otherError) = state.withLock { state in
            if let error, error.code != .refused, state.otherError == nil {
                state.otherError = error
            }
            let host = state.addresses.first
            if host != nil { state.addresses.removeFirst() }
            return (host, state.isOver, state.otherError)
        }
        if isOver { return }
        guard let host else {
            let none = NetworkError(code: .unknownHost, description: "no address of it is known")
            // A refusal counts only if all addresses refuse.
            return fail(.unreachable(otherError ?? error ?? none))
        }
        network.connect(
            to: SocketAddress(host: host, port: address.port),
            connected: { self.greet($0) },
            failed: { self.tryNext(after: $0) }
        )
    }

    private func greet(_ port: any ConnectionPort) -> any ConnectionHandler {
        let isOver = state.withLock { $0.isOver }
        guard !isOver, let (number, own) = transport.enter(port, isAccepted: false) else {
            fail(.closed)
            return ClosingHandler(port)
        }
        guard let own, own.proof.claim == call.claim else {
            transport.forget(number)
            fail(.closed)
            return ClosingHandler(port)
        }
        let (expected, isStranger) = (address.key, call.connection == .join)
        let connection = PeerConnection(
            over: port,
            entry: number,
            handshake: .initiator(call.claim, service: call.connection, expected: call.node),
            isInitiator: true,
            transport: transport,
            hooks: PeerConnection.Hooks(
                secured: { key in
                    key == expected || expected == nil && isStranger ? nil : .wrongKey
                },
                validate: { claim, _, _ in self.transport.validate(levelOf: claim) },
                established: { self.end() ? self.connected($0) : nil },
                failed: { failure in
                    if case .refused(let refusal) = failure, refusal != .connected {
                        let known = self.transport.address(of: self.call.node)
                        self.transport.logRefusal(
                            refusal,
                            "refused by \(port.peer)",
                            isExpected: known?.isJoining ?? false
                        )
                    }
                    self.fail(failure)
                }
            )
        )
        return connection.begin(own.security)
    }

    private func fail(_ failure: PeerFailure) { if end() { failed(failure) } }

    /// Ends the attempt; true if it had not ended before.
    private func end() -> Bool {
        let (isFirst, timer) = state.withLock { state in
            let isFirst = !state.isOver
            state.isOver = true
            let timer = state.timer
            state.timer = nil
            return (isFirst, timer)
        }
        timer?.cancel()
        return isFirst
    }
}
