import Bytes
import ClusterService
import Seams
import TestSupport
import TestWorld
import Vocabulary
import Wire

/// A node's end of a link, whose other side is a member that sends the fuzzer's bytes after its handshake.
///
/// The input is two bytes and a stream of frames. The first byte chooses what the node's streams do, the
/// second is the seed of the pieces in which the bytes arrive, and of the turns of the node.
///
/// - Whatever arrives, the node sends valid frames only.
/// - Each stream is closed once, at the latest with the link.
final class FuzzedLink {
    private static let identity = PeerIdentityProof(
        claim: claim(3),
        keys: KeyPair(publicKey: key(3), privateKey: key(3))
    )

    private let network = HeldNetwork()
    private let streams = FuzzedStreams()
    private let transport: PeerTransport

    private static func key(_ number: UInt8) -> [UInt8] { [UInt8](repeating: number, count: 32) }

    private static func claim(_ number: UInt16) -> PeerClaim {
        PeerClaim(
            node: NodeNumber(number),
            nodeUUID: "uuid",
            clusterUUID: "cluster",
            group: 1,
            epoch: 1
        )
    }

    init() {
        var environment = Environment.doubles(
            time: ManualTime(),
            network: network,
            lanes: ManualLanes(time: ManualTime())
        )
        environment.security = ClearSecurity()
        transport = PeerTransport(environment: environment)
        transport.setIdentity(FuzzedLink.identity)
        transport.setDirectory(
            PeerDirectory([
                NodeNumber(1): PeerAddress(host: "10.0.0.1", port: 1, key: ClearChannel.key)
            ])
        )
    }

    func run(_ view: ByteView) {
        guard view.count > 2 else { return }
        let mode = view[0]
        var random = SeededRandom(seed: UInt64(view[1]))
        for service in [NodeService.messages, .calls, .views] {
            transport.serve(service) { [streams] port, request in
                request.count > 100 ? nil : streams.make(port, mode)
            }
        }
        guard (try? transport.listen(on: SocketAddress(host: "10.0.0.3", port: 3))) != nil,
            let accept = network.accept
        else { return require(false, "the network listens") }
        let port = MemoryPort()
        let connection = FuzzedConnection(accept(port), port)
        let hello = ByteWriter()
        PeerHandshake.initiator(FuzzedLink.claim(1), service: .main, expected: NodeNumber(3))
            .start(output: hello)
        connection.receive(hello.bytes, isSending: false)
        require(connection.hasAnswer, "the handshake succeeds")
        // The node's own stream.
        if mode & 0x10 != 0 {
            transport.open(
                .views,
                to: NodeNumber(1),
                request: [1],
                opened: { [streams] in streams.make($0, mode) },
                failed: { _ in }
            )
        }
        var rest = view.dropFirst(2)
        while !rest.isEmpty, !connection.isOver {
            let count = min(rest.count, Int.random(in: 1...64, using: &random))
            connection.receive(
                rest.slice(0, count).bytes,
                isSending: Bool.random(using: &random)
            )
            rest = rest.dropFirst(count)
            if random.next() % 4 == 0 { streams.wake() }
            if random.next() % 2 == 0 { connection.turn() }
        }
        connection.turn()
        connection.end()
        transport.stop()
        streams.check()
    }
}

/// The reactor's part: one connection without a socket.
private final class FuzzedConnection {
    private let handler: any ConnectionHandler
    private let port: MemoryPort
    private var input: [UInt8] = []
    private var sent: [UInt8] = []
    private(set) var hasAnswer = false
    private var isDraining = false
    private(set) var isOver = false

    init(_ handler: any ConnectionHandler, _ port: MemoryPort) {
        self.handler = handler
        self.port = port
    }

    /// - Parameters:
    ///   - bytes: What arrives.
    ///   - isSending: Whether earlier output still waits, if the handler allows input then.
    func receive(_ bytes: [UInt8], isSending: Bool) {
        input += bytes
        let duplex = handler as? any DuplexHandler
        if isSending, let duplex, duplex.isDuplex {
            call { duplex.receiveWhileSending($0, output: $1) }
        } else {
            call { handler.receive($0, output: $1) }
        }
    }

    /// Calls the handler until it has nothing to do.
    func turn() {
        for _ in 0..<1_000 where !isOver {
            if port.isEnded { return end() }
            if isDraining {
                isDraining = false
                call { handler.receive($0, output: $1) }
            } else if port.removeWake() {
                call { handler.wake($0, output: $1) }
            } else {
                return
            }
        }
    }

    func end() {
        guard !isOver else { return }
        isOver = true
        handler.closed()
    }

