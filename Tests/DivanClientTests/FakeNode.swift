import Bytes
import LinuxPlatform
import Seams
import Vocabulary
import Wire

/// A node whose answers the test decides, for behaviour that one real node cannot show.
///
/// It uses real frames over real sockets, and accepts any password.
final class FakeNode: Sendable {
    /// The parts of a request that tests check.
    struct Received: Sendable {
        let opcode: Opcode?
        let key: String
        let vBucket: UInt16
        /// The number of document requests that this node received before.
        let number: Int
    }

    enum Reaction: Sendable {
        case answer(Status, value: [UInt8] = [])
        case silence
        /// Closes the connection without an answer.
        case hangUp
    }

    struct State: Sendable {
        var configuration: [UInt8] = []
        var features = FeatureSet([.mutationSeqno, .unorderedExecution])
        /// Receives all requests and answers none.
        var isMute = false
        var documentRequests = 0
        var configurationRequests = 0
        var requests: [Received] = []
        var sessions: [Session] = []
    }

    let state = Guarded(State())
    let react: @Sendable (Received) -> Reaction
    private let listener: Guarded<(any Listener)?> = Guarded(nil)

    init(
        _ network: any Network,
        port: UInt16 = 0,
        _ react: @escaping @Sendable (Received) -> Reaction
    ) throws {
        self.react = react
        let address = SocketAddress(host: "127.0.0.1", port: port)
        let opened = try network.listen(on: address) { [self] port in
            let session = Session(self, port)
            state.withLock { $0.sessions.append(session) }
            return session
        }
        listener.withLock { $0 = opened }
    }

    var address: SocketAddress {
        listener.withLock { $0?.address } ?? SocketAddress(host: "127.0.0.1", port: 0)
    }

    var port: UInt16 { address.port }

    var requests: [Received] { state.withLock { $0.requests } }

    func clearRequests() { state.withLock { $0.requests = [] } }

    func configure(_ text: MapText) { state.withLock { $0.configuration = text.bytes } }

    func offer(_ features: [Feature]) {
        state.withLock { state in for feature in features { state.features.insert(feature) } }
    }

    func close() { listener.withLock { $0 }?.close() }

    /// Sends a map on all connections.
    func push(_ text: MapText) {
        for session in state.withLock({ $0.sessions }) { session.push(text) }
    }

    static func push(_ configuration: [UInt8], bucket: String) -> [UInt8] {
        let key = Array(bucket.utf8)
        let writer = ByteWriter()
        writer.append([0x82, 0x01])
        writer.append(bigEndian: UInt16(key.count))
        writer.append([16, 1])
        writer.append(bigEndian: UInt16(0))
        writer.append(bigEndian: UInt32(16 + key.count + configuration.count))
        writer.append([UInt8](repeating: 0, count: 12 + 16))
        writer.append(key)
        writer.append(configuration)
        return writer.bytes
    }

    /// One connection.
    final class Session: ConnectionHandler, Sendable {
        private let node: FakeNode
        private let port: any ConnectionPort
        private let pushes = Guarded<[UInt8]>([])

        init(_ node: FakeNode, _ port: any ConnectionPort) {
            self.node = node
            self.port = port
        }

        func push(_ text: MapText) {
            pushes.withLock { $0 += FakeNode.push(text.bytes, bucket: text.bucket) }
            port.wake()
        }

        func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            let bytes = pushes.withLock { pushes in
                defer { pushes = [] }
                return pushes
            }
            output.append(bytes)
            return receive(input, output: output)
        }

        func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            var offset = 0
            while case .frame(let frame) = FrameDecoder().next(in: input.dropFirst(offset)) {
                offset += frame.byteCount
                guard handle(frame, output) else {
                    return ReceiveProgress(consumed: offset, next: .close)
                }
            }
            return ReceiveProgress(consumed: offset, next: .receive)
        }

        func closed() {}

        /// Returns false to close the connection.
        private func handle(_ frame: Frame, _ output: ByteWriter) -> Bool {
            if node.state.withLock({ $0.isMute }) { return true }
            switch frame.opcode {
            case .hello:
                let offered = node.state.withLock { $0.features }
                let wanted = FeatureSet(frame.value) ?? FeatureSet()
                let list = ByteWriter()
                FeatureSet.agreed(requested: wanted, offered: offered)?.append(to: list)
                answer(frame, .success, list.bytes, output)
            case .saslListMechanisms: answer(frame, .success, Array("PLAIN".utf8), output)
            case .getClusterConfig:
                let json = node.state.withLock { state in
                    state.configurationRequests += 1
                    return state.configuration
                }
                answer(frame, json.isEmpty ? .keyNotFound : .success, json, output)
            case .saslAuth, .selectBucket, .noop: answer(frame, .success, [], output)
            default: return react(to: frame, output)
            }
            return true
        }

        private func react(to frame: Frame, _ output: ByteWriter) -> Bool {
            let request = node.state.withLock { state in
                let request = Received(
                    opcode: frame.opcode,
                    key: frame.key.text,
                    vBucket: frame.header.vBucket.number,
                    number: state.documentRequests
                )
                state.documentRequests += 1
                state.requests.append(request)
                return request
            }
            switch node.react(request) {
            case .answer(let status, let value): answer(frame, status, value, output)
            case .silence: break
            case .hangUp: return false
            }
            return true
        }

        private func answer(
            _ frame: Frame,
            _ status: Status,
            _ value: [UInt8],
            _ output: ByteWriter
        ) {
            value.withUnsafeBytes { value in
                ResponseEncoder.append(
                    status,
                    to: output,
                    replyTo: frame.replyTo,
                    datatype: status == .notMyVBucket ? .json : [],
                    cas: CAS(77),
                    value: ByteView(value)
                )
            }
        }
    }
}
