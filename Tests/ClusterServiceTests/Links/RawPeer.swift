import Bytes
import ClusterService
import LinuxPlatform
import OpenSSLPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// A node that proves its key and its number, and then sends any bytes instead of frames.
final class RawPeer: SecuredHandler, Sendable {
    /// A frame that it has received, with at most the first bytes of its payload.
    struct Frame: Equatable, Sendable {
        var kind: LinkFrame.Kind
        var stream: UInt64
        var payload: [UInt8]
    }

    private struct State {
        var hasStarted = false
        var isEstablished = false
        var isReading = true
        var outbox: [UInt8] = []
    }

    let established = Signal<Void>()
    let refusals = Signal<PeerRefusal>()
    let frames = Signal<Frame>()
    let closes = Signal<Void>()
    private let port: any ConnectionPort
    private let handshake: PeerHandshake
    private let state = Guarded(State())

    private init(_ port: any ConnectionPort, _ handshake: PeerHandshake) {
        self.port = port
        self.handshake = handshake
    }

    private func handler(as node: NodeNumber, isInitiator: Bool) -> any ConnectionHandler {
        // The side that opened the connection speaks first.
        if isInitiator { port.wake() }
        let identity = OpenSSLSecurity().identity(of: PeerNode.keys(node))
        return SecureConnection(
            identity.makeChannel(isInitiator: isInitiator),
            limits: .init(contentBytesMax: 1 << 20, outputBytesMax: 256 << 10),
            inner: self
        )
    }

    /// Connects to a node, with the network of `host`.
    ///
    /// - Throws: If there is no connection.
    static func connect(
        as node: NodeNumber,
        to other: PeerNode,
        _ connection: NodeService.Connection = .main,
        over host: PeerNode
    ) async throws -> RawPeer {
        let opened = Signal<RawPeer?>()
        host.world.environment.network.connect(
            to: other.address,
            connected: { port in
                let peer = RawPeer(
                    port,
                    .initiator(
                        PeerNode.identity(node).claim,
                        service: connection,
                        expected: other.number
                    )
                )
                opened.send(peer)
                return peer.handler(as: node, isInitiator: true)
            },
            failed: { _ in opened.send(nil) }
        )
        return try #require(await opened.wait().first ?? nil)
    }

    /// Listens with the network of `host`; each connection begins as `isReading` says.
    ///
    /// - Throws: The network's error.
    static func listen(
        as node: NodeNumber,
        isReading: Bool = true,
        over host: PeerNode
    ) throws -> (port: UInt16, accepted: Signal<RawPeer>) {
        let accepted = Signal<RawPeer>()
        let any = SocketAddress(host: "127.0.0.1", port: 0)
        let listener = try host.world.environment.network.listen(on: any, for: .nodes) { port in
            let peer = RawPeer(port, .responder(PeerNode.identity(node).claim))
            peer.state.withLock { $0.isReading = isReading }
            accepted.send(peer)
            return peer.handler(as: node, isInitiator: false)
        }
        return (listener.address.port, accepted)
    }

    func send(_ bytes: [UInt8]) {
        state.withLock { $0.outbox += bytes }
        port.wake()
    }

    /// Sends one frame, whose kind and length may be invalid.
    func send(_ kind: UInt8, _ stream: UInt64, _ payload: [UInt8] = []) {
        send(RawPeer.frame(kind, stream, payload))
    }

    static func frame(_ kind: UInt8, _ stream: UInt64, _ payload: [UInt8] = []) -> [UInt8] {
        let writer = ByteWriter()
        writer.append(bigEndian: UInt32(payload.count))
        writer.append(bigEndian: stream)
        writer.append(kind)
        writer.append(payload)
        return writer.bytes
    }

    static func frame(
        _ kind: LinkFrame.Kind,
        _ stream: UInt64 = 0,
        _ payload: [UInt8] = []
    ) -> [UInt8] { frame(kind.rawValue, stream, payload) }

    func close() { port.close() }

    /// Whether the other node still answers.
    func isAnswered() async -> Bool {
        let before = frames.values.count { $0.kind == .pong }
        send(RawPeer.frame(.ping))
        let isAnswered = await eventually {
            !closes.values.isEmpty || frames.values.count { $0.kind == .pong } > before
        }
        return isAnswered && closes.values.isEmpty
    }

    // MARK: Called by the reactor

    func secured(by channel: any SecureChannel) -> Bool { true }

    func broken(_ reason: String) {}

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        let (now, isFirst) = state.withLock { state in
            let isFirst = !state.hasStarted
            state.hasStarted = true
            return (state, isFirst)
        }
        if isFirst { handshake.start(output: output) }
        var consumed = 0
        if !now.isEstablished {
            let (count, step) = handshake.receive(input, output: output) { _, _ in nil }
            consumed = count
            switch step {
            case .waiting(let needed):
                return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
            case .refused(let refusal):
                refusals.send(refusal)
                return ReceiveProgress(consumed: input.count, next: .close)
            case .established:
                state.withLock { $0.isEstablished = true }
                established.send(())
            }
        }
        let outbox = state.withLock { state in
            defer { state.outbox = [] }
            return state.outbox
        }
        output.append(outbox)
        guard now.isReading else { return ReceiveProgress(consumed: consumed, next: .pause) }
        while case .frame(let frame) = LinkFrameDecoder.next(in: input.dropFirst(consumed)) {
            let payload = frame.payload.slice(0, min(frame.payload.count, 256)).bytes
            frames.send(Frame(kind: frame.kind, stream: frame.stream, payload: payload))
            consumed += frame.byteCount
        }
        return ReceiveProgress(consumed: consumed, next: .receive)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() { closes.send(()) }
}