    private func call(_ body: (ByteView, ByteWriter) -> ReceiveProgress) {
        guard !isOver else { return }
        let output = ByteWriter()
        let progress = input.withUnsafeBytes { body(ByteView($0), output) }
        input.removeFirst(progress.consumed)
        sent += output.bytes
        checkFrames()
        isDraining = isDraining || progress.next == .drain
        if progress.next == .close { end() }
    }

    /// Removes whole frames, after the node's answer to the handshake.
    private func checkFrames() {
        let count = sent.withUnsafeBytes { bytes in
            let view = ByteView(bytes)
            var offset = 0
            if !hasAnswer {
                let version = PeerHandshake.version
                guard
                    case .message(.answer, let count) = PeerGreeting.next(
                        in: view,
                        version: version
                    )
                else { return 0 }
                hasAnswer = true
                offset = count
            }
            while true {
                switch LinkFrameDecoder.next(in: view.dropFirst(offset)) {
                case .frame(let frame): offset += frame.byteCount
                case .incomplete:
                    require(offset == view.count, "whole frames are sent")
                    return offset
                case .invalid(let flaw):
                    require(false, "the node sent \(flaw)")
                    return view.count
                }
            }
        }
        sent.removeFirst(count)
    }
}

/// All streams of the node, on one thread.
private final class FuzzedStreams: @unchecked Sendable {  // tidy:allow one thread
    private var streams: [FuzzedStream] = []

    func make(_ port: any StreamPort, _ mode: UInt8) -> FuzzedStream {
        let stream = FuzzedStream(port, mode)
        streams.append(stream)
        return stream
    }

    func wake() { for stream in streams { stream.port.wake() } }

    func check() {
        require(streams.allSatisfy { $0.closeCount == 1 }, "each stream is closed once")
    }
}

/// Pauses at some messages, keeps some, refuses some, and answers with as many bytes.
private final class FuzzedStream: StreamHandler {
    let port: any StreamPort
    private(set) var closeCount = 0
    private let mode: UInt8
    private var turn: UInt8 = 0
    private var keptBytes = 0
    private var answers: [Int] = []

    init(_ port: any StreamPort, _ mode: UInt8) {
        self.port = port
        self.mode = mode
    }

    func receive(_ message: ByteView) -> StreamReception {
        require(closeCount == 0, "a stream that is over receives nothing")
        turn &+= 1
        switch turn % 8 {
        case 0 where mode & 1 != 0: return .paused
        case 1 where mode & 2 != 0: return .invalid("what it refuses")
        case 2, 3:
            keptBytes += message.count
            return .kept
        default:
            answers.append(message.count)
            return .handled
        }
    }

    func wake() {
        port.release(keptBytes)
        keptBytes = 0
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        while output.room > 0, let count = answers.popLast() {
            output.append { $0.append([UInt8](repeating: 1, count: count)) }
        }
        if answers.isEmpty, mode & 4 != 0, turn > 20 { return .over }
        return answers.isEmpty ? .asleep : .again
    }

    func closed(_ reason: String?) { closeCount += 1 }
}

/// A network with one listener, whose connections the fuzzer makes.
private final class HeldNetwork: Network, @unchecked Sendable {  // tidy:allow one thread
    private let base = NoNetwork()
    private let lanes = ManualLanes(time: ManualTime())
    private(set) var accept: (@Sendable (any ConnectionPort) -> any ConnectionHandler)?

    private struct Held: Listener {
        let address: SocketAddress
        func close() {}
    }

    var quiescence: Quiescence { base.quiescence }
    var memory: ConnectionMemory { base.memory }
    var strangers: LoginWatch { base.strangers }

    func lane(ofReactor index: Int) -> any Lane { lanes.makeLane("reactor \(index)") }

    func listen(
        on address: SocketAddress,
        for callers: Callers,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        self.accept = accept
        return Held(address: address)
    }

    func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {}
}

/// Clear text of a side whose key is known.
private final class ClearChannel: SecureChannel {
    static let key = [UInt8](repeating: 1, count: 32)

    let isOpen = true
    private(set) var peerKey: [UInt8]?

    func receive(_ input: ByteView, content: ByteWriter, output: ByteWriter) -> SecureProgress {
        peerKey = ClearChannel.key
        content.append(input)
        return SecureProgress(consumed: input.count, next: .receive)
    }

    func send(_ content: ByteView, output: ByteWriter) -> Bool {
        output.append(content)
        return true
    }
}

private struct ClearSecurity: TransportSecurity, SecurityIdentity {
    func identity(of keys: KeyPair) -> any SecurityIdentity { self }
    func makeChannel(isInitiator: Bool) -> any SecureChannel { ClearChannel() }
}
