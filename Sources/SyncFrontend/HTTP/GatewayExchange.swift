internal import Bytes
package import Seams
internal import SyncWire

/// One request and its answer.
///
/// - Belongs to the event loop of its connection: every call is made there.
/// - A request is answered once: by `answer`, `refuse`, `begin` to `end`, or an upgrade.
/// - Once the client is gone, calls that answer do nothing.
package final class GatewayExchange: @unchecked Sendable {  // tidy:allow belongs to its event loop
    /// How far the answer is.
    enum Progress {
        case waiting
        case streaming(StreamedAnswer)
        /// The connection speaks another protocol.
        case upgraded
        case ended
        /// The client is gone.
        case closed
    }

    package let request: GatewayRequest
    /// Counts the requests of the server, for log lines.
    package let number: UInt64
    /// The parameters of the path, by the names of the route's pattern.
    package internal(set) var parameters = RouteParameters()
    /// Fields of the answer that follows, whatever it is: also of a refusal.
    package var headers = AnswerHeaders()
    /// The status of the answer; 0 before it begins.
    package internal(set) var status = 0

    let connection: GatewayConnection
    let body: RequestBody?
    var progress = Progress.waiting
    private var writableWaiters: [() -> Void] = []
    private var closeWaiters: [() -> Void] = []

    /// - Parameters:
    ///   - request: The head.
    ///   - number: The server's count.
    ///   - body: Nil if all of the request has arrived and it has none.
    ///   - connection: Where the answer goes.
    init(
        _ request: GatewayRequest,
        _ number: UInt64,
        body: RequestBody?,
        on connection: GatewayConnection
    ) {
        self.request = request
        self.number = number
        self.body = body
        self.connection = connection
    }

    /// For timers.
    package var lane: any Lane { connection.server.lane }

    /// Whether the client is gone before the end of the answer.
    package var isClosed: Bool { if case .closed = progress { true } else { false } }

    /// Whether an answer has begun, also if the client is gone since.
    package var isAnswered: Bool { status != 0 }

    // MARK: Back-pressure

    /// Whether the socket accepts more of the answer; if not, what is written is kept in memory.
    package var isWritable: Bool { connection.isWritable }

    /// Calls `resume` once the socket accepts more: at once if it does already.
    ///
    /// It is not called if the client goes.
    package func whenWritable(_ resume: @escaping () -> Void) {
        connection.checkLoop()
        if connection.isWritable { return resume() }
        writableWaiters.append(resume)
    }

    /// Calls `react` if the client goes before the end of the answer; at once if it is gone.
    ///
    /// A client that shuts down its sending side counts as gone if there is such a closure, because one that closes
    /// its connection sends the same: the connection is closed behind the call. Without one, the answer is still
    /// sent.
    package func whenClosed(_ react: @escaping () -> Void) {
        connection.checkLoop()
        if isClosed { return react() }
        closeWaiters.append(react)
        connection.checkInput(of: self)
    }

    var endsWithInput: Bool { !closeWaiters.isEmpty }

    func resumeWriters() {
        for resume in exchange(&writableWaiters, with: []) { resume() }
    }

    /// The client is gone.
    func markClosed() {
        switch progress {
        case .ended, .closed, .upgraded: return
        case .waiting, .streaming: break
        }
        progress = .closed
        writableWaiters = []
        let waiters = exchange(&closeWaiters, with: [])
        body?.fail(Refusal(400, "The client closed the connection within the request's body"))
        for react in waiters { react() }
        connection.server.didAnswer?(self)
    }

    func markEnded() {
        progress = .ended
        // Closures may have references to this exchange.
        (writableWaiters, closeWaiters) = ([], [])
        connection.server.didAnswer?(self)
    }
}
