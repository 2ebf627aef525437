import Bytes
import Indexing
import LinuxPlatform
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// A query as the responder of a test has it.
final class AskedQuery: QueryCall {
    private struct State {
        var credits = 0
        var cancellations = 0
    }

    let request: QueryRequest
    let reply: @Sendable (QueryReply) -> Void
    private let state = Guarded(State())

    init(_ request: QueryRequest, _ reply: @escaping @Sendable (QueryReply) -> Void) {
        self.request = request
        self.reply = reply
    }

    func addCredit() { state.withLock { $0.credits += 1 } }
    func cancel() { state.withLock { $0.cancellations += 1 } }
    var credits: Int { state.withLock { $0.credits } }
    var isCancelled: Bool { state.withLock { $0.cancellations > 0 } }
}

/// A query as its coordinator has it: its events as texts.
struct SentQuery {
    let call: any QueryCall
    let events: Signal<String>
}

/// Frames as a node of another release, or a broken one, could send them.
final class RawConnection: ConnectionHandler, Sendable {
    private struct State {
        var unsent: [UInt8] = []
        var received: [UInt8] = []
        var isClosed = false
    }

    private let port: any ConnectionPort
    private let state = Guarded(State())

    init(_ port: any ConnectionPort) { self.port = port }

    func send(_ bytes: [UInt8]) {
        state.withLock { $0.unsent += bytes }
        port.wake()
    }

    func close() { port.close() }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// The kinds, numbers and lengths of the frames that have arrived.
    func frames(isFromCoordinator: Bool) -> [String] {
        let bytes = state.withLock { $0.received }
        let decoder = QueryFrameDecoder(isFromCoordinator: isFromCoordinator)
        return bytes.withUnsafeBytes { buffer in
            var rest = ByteView(buffer)
            var found: [String] = []
            while case .frame(let frame) = decoder.next(in: rest) {
                found.append("\(frame.kind) \(frame.number) \(frame.payload.count)")
                rest = rest.dropFirst(frame.byteCount)
            }
            return found
        }
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        state.withLock { state in
            state.received += input.bytes
            output.append(state.unsent)
            state.unsent = []
        }
        return ReceiveProgress(consumed: input.count, next: .receive)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() { state.withLock { $0.isClosed = true } }
}

/// A coordinator (node 1) and a responder (node 2) with sockets between them.
final class LinkWorld: QueryConnections {
    static let own = NodeNumber(1)
    static let other = NodeNumber(2)

    let trace = RecordingTrace()
    private let linux: LinuxEnvironment
    private let listener: any Listener
    private let cut: Guarded<[any ConnectionPort]>
    /// The queries that arrived, in order.
    let asked: Signal<AskedQuery>
    /// How often the coordinator has opened a connection.
    let dials = Signal<NodeNumber>()
    /// The responder's connections that have ended.
    let ended: Signal<Void>
    private let nodes: Guarded<QueryTransport?>

    /// - Parameters:
    ///   - limits: Of both sides.
    ///   - raw: Receives the connections in place of the responder.
    ///   - keys: The responder's memory of keys.
    /// - Throws: The network's error.
    init(
        limits: QueryLimits = QueryLimits(),
        raw: Signal<RawConnection>? = nil,
        keys: KeyMemory = KeyMemory()
    ) throws {
        let linux = LinuxEnvironment.make(reactors: 2, trace: trace)
        let asked = Signal<AskedQuery>()
        let ended = Signal<Void>()
        let cut = Guarded<[any ConnectionPort]>([])
        let respond: QueryTransport.Respond = { request, reply in
            let query = AskedQuery(request, reply)
            asked.send(query)
            return query
        }
        let acceptor = QueryAcceptor(
            respond: respond,
            environment: linux.environment,
            limits: limits,
            keys: keys
        )
        listener = try linux.environment.network.listen(
            on: SocketAddress(host: "127.0.0.1", port: 0),
            for: .nodes
        ) { port in
            if let raw {
                let connection = RawConnection(port)
                raw.send(connection)
                return connection
            }
            cut.withLock { $0.append(port) }
            let handler = acceptor.accept(from: LinkWorld.own, port: port)
            return ClosureHandler(over: handler) { ended.send(()) }
        }
        self.linux = linux
        self.asked = asked
        self.ended = ended
        self.cut = cut
        nodes = Guarded(nil)
        let links = QueryTransport(
            own: { LinkWorld.own },
            local: respond,
            connections: self,
            environment: linux.environment,
            limits: limits
        )
        nodes.withLock { $0 = links }
    }

