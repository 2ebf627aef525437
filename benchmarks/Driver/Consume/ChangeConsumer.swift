internal import Bytes
internal import DivanClient
internal import Seams
internal import Vocabulary
internal import Wire

/// An outside consumer of a bucket's changes (DCP), as a connector would be: logs in, opens a
/// producer with flow control, and requests a stream of each vBucket that its node serves.
///
/// It counts messages and discards them, so that it costs much less than the server's work.
final class ChangeConsumer: ConnectionHandler {
    struct Plan: Sendable {
        let account: Login.Account
        let address: SocketAddress
        let isSecured: Bool
        /// The streams begin at the present and stay open; else they begin at the first change and
        /// end at the present.
        let isIdle: Bool
        let bufferBytes: UInt32
    }

    /// What has happened so far.
    struct Tally: Sendable {
        /// The login is done; `begin` may be called.
        var isReady = false
        /// Streams that were requested, were opened, and have ended.
        var requested = 0
        var opened = 0
        var ended = 0
        var changes = 0
        /// Of all messages of the streams, headers included.
        var bytes = 0
        var failure: BenchError?
    }

    private enum Stage {
        case login(Login)
        case ready(ClusterMap)
        case streaming
    }

    private static let name = "divan-bench"

    let port: any ConnectionPort
    private let plan: Plan
    private let tally: Guarded<Tally>
    private var stage: Stage
    private var decoder = FrameDecoder()
    private var unacknowledged = 0

    init(_ plan: Plan, _ tally: Guarded<Tally>, nonce: String, port: any ConnectionPort) {
        self.plan = plan
        self.tally = tally
        self.port = port
        stage = .login(Login(plan.account, wantsTokens: false, nonce: nonce))
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        switch stage {
        case .login(let login): login.begin(output)
        case .ready(let map): requestStreams(map, output)
        case .streaming: break
        }
        return ReceiveProgress(consumed: 0, next: .receive)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        do throws(BenchError) {
            guard case .login(let login) = stage else { return try readStreams(input, output) }
            return try logIn(login, input, output)
        } catch {
            return giveUp(error)
        }
    }

    func broken(_ reason: String) { tally.withLock { $0.failure = BenchError(reason) } }

    func closed() {
        tally.withLock { tally in
            tally.failure = tally.failure ?? BenchError("the server closed the connection")
        }
    }

    private func giveUp(_ error: BenchError) -> ReceiveProgress {
        tally.withLock { $0.failure = error }
        return ReceiveProgress(consumed: 0, next: .close)
    }

    private func logIn(
        _ login: Login,
        _ input: ByteView,
        _ output: ByteWriter
    ) throws(BenchError) -> ReceiveProgress {
        switch decoder.next(in: input) {
        case .incomplete(let needed):
            return ReceiveProgress(consumed: 0, next: .receive, needed: needed)
        case .frame(let frame):
            var login = login
            switch try login.take(frame, output) {
            case .more: stage = .login(login)
            case .done(let configuration):
                stage = .ready(try ChangeConsumer.map(configuration, plan))
                tally.withLock { $0.isReady = true }
            }
            return ReceiveProgress(consumed: frame.byteCount, next: .receive)
        case .valueTooBig, .invalid: throw BenchError("the server sent an invalid frame")
        }
    }

    private static func map(
        _ configuration: [UInt8],
        _ plan: Plan
    ) throws(BenchError) -> ClusterMap {
        let map = configuration.withUnsafeBytes {
            try? ClusterMap(ByteView($0), host: plan.address.host, isSecured: plan.isSecured)
        }
        guard let map else { throw BenchError("the bucket's configuration is unusable") }
        return map
    }

    // MARK: Streams

    private func requestStreams(_ map: ClusterMap, _ output: ByteWriter) {
        stage = .streaming
        let connection = DCPEncoder(vBucket: VBucketID(0), opaque: 0)
        ChangeConsumer.withBytes(ChangeConsumer.name) { name in
            // 1: a producer.
            connection.appendOpen(flags: 1, name: name, to: output)
        }
        ChangeConsumer.withBytes("connection_buffer_size") { key in
            ChangeConsumer.withBytes("\(plan.bufferBytes)") { value in
                connection.appendControl(key: key, value: value, to: output)
            }
        }
        var requested = 0
        for number in 0..<UInt16(map.vBucketCount) {
            let vBucket = VBucketID(number)
            guard let node = map.node(of: vBucket), map.nodes[node].port == plan.address.port
            else { continue }
            let request = DCPStreamRequest(
                flags: plan.isIdle ? .fromLatest : .toLatest,
                start: .zero,
                end: Seqno(.max),
                uuid: VBucketUUID(0),
                snapshotStart: .zero,
                snapshotEnd: .zero
            )
            let encoder = DCPEncoder(vBucket: vBucket, opaque: UInt32(number))
            encoder.append(request, to: output)
            requested += 1
        }
        tally.withLock { [requested] in $0.requested = requested }
    }

    private static func withBytes(_ text: String, _ body: (ByteView) -> Void) {
        Array(text.utf8).withUnsafeBytes { body(ByteView($0)) }
    }

    private func readStreams(
        _ input: ByteView,
        _ output: ByteWriter
    ) throws(BenchError) -> ReceiveProgress {
        var (offset, needed) = (0, FrameHeader.byteCount)
        var found = Tally()
        while input.count - offset >= FrameHeader.byteCount {
            let body = Int(input.bigEndian(at: offset + 8, as: UInt32.self))
            needed = FrameHeader.byteCount + body
            guard input.count - offset >= needed else { break }
            let isMessage = try note(input.slice(offset, needed), &found, output)
            if isMessage { found.bytes += needed }
            offset += needed
        }
        unacknowledged += found.bytes
        if unacknowledged * 2 >= Int(plan.bufferBytes) {
            let connection = DCPEncoder(vBucket: VBucketID(0), opaque: 0)
            connection.append(acknowledged: UInt32(unacknowledged), to: output)
            unacknowledged = 0
        }
        tally.withLock { [found] tally in
            tally.opened += found.opened
            tally.ended += found.ended
            tally.changes += found.changes
            tally.bytes += found.bytes
        }
        return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
    }

    /// Counts a frame.
    ///
    /// - Returns: Whether it is a message of a stream, which has to be acknowledged.
    private func note(
        _ frame: ByteView,
        _ found: inout Tally,
        _ output: ByteWriter
    ) throws(BenchError) -> Bool {
        let opcode = Opcode(rawValue: frame[1])
        guard frame[0] == Magic.request.rawValue else {
            let status = frame.bigEndian(at: 6, as: UInt16.self)
            guard status == Status.success.rawValue else {
                throw BenchError("the server answered status \(status) to opcode \(frame[1])")
            }
            if opcode == .dcpStreamRequest { found.opened += 1 }
            return false
        }
        switch opcode {
        case .dcpMutation, .dcpDeletion, .dcpExpiration: found.changes += 1
        case .dcpSnapshotMarker: break
        case .dcpStreamEnd: found.ended += 1
        case .dcpNoop:
            let opaque = frame.bigEndian(at: 12, as: UInt32.self)
            ResponseEncoder.append(
                .success,
                to: output,
                replyTo: ReplyTo(.dcpNoop, opaque: opaque)
            )
            return false
        default: throw BenchError("the server sent opcode \(frame[1]) on a stream")
        }
        return true
    }
}
