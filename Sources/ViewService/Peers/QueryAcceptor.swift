internal import Bytes
internal import Indexing
package import Seams
package import Vocabulary

/// Answers the queries of other nodes on the connections that they open.
package final class QueryAcceptor: Sendable {
    private let respond: QueryTransport.Respond
    private let environment: Environment
    private let limits: QueryLimits

    /// - Parameters:
    ///   - respond: Answers a request, as `IndexService` does; called on reactors.
    ///   - environment: The outside world.
    ///   - limits: The bounds of connections.
    ///   - keys: The memory of the keys of requests, which the queries of this node's clients share.
    package init(
        respond: @escaping QueryTransport.Respond,
        environment: Environment,
        limits: QueryLimits = QueryLimits(),
        keys: KeyMemory = KeyMemory()
    ) {
        self.respond = { request, reply in
            CountedQuery(request, in: keys, by: respond, reply)
        }
        self.environment = environment
        self.limits = limits
    }

    /// Serves a connection that a node has opened.
    package func accept(
        from node: NodeNumber,
        port: any ConnectionPort
    ) -> any ConnectionHandler {
        let handler = QueryConnectionHandler(
            of: node,
            port: port,
            respond: respond,
            environment: environment,
            limits: limits
        )
        handler.postTick()
        return handler
    }
}

/// A query of another node, with the memory of its keys until it ends.
private struct CountedQuery: QueryCall {
    private let call: (any QueryCall)?
    private let keys: KeyMemory.Reservation?

    /// Answers a request, or replies with a failure if there is no memory for its keys.
    init(
        _ request: QueryRequest,
        in memory: KeyMemory,
        by respond: QueryTransport.Respond,
        _ reply: @escaping @Sendable (QueryReply) -> Void
    ) {
        keys = memory.reserve(request.scan.keyBytes, for: .node)
        call = keys == nil ? nil : respond(request, reply)
        guard keys == nil else { return }
        reply(
            .failed(
                "The keys of queries use the memory that the node has for them. Retry the query later,"
                    + " or send its `keys` in several requests."
            )
        )
    }

    func addCredit() { call?.addCredit() }
    func cancel() { call?.cancel() }
}

/// The responder's side of one connection.
///
/// Replies arrive on any thread and are sent in the reactor's next turn. While the coordinator does not
/// read, the reactor reads nothing of it either, so no credit arrives and the responses pause. The end
/// of the connection cancels all of them.
final class QueryConnectionHandler: ConnectionHandler, Sendable {
    private struct State {
        var queries = AnsweredQueries()
        var isWoken = false
        var isClosed = false
        var timer: LaneTimer?
        var hasReceived = true
        var silentTicks = 0
    }

    private let node: NodeNumber
    private let port: any ConnectionPort
    private let respond: QueryTransport.Respond
    private let environment: Environment
    private let limits: QueryLimits
    private let decoder = QueryFrameDecoder(isFromCoordinator: true)
    private let state = Guarded(State())

    init(
        of node: NodeNumber,
        port: any ConnectionPort,
        respond: @escaping QueryTransport.Respond,
        environment: Environment,
        limits: QueryLimits
    ) {
        self.node = node
        self.port = port
        self.respond = respond
        self.environment = environment
        self.limits = limits
    }

