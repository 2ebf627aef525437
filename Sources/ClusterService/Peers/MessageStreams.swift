internal import Bytes
internal import Seams
internal import Vocabulary

/// Sends messages of the cluster service on one stream.
///
/// Any thread queues messages; a message that does not fit into the queue is refused.
final class MessageSender: StreamHandler, Sendable {
    private struct State {
        var queue: [(kind: UInt16, payload: [UInt8])] = []
        var sentCount = 0
        var bytes = 0
        var isClosed = false
    }

    private let port: any StreamPort
    private let queueBytesMax: Int
    private let ended: @Sendable (MessageSender) -> Void
    private let state = Guarded(State())

    /// - Parameters:
    ///   - port: The stream.
    ///   - queueBytesMax: Bytes of messages that wait.
    ///   - ended: Called on the reactor when the stream is over.
    init(
        _ port: any StreamPort,
        queueBytesMax: Int,
        ended: @escaping @Sendable (MessageSender) -> Void
    ) {
        self.port = port
        self.queueBytesMax = queueBytesMax
        self.ended = ended
    }

    /// Queues a message; false if the queue is full or the stream is over.
    func enqueue(_ kind: UInt16, _ payload: [UInt8]) -> Bool {
        precondition(payload.count + 2 <= NodeService.callBytesMax, "a message is bounded")
        let isTaken = state.withLock { state in
            guard !state.isClosed, state.bytes + payload.count <= queueBytesMax else {
                return false
            }
            state.bytes += payload.count
            state.queue.append((kind, payload))
            return true
        }
        if isTaken { port.wake() }
        return isTaken
    }

    /// Whether the stream is over.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    func close() { port.end(nil) }

    func receive(_ message: ByteView) -> StreamReception {
        .invalid("an answer to one-way messages")
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        state.withLock { state in
            while output.room > 0, state.sentCount < state.queue.count {
                let (kind, payload) = state.queue[state.sentCount]
                state.sentCount += 1
                state.bytes -= payload.count
                output.append { writer in
                    writer.append(bigEndian: kind)
                    writer.append(payload)
                }
            }
            let hasMore = state.sentCount < state.queue.count
            if !hasMore || state.sentCount >= 64 {
                state.queue.removeFirst(state.sentCount)
                state.sentCount = 0
            }
            return hasMore ? .again : .asleep
        }
    }

    func closed(_ reason: String?) {
        state.withLock { $0 = State(isClosed: true) }
        ended(self)
    }
}

/// Passes the messages of one stream to a lane, those of one turn together.
///
/// While the lane is behind, the other side may not send more than the stream's window.
final class MessageReceiver: StreamHandler {
    private let port: any StreamPort
    private let lane: any Lane
    private let arrived: @Sendable (UInt16, [UInt8]) -> Void
    private var messages: [(kind: UInt16, payload: [UInt8])] = []

    init(
        _ port: any StreamPort,
        on lane: any Lane,
        arrived: @escaping @Sendable (UInt16, [UInt8]) -> Void
    ) {
        self.port = port
        self.lane = lane
        self.arrived = arrived
    }

    func receive(_ message: ByteView) -> StreamReception {
        guard message.count >= 2 else { return .invalid("a message without a kind") }
        messages.append((message.bigEndian(at: 0, as: UInt16.self), message.dropFirst(2).bytes))
        return .kept
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        guard !messages.isEmpty else { return .asleep }
        lane.post { [messages, port, arrived] in
            for (kind, payload) in messages { arrived(kind, payload) }
            port.release(messages.reduce(0) { $0 + $1.payload.count + 2 })
        }
        messages = []
        return .asleep
    }

    func closed(_ reason: String?) {}
}
