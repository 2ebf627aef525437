internal import Bytes
internal import Indexing
internal import Seams
internal import Vocabulary

/// The coordinator's side of one connection to a node; it accepts queries before the connection is
/// open.
///
/// Receivers are called on the connection's reactor. A query that is lost has a reason without a full
/// stop.
final class QueryCaller: ConnectionHandler, Sendable {
    private struct State {
        var queries = CalledQueries()
        var port: (any ConnectionPort)?
        var isWoken = false
        /// Why the connection ends; nil while it does not.
        var reason: String?
        var timer: LaneTimer?
        var hasReceived = false
        var silentTicks = 0
        var idleTicks = 0
    }

    private let node: NodeNumber
    private let environment: Environment
    private let limits: QueryLimits
    private let decoder = QueryFrameDecoder(isFromCoordinator: false)
    private let state = Guarded(State())

    init(to node: NodeNumber, environment: Environment, limits: QueryLimits) {
        self.node = node
        self.environment = environment
        self.limits = limits
    }

    // MARK: Called from any thread

    func add(
        _ request: [UInt8],
        _ event: @escaping CalledQueries.Event
    ) -> CalledQueries.Addition {
        let (addition, port) = state.withLock { state in
            if state.queries.isEmpty { (state.hasReceived, state.silentTicks) = (true, 0) }
            guard state.reason == nil else {
                return (CalledQueries.Addition.ended, (any ConnectionPort)?.none)
            }
            let addition = state.queries.add(request, event)
            guard case .added = addition else { return (addition, (any ConnectionPort)?.none) }
            state.idleTicks = 0
            return (addition, QueryCaller.wakes(&state))
        }
        port?.wake()
        return addition
    }

    func addCredit(_ number: UInt32) { steer { $0.addCredit(number) } }

    func cancel(_ number: UInt32) { steer { $0.cancel(number) } }

    private func steer(_ change: (inout CalledQueries) -> Bool) {
        state.withLock { change(&$0.queries) ? QueryCaller.wakes(&$0) : nil }?.wake()
    }

    /// The port, if it has to be woken.
    private static func wakes(_ state: inout State) -> (any ConnectionPort)? {
        guard !state.isWoken, let port = state.port else { return nil }
        state.isWoken = true
        return port
    }

    /// Ends the connection, and on its reactor its queries.
    func stop(_ reason: String) {
        let port = state.withLock { state in
            state.reason = state.reason ?? reason
            return state.port
        }
        if let port { port.close() } else { end(reason) }
    }

    /// Ends all queries and the connection, for the reason that was stated first.
    ///
    /// If the connection is open, this is called on its reactor: no event overtakes another one.
    func end(_ reason: String) {
        let (events, first, port, timer) = state.withLock { state in
            let first = state.reason ?? reason
            state.reason = first
            let timer = state.timer
            state.timer = nil
            return (state.queries.end(), first, state.port, timer)
        }
        timer?.cancel()
        for event in events { event(.lost(first)) }
        port?.close()
    }

    // MARK: Called by the reactor

    /// The connection is open.
    func attach(_ port: any ConnectionPort) {
        let hasEnded = state.withLock { state in
            state.port = port
            state.isWoken = true
            return state.reason != nil
        }
        if hasEnded { return port.close() }
        postTick(port)
        port.wake()
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { state.withLock { $0.hasReceived = true } }
        var consumed = 0
        while true {
            switch decoder.next(in: input.dropFirst(consumed)) {
            case .frame(let frame):
                if let flaw = handle(frame) { return refuse(flaw, input) }
                consumed += frame.byteCount
            case .incomplete(let needed):
                state.withLock { state in
                    state.isWoken = false
                    state.queries.write(to: output)
                }
                return ReceiveProgress(consumed: consumed, next: .receive, needed: needed)
            case .invalid(let flaw): return refuse(flaw, input)
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() { end("it ended the connection") }

    private func refuse(_ flaw: String, _ input: ByteView) -> ReceiveProgress {
        environment.trace.warning(
            "views",
            "Closing the connection for queries to node \(node): it sent \(flaw)."
        )
        end("it sent \(flaw)")
        return ReceiveProgress(consumed: input.count, next: .close)
    }

    /// Returns what is wrong with the frame.
    private func handle(_ frame: QueryFrame) -> String? {
        switch frame.kind {
        case .reply:
            let reply: QueryReply
            do throws(CodingFailure) {
                reply = try QueryReply(decoding: frame.payload, skipsRest: true)
            } catch {
                return "an invalid reply (\(error.description))"
            }
            let number = frame.number
            switch state.withLock({ $0.queries.deliver(reply, to: number) }) {
            case .event(let event): event(.reply(reply))
            case .ignored: break
            case .invalid(let flaw): return flaw
            }
        case .received:
            let bytes = Int(frame.payload.bigEndian(at: 0, as: UInt32.self))
            let isPossible = state.withLock { $0.queries.acknowledge(bytes) }
            return isPossible ? nil : "an acknowledgement of more than it received"
        case .pong, .part, .request, .credit, .cancel, .ping: break
        }
        return nil
    }

    // MARK: Checks

    private func postTick(_ port: any ConnectionPort) {
        let lane = environment.network.lane(ofReactor: port.reactor)
        let timer = lane.post(after: limits.tickNanoseconds) { [weak self] in self?.tick() }
        let isWanted = state.withLock { state in
            guard state.reason == nil else { return false }
            state.timer = timer
            return true
        }
        if !isWanted { timer.cancel() }
    }

    /// Closes a connection that is not used or has lost its node, and pings a silent node.
    private func tick() {
        let (reason, port) = state.withLock { state in
            guard state.reason == nil else { return (String?.none, (any ConnectionPort)?.none) }
            if state.queries.isEmpty {
                state.idleTicks += 1
                // From now on the link opens another connection.
                if state.idleTicks >= limits.idleTicksMax { state.reason = "it was idle" }
                if state.reason != nil { _ = state.queries.end() }
            } else {
                state.silentTicks = state.hasReceived ? 0 : state.silentTicks + 1
                if !state.hasReceived { state.queries.ping() }
                if state.silentTicks >= limits.silentTicksMax {
                    return ("it did not answer", state.port)
                }
            }
            state.hasReceived = false
            return (state.reason, state.port)
        }
        if let reason { return end(reason) }
        guard let port else { return }
        postTick(port)
        port.wake()
    }
}