    func end() {
        links?.stop()
        nodes.withLock { $0 = nil }
        listener.close()
        linux.stop()
    }

    /// The warnings of the view service.
    var warnings: [String] { trace.lines(of: "views", atLeast: .warning) }

    var links: QueryTransport? { nodes.withLock { $0 } }

    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        dials.send(node)
        guard node == LinkWorld.other else { return failed("there is no node \(node)") }
        linux.environment.network.connect(
            to: listener.address,
            connected: connected,
            failed: { failed($0.description) }
        )
    }

    /// Closes the responder's ends of all connections.
    func cutConnections() {
        for port in cut.withLock({ $0 }) { port.close() }
    }

    /// Connects to the responder with frames of the test's own.
    func connectRaw() async throws -> RawConnection {
        let made = Signal<RawConnection>()
        linux.environment.network.connect(
            to: listener.address,
            connected: { port in
                let connection = RawConnection(port)
                made.send(connection)
                return connection
            },
            failed: { Issue.record("\($0)") }
        )
        return try #require(await made.wait().first)
    }

    func send(_ request: QueryRequest, to node: NodeNumber = LinkWorld.other) throws -> SentQuery {
        let events = Signal<String>()
        let call = try #require(links).send(request, to: node) { events.send(Self.text($0)) }
        return SentQuery(call: call, events: events)
    }

    // MARK: Messages

    static func request(_ bucket: String = "travel", boundBytes: Int = 3) throws -> QueryRequest {
        let signature = try #require(IndexSignature([UInt8](repeating: 7, count: 16)))
        // The contents of two frames differ.
        var bound = (0..<65_521).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 8) }
        while bound.count < boundBytes { bound += bound }
        bound.removeLast(bound.count - boundBytes)
        var request = QueryRequest(
            bucket: bucket,
            index: QueryRequest.IndexSelection(
                choice: IndexChoice(current: signature),
                collation: "1"
            ),
            scan: ScanPlan(
                reduction: .none,
                ranges: [RowRange(lower: bound)],
                hasKeys: false,
                isDescending: false,
                rowsMax: nil
            ),
            freshness: .any
        )
        request.vBuckets = [VBucketID(0), VBucketID(1)]
        return request
    }

    static func rows(_ value: String) throws -> QueryReply {
        var writer = RowBatchWriter()
        Array(value.utf8).withUnsafeBytes { bytes in
            writer.append(
                keyNumber: 0,
                vBucket: VBucketID(1),
                key: .empty,
                value: ByteView(bytes)
            )
        }
        return .rows(try RowBatch(decoding: writer.finish()))
    }

    static func bytes(_ kind: QueryFrame.Kind, _ number: UInt32, _ payload: [UInt8] = []) -> [UInt8]
    {
        let writer = ByteWriter()
        payload.withUnsafeBytes { bytes in
            QueryFrame.append(kind, number, payload: ByteView(bytes), to: writer)
        }
        return writer.bytes
    }

    /// An event in short: a row's value up to eight characters, then its length.
    static func text(_ event: QueryNodeEvent) -> String {
        switch event {
        case .lost(let reason): return "lost: \(reason)"
        case .reply(.start(let start)): return "start \(start.indexRows)"
        case .reply(.rows(let batch)), .reply(.groups(let batch)):
            let values = (0..<batch.count).map { batch.withRow($0) { $0.value.text } }
            return values.map { $0.count > 8 ? "\($0.prefix(8))#\($0.count)" : $0 }
                .joined(separator: ",")
        case .reply(.end): return "end"
        case .reply(.failed(let reason)): return "failed: \(reason)"
        case .reply(.moved(let revision)): return "moved \(revision)"
        case .reply(.notReady): return "not ready"
        }
    }
}
