import Bytes
import ClusterService
import Seams
import TestSupport
import Testing
import Vocabulary

/// One end of a stream: sends what a test gives it, and records what it receives.
final class TestStream: StreamHandler, Sendable {
    struct State: Sendable {
        var outbox: [[UInt8]] = []
        /// The size of the messages that it sends without an end; 0 for none.
        var floodBytes = 0
        /// Whether the stream is over once the outbox is sent.
        var isFinishing = false
        var isPaused = false
        /// Whether messages count as kept until the test releases them.
        var keepsMessages = false
        /// Whether messages are only counted.
        var isCounting = false
        /// What each received message is said to be; nil if it is valid.
        var flaw: String?
        var sentBytes = 0
        var receivedBytes = 0
    }

    let port: any StreamPort
    let request: [UInt8]
    let messages = Signal<[UInt8]>()
    /// The reasons for which it was closed: one at most.
    let closes = Signal<String?>()
    private let state: Guarded<State>

    init(_ port: any StreamPort, request: [UInt8] = [], _ state: State = State()) {
        self.port = port
        self.request = request
        self.state = Guarded(state)
    }

    var now: State { state.withLock { $0 } }

    /// Changes its state on any thread, and makes the reactor apply it.
    func change(_ change: (inout State) -> Void) {
        state.withLock { change(&$0) }
        port.wake()
    }

    func send(_ messages: [[UInt8]]) { change { $0.outbox += messages } }

    // MARK: Called by the reactor

    func receive(_ message: ByteView) -> StreamReception {
        let (reception, isCounting) = state.withLock { state -> (StreamReception, Bool) in
            if state.isPaused { return (.paused, true) }
            if let flaw = state.flaw { return (.invalid(flaw), true) }
            state.receivedBytes += message.count
            return (state.keepsMessages ? .kept : .handled, state.isCounting)
        }
        if !isCounting { messages.send(message.bytes) }
        return reception
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        state.withLock { state in
            while output.room > 0, !state.outbox.isEmpty {
                let message = state.outbox.removeFirst()
                state.sentBytes += message.count
                output.append { $0.append(message) }
            }
            while output.room > 0, state.floodBytes > 0 {
                state.sentBytes += state.floodBytes
                output.append { $0.append([UInt8](repeating: 7, count: state.floodBytes)) }
            }
            if !state.outbox.isEmpty || state.floodBytes > 0 { return .again }
            return state.isFinishing ? .over : .asleep
        }
    }

    func closed(_ reason: String?) { closes.send(reason) }

    // MARK: Opening

    /// Serves a service of a node; returns the streams that other nodes open.
    static func serve(
        _ service: NodeService,
        of node: PeerNode,
        _ state: State = State()
    ) -> Signal<TestStream> {
        let accepted = Signal<TestStream>()
        node.transport.serve(service) { port, request in
            let stream = TestStream(port, request: request.bytes, state)
            accepted.send(stream)
            return stream
        }
        return accepted
    }

    /// Opens a stream to a node.
    ///
    /// - Throws: If it cannot be opened.
    static func open(
        _ service: NodeService,
        from node: PeerNode,
        to other: NodeNumber,
        request: [UInt8] = [],
        _ state: State = State()
    ) async throws -> TestStream {
        let opened = Signal<TestStream?>()
        node.transport.open(
            service,
            to: other,
            request: request,
            opened: { port in
                let stream = TestStream(port, state)
                opened.send(stream)
                return stream
            },
            failed: { reason in
                Issue.record("\(reason)")
                opened.send(nil)
            }
        )
        return try #require(await opened.wait().first ?? nil)
    }

    /// Why a stream cannot be opened.
    static func failure(
        _ service: NodeService,
        from node: PeerNode,
        to other: NodeNumber
    ) async -> String? {
        let failures = Signal<String>()
        node.transport.open(
            service,
            to: other,
            request: [],
            opened: { port in
                failures.send("it was opened")
                return TestStream(port)
            },
            failed: { failures.send($0) }
        )
        return await failures.wait().first
    }
}