    // MARK: Called by the reactor

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { state.withLock { $0.hasReceived = true } }
        var consumed = 0
        while true {
            switch decoder.next(in: input.dropFirst(consumed)) {
            case .frame(let frame):
                if let flaw = handle(frame) { return refuse(flaw, input) }
                consumed += frame.byteCount
            case .incomplete(let needed):
                return send(output, consumed: consumed, needed: needed)
            case .invalid(let flaw): return refuse(flaw, input)
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() {
        let (calls, timer) = state.withLock { state in
            state.isClosed = true
            let timer = state.timer
            state.timer = nil
            return (state.queries.end(), timer)
        }
        timer?.cancel()
        for call in calls { call.cancel() }
    }

    private func send(_ output: ByteWriter, consumed: Int, needed: Int) -> ReceiveProgress {
        let hasMore = state.withLock { state in
            let hasMore = state.queries.write(to: output)
            // Until everything is sent, the reactor calls again without a wakeup.
            state.isWoken = hasMore
            return hasMore
        }
        return ReceiveProgress(
            consumed: consumed,
            next: hasMore ? .drain : .receive,
            needed: hasMore ? 0 : needed
        )
    }

    private func refuse(_ flaw: String, _ input: ByteView) -> ReceiveProgress {
        environment.trace.warning(
            "views",
            "Closing the connection for queries of node \(node): it sent \(flaw)."
        )
        port.close()
        return ReceiveProgress(consumed: input.count, next: .close)
    }

    /// Returns what is wrong with the frame.
    private func handle(_ frame: QueryFrame) -> String? {
        switch state.withLock({ $0.queries.receive(frame) }) {
        case .none: return nil
        case .begin(let number, let request): return begin(number, request)
        case .credit(let call):
            call.addCredit()
            return nil
        case .cancel(let call):
            call.cancel()
            return nil
        case .invalid(let flaw): return flaw
        }
    }

    // MARK: Answers

    private func begin(_ number: UInt32, _ bytes: [UInt8]) -> String? {
        let request: QueryRequest
        do throws(CodingFailure) {
            request = try QueryRequest(decoding: bytes, skipsRest: true)
        } catch {
            return "an invalid request (\(error.description))"
        }
        let call = respond(request) { [weak self] reply in self?.reply(number, reply) }
        let isOpen = state.withLock { $0.queries.begin(number, call) }
        // It has ended by its own reply, and may still work for what was not accepted.
        if !isOpen { call.cancel() }
        return nil
    }

    private func reply(_ number: UInt32, _ reply: QueryReply) {
        var frame = QueryConnectionHandler.frame(number, reply)
        var reply = reply
        if frame.count > QueryFrame.headerBytes + QueryLimits.replyBytesMax {
            fail(number, &reply, &frame, "A row of the index is too large for a reply.")
        }
        if admit(number, reply, frame) == .exceeding {
            environment.trace.fault("views", "A query sent more rows than its credit allows.")
            fail(number, &reply, &frame, "The node sent more rows than requested.")
            _ = admit(number, reply, frame)
        }
    }

    /// Replaces a reply that cannot be sent by a failure, and ends the work of its query.
    private func fail(
        _ number: UInt32,
        _ reply: inout QueryReply,
        _ frame: inout [UInt8],
        _ reason: String
    ) {
        reply = .failed(reason)
        frame = QueryConnectionHandler.frame(number, reply)
        state.withLock { $0.queries.call(number) }?.cancel()
    }

    private func admit(
        _ number: UInt32,
        _ reply: QueryReply,
        _ frame: [UInt8]
    ) -> AnsweredQueries.Admission {
        let (admission, wakes) = state.withLock { state in
            let admission = state.queries.reply(number, reply, frame)
            guard admission == .accepted, !state.isWoken else { return (admission, false) }
            state.isWoken = true
            return (admission, true)
        }
        if wakes { port.wake() }
        return admission
    }

    private static func frame(_ number: UInt32, _ reply: QueryReply) -> [UInt8] {
        let writer = ByteWriter()
        QueryFrame.append(.reply, number, to: writer)
        reply.append(to: writer)
        writer.replace(at: 0, bigEndian: UInt32(writer.count - QueryFrame.headerBytes))
        return writer.bytes
    }

    // MARK: Checks

    func postTick() {
        let lane = environment.network.lane(ofReactor: port.reactor)
        let timer = lane.post(after: limits.tickNanoseconds) { [weak self] in self?.tick() }
        let isWanted = state.withLock { state in
            if !state.isClosed { state.timer = timer }
            return !state.isClosed
        }
        if !isWanted { timer.cancel() }
    }

    /// Closes the connection if the coordinator, which sends pings while it has queries, is silent.
    private func tick() {
        let isLost = state.withLock { state in
            let isSilent = !state.hasReceived && !state.queries.isEmpty
            state.silentTicks = isSilent ? state.silentTicks + 1 : 0
            state.hasReceived = false
            return state.silentTicks >= limits.silentCoordinatorTicksMax
        }
        guard isLost else { return postTick() }
        environment.trace.info(
            "views",
            "Closing the connection for queries of node \(node): nothing received."
        )
        port.close()
    }
}
