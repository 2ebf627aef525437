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

    init(
        _ exchange: GatewayExchange,
        _ database: SyncDatabase,
        _ requester: Requester,
        _ environment: Environment,
        _ executor: LaneExecutor
    ) {
        self.exchange = exchange
        self.database = database
        self.requester = requester
        self.environment = environment
        self.executor = executor
    }

    package var request: GatewayRequest { exchange.request }
    package var query: QueryParameters { exchange.request.query }

    /// A parameter of the path, decoded.
    package func parameter(_ name: String) -> String { exchange.parameters[name] }

    // MARK: Body

    /// Reads the body; empty if there is none.
    ///
    /// - Throws: `Refusal` 400 or 413.
    package func body(
        atMost bytesMax: Int = SyncLimits.requestBytesMax
    ) async throws(Refusal) -> ByteWriter {
        let exchange = exchange
        let result = await withUnsafeContinuation { waiter in
            exchange.readBody(atMost: bytesMax) { waiter.resume(returning: Sent($0)) }
        }
        return try result.body.get()
    }

    /// The body's buffer changes hands once.
    private struct Sent: @unchecked Sendable {  // tidy:allow one owner at a time
        let body: Result<ByteWriter, Refusal>
        init(_ body: Result<ByteWriter, Refusal>) { self.body = body }
    }

    /// Reads a body that is JSON.
    ///
    /// - Throws: `Refusal` 400 `Bad JSON`, or 413.
    package func json() async throws(Refusal) -> JSONValue {
        guard let value = JSONValue.parse(try await body().view) else {
            throw Refusal(RequestRefusal.badJSON)
        }
        return value
    }

    // MARK: Answers

    package func answer(
        _ status: Int = 200,
        _ headers: AnswerHeaders = [:],
        _ write: (inout JSONWriter) -> Void
    ) {
        let output = ByteWriter()
        var writer = JSONWriter(output)
        write(&writer)
        exchange.answer(json: output.view, status: status, headers)
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
        _ database: SyncDatabase,
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
    /// Runs a parser of requests, whose refusals are answers.
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
