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

/// A stream of messages as a node of another release, or a broken one, could send them.
final class RawStream: StreamHandler, Sendable {
    private struct State {
        var unsent: [[UInt8]] = []
        var received: [[UInt8]] = []
        /// Nil while the stream is open; the reason may be empty.
        var end: String?
    }

    let port: any StreamPort
    private let state = Guarded(State())

    init(_ port: any StreamPort) { self.port = port }

    func send(_ messages: [UInt8]...) { send(messages) }

    func send(_ messages: [[UInt8]]) {
        state.withLock { $0.unsent += messages }
        port.wake()
    }

    var received: [[UInt8]] { state.withLock { $0.received } }
    var end: String? { state.withLock { $0.end } }

    func receive(_ message: ByteView) -> StreamReception {
        state.withLock { $0.received.append(message.bytes) }
        return .handled
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        let messages = state.withLock { state in
            defer { state.unsent = [] }
            return state.unsent
        }
        for message in messages { output.append { $0.append(message) } }
        return .asleep
    }

    func closed(_ reason: String?) { state.withLock { $0.end = reason ?? "" } }
}

/// A coordinator (node 1) and a responder (node 2) with streams between them.
final class LinkWorld: Sendable {
    static let own = NodeNumber(1)
    static let other = NodeNumber(2)

    let trace = RecordingTrace()
    let streams: MemoryStreams
    let links: QueryTransport
    private let linux: LinuxEnvironment
    private let acceptor: QueryAcceptor
    /// The queries that arrived, in order.
    let asked = Signal<AskedQuery>()

    /// - Parameters:
    ///   - lane: Calls the handlers of streams in place of a reactor.
    ///   - raw: Receives the streams in place of the responder.
    ///   - keys: The responder's memory of keys.
    init(
        lane: (any Lane)? = nil,
        raw: Signal<RawStream>? = nil,
        keys: KeyMemory = KeyMemory()
    ) {
        let asked = asked
        let respond: QueryTransport.Respond = { request, reply in
            let query = AskedQuery(request, reply)
            asked.send(query)
            return query
        }
        linux = LinuxEnvironment.make(reactors: 2, trace: trace)
        let environment = linux.environment
        streams = MemoryStreams(on: lane ?? environment.network.lane(ofReactor: 1))
        acceptor = QueryAcceptor(
            respond: respond,
            streams: streams.streams(of: LinkWorld.other),
            environment: environment,
            keys: keys
        )
        links = QueryTransport(
            own: { LinkWorld.own },
            local: respond,
            streams: streams.streams(of: LinkWorld.own),
            environment: environment
        )
        guard let raw else { return }
        streams.streams(of: LinkWorld.other).serve(.views) { port, _ in
            let stream = RawStream(port)
            raw.send(stream)
            return stream
        }
    }

    func end() {
        links.stop()
        linux.stop()
    }

    /// Opens a stream to the responder with messages of the test's own.
    func openRaw(from node: NodeNumber = NodeNumber(3)) async throws -> RawStream {
        let made = Signal<RawStream>()
        streams.streams(of: node).open(
            .views,
            to: LinkWorld.other,
            request: [],
            opened: { port in
                let stream = RawStream(port)
                made.send(stream)
                return stream
            },
            failed: { Issue.record("\($0)") }
        )
        return try #require(await made.wait().first)
    }

    func send(_ request: QueryRequest, to node: NodeNumber = LinkWorld.other) -> SentQuery {
        let events = Signal<String>()
        let call = links.send(request, to: node) { events.send(Self.text($0)) }
        return SentQuery(call: call, events: events)
    }

    // MARK: Messages

    static func request(_ bucket: String = "travel", boundBytes: Int = 3) throws -> QueryRequest {
        let signature = try #require(IndexSignature([UInt8](repeating: 7, count: 16)))
        // The contents of two fragments differ.
        var bound = (0..<65_521).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 8) }
        while bound.count < boundBytes { bound += bound }
        bound.removeLast(bound.count - boundBytes)
        var request = QueryRequest(
            bucket: bucket,
            index: QueryRequest.IndexSelection(
                choice: IndexChoice(current: signature),
                collation: "1"
            ),
            scan: ScanPlan(of: RowRange(lower: bound)),
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
