internal import Bytes
package import Indexing
package import Seams
package import Vocabulary

/// Sends queries to nodes: each on a stream of its own to another node, and directly to this one.
///
/// - A query's events come one at a time, of another node on a reactor and never within `send`.
/// - After a cancellation, an event that was under way may still arrive.
package final class QueryTransport: QueryNodes {
    /// Answers a request of this node.
    package typealias Respond =
        @Sendable (QueryRequest, @escaping @Sendable (QueryReply) -> Void) -> any QueryCall

    private struct State {
        /// The queries that have not ended, in their order.
        var queries: [NodeNumber: [CalledQuery]] = [:]
        var isStopped = false
    }

    private let own: @Sendable () -> NodeNumber?
    private let local: Respond
    private let streams: any NodeStreams
    private let environment: Environment
    private let state = Guarded(State())

    /// - Parameters:
    ///   - own: This node's number, which changes when it joins a cluster; nil while it has none.
    ///   - local: Answers the requests to this node.
    ///   - streams: Opens streams to the other nodes.
    ///   - environment: The outside world.
    package init(
        own: @escaping @Sendable () -> NodeNumber?,
        local: @escaping Respond,
        streams: any NodeStreams,
        environment: Environment
    ) {
        self.own = own
        self.local = local
        self.streams = streams
        self.environment = environment
    }

    package func send(
        _ request: QueryRequest,
        to node: NodeNumber,
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) -> any QueryCall {
        if node == own() { return local(request) { event(.reply($0)) } }
        let bytes = request.encoded
        let query = CalledQuery(bytes, event) { [weak self] in self?.remove($0, from: node) }
        // The loss is reported after this call.
        let lane = environment.network.lane(ofReactor: 0)
        if let obstacle = add(query, of: bytes.count, to: node) {
            lane.post { query.lose(obstacle) }
            return query
        }
        streams.open(
            .views,
            to: node,
            request: [],
            opened: { port in
                query.attach(port)
                return query
            },
            failed: { reason in lane.post { query.lose(reason) } }
        )
        return query
    }

    package func answersHere(_ node: NodeNumber) -> Bool { node == own() }

    /// Ends all queries of other nodes; later ones are lost.
    package func stop() {
        let queries = state.withLock { state in
            state.isStopped = true
            return state.queries.sorted { $0.key < $1.key }.flatMap(\.value)
        }
        for query in queries { query.stop("this node stops") }
    }

    /// Returns why the node cannot have the query.
    private func add(_ query: CalledQuery, of byteCount: Int, to node: NodeNumber) -> String? {
        guard byteCount <= QueryLimits.requestBytesMax else {
            return "the request is too large for it"
        }
        return state.withLock { state in
            guard !state.isStopped else { return "this node stops" }
            guard state.queries[node, default: []].count < QueryLimits.queriesMax else {
                return "it has \(QueryLimits.queriesMax) queries of this node already"
            }
            state.queries[node, default: []].append(query)
            return nil
        }
    }

    private func remove(_ query: CalledQuery, from node: NodeNumber) {
        state.withLock { state in
            state.queries[node]?.removeAll { $0 === query }
            if state.queries[node]?.isEmpty == true { state.queries[node] = nil }
        }
    }
}

/// A query at another node: the coordinator's side of its stream.
private final class CalledQuery: StreamHandler, QueryCall, Sendable {
    private struct State {
        var progress = QueryProgress()
        /// Empty once it is sent.
        var request: [UInt8]
        var unsentCredits = 0
        /// Nil before the stream is opened, and after its end.
        var port: (any StreamPort)?
        /// Why the query is lost, whatever the reason of the stream's end.
        var stopReason: String?
    }

    private let event: @Sendable (QueryNodeEvent) -> Void
    private let ended: @Sendable (CalledQuery) -> Void
    private let state: Guarded<State>

    /// - Parameters:
    ///   - request: The encoded request.
    ///   - event: Called with each event.
    ///   - ended: Called once, before the last event if there is one.
    init(
        _ request: [UInt8],
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void,
        ended: @escaping @Sendable (CalledQuery) -> Void
    ) {
        self.event = event
        self.ended = ended
        state = Guarded(State(request: request))
    }

    // MARK: Called from any thread

    func addCredit() {
        let port: (any StreamPort)? = state.withLock { state in
            guard state.progress.addCredit() else { return nil }
            state.unsentCredits += 1
            return state.port
        }
        port?.wake()
    }

    func cancel() {
        let (isFirst, port) = state.withLock { state in
            state.request = []
            return (state.progress.end(), state.port)
        }
        guard isFirst else { return }
        ended(self)
        port?.end(nil)
    }

    /// Ends the stream, and then the query on the stream's reactor.
    func stop(_ reason: String) {
        let port = state.withLock { state in
            state.stopReason = reason
            return state.port
        }
        if let port { port.end(nil) } else { lose(reason) }
    }

    /// Ends the query; if its stream is open, this is called on the stream's reactor.
    func lose(_ reason: String) {
        let lost: String? = state.withLock { state in
            state.request = []
            return state.progress.end() ? state.stopReason ?? reason : nil
        }
        guard let lost else { return }
        ended(self)
        event(.lost(lost))
    }

    // MARK: Called by the reactor

    /// The stream is opened.
    func attach(_ port: any StreamPort) {
        let isWanted = state.withLock { state in
            state.port = port
            return !state.progress.hasEnded && state.stopReason == nil
        }
        if isWanted { port.wake() } else { port.end(nil) }
    }

    func receive(_ message: ByteView) -> StreamReception {
        guard message.count <= QueryLimits.replyBytesMax else {
            return .invalid("a reply of \(message.count) bytes")
        }
        let reply: QueryReply
        do throws(CodingFailure) {
            reply = try QueryReply(decoding: message, skipsRest: true)
        } catch {
            return .invalid("an invalid reply (\(error.description))")
        }
        switch state.withLock({ $0.progress.admit(reply) }) {
        case .ignored: break
        case .exceeding: return .invalid("more rows than requested")
        case .accepted:
            if reply.isLast { ended(self) }
            event(.reply(reply))
        }
        return .handled
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        let (request, credits) = state.withLock { state in
            defer { (state.request, state.unsentCredits) = ([], 0) }
            return (state.request, state.unsentCredits)
        }
        if !request.isEmpty { output.append { $0.append(request) } }
        for _ in 0..<credits { output.append { $0.append(QueryLimits.creditMessage) } }
        return .asleep
    }

    func closed(_ reason: String?) {
        state.withLock { $0.port = nil }
        lose(reason ?? "it ended the query without a last reply")
    }
}
