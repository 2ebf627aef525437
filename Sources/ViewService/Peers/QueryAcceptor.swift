internal import Bytes
internal import Indexing
package import Seams
internal import Vocabulary

/// Answers the queries of other nodes, each on the stream that its coordinator opens.
package final class QueryAcceptor: Sendable {
    fileprivate let respond: QueryTransport.Respond
    fileprivate let environment: Environment
    fileprivate let keys: KeyMemory
    /// The streams of each coordinator.
    private let counts = Guarded<[NodeNumber: Int]>([:])

    /// Serves the streams of queries until the acceptor is gone.
    ///
    /// - Parameters:
    ///   - respond: Answers a request, as `IndexService` does; called on reactors.
    ///   - streams: The streams that other nodes open.
    ///   - environment: The outside world.
    ///   - keys: The memory of the keys of requests, which the queries of this node's clients share.
    package init(
        respond: @escaping QueryTransport.Respond,
        streams: any NodeStreams,
        environment: Environment,
        keys: KeyMemory = KeyMemory()
    ) {
        self.respond = respond
        self.environment = environment
        self.keys = keys
        streams.serve(.views) { [weak self] port, _ in self?.accept(port) }
    }

    private func accept(_ port: any StreamPort) -> AnsweredQuery? {
        let isAccepted = counts.withLock { counts in
            guard counts[port.node, default: 0] < QueryLimits.acceptedMax else { return false }
            counts[port.node, default: 0] += 1
            return true
        }
        return isAccepted ? AnsweredQuery(port, of: self) : nil
    }

    /// A stream of the node is over.
    fileprivate func remove(_ node: NodeNumber) {
        counts.withLock { counts in
            let count = counts[node, default: 0] - 1
            counts[node] = count > 0 ? count : nil
        }
    }
}

/// A query of another node: the responder's side of its stream.
///
/// Replies arrive on any thread and are sent in the reactor's next turn. What waits here is bounded by the
/// query's credit. The end of the stream cancels the query.
private final class AnsweredQuery: StreamHandler, Sendable {
    private struct State {
        var progress = QueryProgress()
        /// Whether the request has arrived.
        var hasBegun = false
        /// Nil before the answer begins, and after its last reply.
        var call: (any QueryCall)?
        /// The memory of the request's keys, as long as `call`.
        var keys: KeyMemory.Reservation?
        /// Encoded replies that are not sent yet.
        var waiting: [[UInt8]] = []

        mutating func removeCall() -> (any QueryCall)? {
            defer { (call, keys) = (nil, nil) }
            return call
        }
    }

    private let port: any StreamPort
    private let acceptor: QueryAcceptor
    private let state = Guarded(State())

    init(_ port: any StreamPort, of acceptor: QueryAcceptor) {
        self.port = port
        self.acceptor = acceptor
    }

    // MARK: Called by the reactor

    func receive(_ message: ByteView) -> StreamReception {
        let isRequest = state.withLock { !exchange(&$0.hasBegun, with: true) }
        return isRequest ? begin(message) : addCredit(message)
    }

    private func begin(_ message: ByteView) -> StreamReception {
        let request: QueryRequest
        do throws(CodingFailure) {
            request = try QueryRequest(decoding: message, skipsRest: true)
        } catch {
            return .invalid("an invalid request (\(error.description))")
        }
        guard let keys = acceptor.keys.reserve(request.scan.keyBytes, for: .node) else {
            fail(
                "The keys of queries use the memory that the node has for them. Retry the query later,"
                    + " or send its `keys` in several requests."
            )
            return .handled
        }
        let call = acceptor.respond(request) { [weak self] reply in self?.reply(reply) }
        let isOpen = state.withLock { state in
            if !state.progress.hasEnded { (state.call, state.keys) = (call, keys) }
            return !state.progress.hasEnded
        }
        // It has ended by its own reply, and may still work for what was not accepted.
        if !isOpen { call.cancel() }
        return .handled
    }

    private func addCredit(_ message: ByteView) -> StreamReception {
        guard message.bytes == QueryLimits.creditMessage else {
            return .invalid("a message of \(message.count) bytes that is no credit")
        }
        let (isAllowed, call) = state.withLock { state in
            // The credit was sent before the last reply arrived.
            guard !state.progress.hasEnded else { return (true, (any QueryCall)?.none) }
            return (state.progress.addCredit(), state.call)
        }
        // More would let the query exceed the bound of what waits here.
        guard isAllowed else { return .invalid("too many credits") }
        call?.addCredit()
        return .handled
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        let room = output.room
        let (messages, progress) = state.withLock { state in
            var bytes = 0
            let messages = state.waiting.prefix { message in
                defer { bytes += message.count }
                return bytes < room
            }
            state.waiting.removeFirst(messages.count)
            guard state.waiting.isEmpty else { return (messages, StreamProgress.again) }
            return (messages, state.progress.hasEnded ? .over : .asleep)
        }
        for message in messages { output.append { $0.append(message) } }
        return progress
    }

    func closed(_ reason: String?) {
        let call = state.withLock { state in
            _ = state.progress.end()
            state.waiting = []
            return state.removeCall()
        }
        call?.cancel()
        acceptor.remove(port.node)
    }

    // MARK: Answers

    private func reply(_ reply: QueryReply) {
        let bytes = reply.encoded
        guard bytes.count <= QueryLimits.replyBytesMax else {
            return fail("A row of the index is too large for a reply.")
        }
        guard admit(reply, bytes) == .exceeding else { return }
        acceptor.environment.trace.fault(
            "views",
            "A query sent more rows than its credit allows."
        )
        fail("The node sent more rows than requested.")
    }

    /// Replaces a reply that cannot be sent by a failure, and ends the work of the query.
    private func fail(_ reason: String) {
        let call = state.withLock { $0.call }
        let failure = QueryReply.failed(reason)
        _ = admit(failure, failure.encoded)
        call?.cancel()
    }

    private func admit(_ reply: QueryReply, _ bytes: [UInt8]) -> QueryProgress.Admission {
        let admission = state.withLock { state in
            let admission = state.progress.admit(reply)
            if admission == .accepted {
                state.waiting.append(bytes)
                if reply.isLast { _ = state.removeCall() }
            }
            return admission
        }
        if admission == .accepted { port.wake() }
        return admission
    }
}
