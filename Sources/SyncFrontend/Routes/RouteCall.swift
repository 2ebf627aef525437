package import Bytes
package import JSON
package import Seams
package import SyncService
package import SyncWire
package import Syncing

/// A request of a database, with who it is from.
package struct RouteCall: Sendable {
    package let exchange: GatewayExchange
    package let database: SyncDatabase
    package let requester: Requester
    package let environment: Environment
    package let executor: LaneExecutor
    let flow: AnswerFlow

    init(
        _ exchange: GatewayExchange,
        _ database: SyncDatabase,
        requester: Requester,
        environment: Environment,
        executor: LaneExecutor
    ) {
        self.exchange = exchange
        self.database = database
        self.requester = requester
        self.environment = environment
        self.executor = executor
        flow = AnswerFlow(exchange, executor)
    }

    package var request: GatewayRequest { exchange.request }
    package var query: URLParameters { exchange.request.query }

    /// A parameter of the path, decoded.
    package func parameter(_ name: String) -> String { exchange.parameters[name] }

    // MARK: Body

    /// Reads the body; empty if there is none.
    ///
    /// - Throws: `Refusal` 400 or 413.
    package func body(
        atMost bytesMax: Int = SyncLimits.requestBytesMax
    ) async throws(Refusal) -> ByteWriter {
        try await exchange.body(atMost: bytesMax)
    }

    /// Reads a body that is JSON.
    ///
    /// - Throws: `Refusal` 400 `Bad JSON`, 413, or 415 for a body that says to be something else.
    package func json() async throws(Refusal) -> JSONValue {
        try exchange.requireJSONType()
        let body = try await body()
        guard let value = body.withView({ JSONValue.parse($0) }) else {
            throw Refusal(RequestRefusal.badJSON)
        }
        return value
    }

    // MARK: Answers

    package func answer(
        _ status: Int = 200,
        _ headers: AnswerHeaders = [:],
        write: (inout JSONWriter) -> Void
    ) {
        exchange.answer(json: status, headers, write)
    }

    /// Answers with a JSON object whose members `write` adds.
    func answerObject(_ status: Int = 200, _ write: (inout JSONWriter) -> Void) {
        answer(status) { $0.object(write) }
    }

    /// A boundary of multipart answers: 60 random hexadecimal digits.
    package func boundary() -> String { environment.entropy.hex(30) }

    // MARK: Cookies

    package static func sessionID(of request: GatewayRequest, _ database: SyncDatabase) -> String? {
        let name = database.configuration.session.cookieName
        for header in request.headers("Cookie") {
            if let id = SessionCookie.value(of: name, in: header), !id.isEmpty { return id }
        }
        return nil
    }

    package static func setCookie(
        _ session: LoginSession,
        _ exchange: GatewayExchange,
        database: SyncDatabase,
        isSecure: Bool
    ) {
        let settings = database.configuration.session
        let cookie = SessionCookie.setting(
            settings.cookieName,
            id: session.id,
            database: database.name,
            expiry: Int(session.expires),
            flags: SessionCookie.Flags(
                isSecure: settings.isSecure ?? isSecure,
                isHTTPOnly: settings.isHTTPOnly
            )
        )
        exchange.headers.add("Set-Cookie", cookie)
    }
}

extension Refusal {
    static func contentType(_ type: String) -> Refusal {
        Refusal(415, "Invalid content type \(type)")
    }

    /// Runs a parser of a request's body, whose refusals are answers.
    ///
    /// - Throws: `Refusal` of the parser's.
    package static func parsing<Value>(
        _ body: ByteWriter,
        _ parse: (ByteView) throws(RequestRefusal) -> Value
    ) throws(Refusal) -> Value {
        try parsing { () throws(RequestRefusal) in
            try body.withView { (view) throws(RequestRefusal) in try parse(view) }
        }
    }

    /// Runs a parser of requests, whose refusals are answers.
    ///
    /// - Throws: `Refusal` of the parser's.
    package static func parsing<Value>(
        _ body: () throws(RequestRefusal) -> Value
    ) throws(Refusal) -> Value {
        do {
            return try body()
        } catch {
            throw Refusal(error)
        }
    }
}

/// Waits until the client of a request reads more of its answer, and lets other requests continue.
final class AnswerFlow: @unchecked Sendable {  // tidy:allow belongs to the event loop
    /// Parts of an answer that are made without another request between: some milliseconds.
    private static let partsMax = 4

    private let exchange: GatewayExchange
    private let executor: LaneExecutor
    private var parts = 0
    private var waiter: UnsafeContinuation<Void, Never>?
    private var isWatchingEnd = false

    init(_ exchange: GatewayExchange, _ executor: LaneExecutor) {
        self.exchange = exchange
        self.executor = executor
    }

    /// Returns once the socket accepts more of the answer.
    ///
    /// - Throws: `Refusal` if the client is gone: the procedure ends, and its answer is dropped.
    func writable() async throws(Refusal) {
        parts += 1
        if parts.isMultiple(of: Self.partsMax) { await executor.yield() }
        while !exchange.isClosed, !exchange.isWritable {
            if !isWatchingEnd {
                isWatchingEnd = true
                exchange.whenClosed { [weak self] in self?.resume() }
            }
            if exchange.isClosed { break }
            await withUnsafeContinuation { continuation in
                waiter = continuation
                exchange.whenWritable { [weak self] in self?.resume() }
            }
        }
        if exchange.isClosed { throw Refusal(400, "The client closed the connection") }
    }

    private func resume() {
        waiter?.resume()
        waiter = nil
    }
}

extension RouteCall {
    /// Returns once the socket accepts more of the answer: called before each part of a long one.
    ///
    /// - Throws: `Refusal` if the client is gone: the procedure ends, and its answer is dropped.
    package func writable() async throws(Refusal) { try await flow.writable() }
}
