package import Bytes
package import JSON
internal import NIOCore
package import Seams
package import SyncWire

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

extension GatewayExchange {
    /// Sends a whole answer.
    ///
    /// - Parameters:
    ///   - status: 200 to 599.
    ///   - headers: Added to the fields of the exchange.
    ///   - body: Copied; dropped for HEAD and for a status that has no body.
    ///   - mayCompress: Whether it is gzipped for a client that accepts it, if it is long enough and of a type that
    ///     becomes smaller.
    package func answer(
        _ status: Int,
        _ headers: AnswerHeaders = [:],
        body: ByteView = .empty,
        mayCompress: Bool = true
    ) {
        guard let head = beginAnswer(status, headers) else { return }
        var conditions = connection.conditions(of: request)
        let isSent = !request.isHead && !head.isBodiless
        var body = body
        if isSent, mayCompress, AnswerCompression.pays(body.count, head), compresses(head) {
            body = connection.encoder.gzip(body)
            conditions.isGzipped = true
        }
        // Sync Gateway's answers to HEAD have the length of attachments, but none of JSON.
        let hasLength =
            !head.isBodiless && (isSent || head.headers["Content-Type"] != "application/json")
        conditions.framing = hasLength ? .length(body.count) : .none
        let bytes = connection.encoder.make { buffer in
            connection.encoder.writeHead(head, conditions, to: &buffer)
            if isSent { buffer.writeBytes(body.buffer) }
        }
        finish(bytes, isLast: conditions.isLast)
    }

    /// Sends a whole answer of JSON.
    package func answer(json body: ByteView, status: Int = 200, _ headers: AnswerHeaders = [:]) {
        var headers = headers
        headers["Content-Type"] = "application/json"
        answer(status, headers, body: body)
    }

    package func answer(json body: ByteWriter, status: Int = 200, _ headers: AnswerHeaders = [:]) {
        body.withView { answer(json: $0, status: status, headers) }
    }

    /// Sends `{"error":E,"reason":R}`; below 300, only the status.
    ///
    /// An answer that has begun ends without its rest: the connection is closed, so that the client notices.
    package func refuse(_ refusal: Refusal) {
        connection.checkLoop()
        if case .streaming = progress { return connection.abort() }
        guard refusal.status >= 300 else { return answer(refusal.status) }
        let body = ByteWriter()
        ErrorAnswer.append(status: refusal.status, reason: refusal.reason, to: body)
        body.withView { body in
            answer(
                refusal.status,
                ["Content-Type": "application/json"],
                body: body,
                mayCompress: false
            )
        }
    }

    /// Begins an answer that is written in parts.
    ///
    /// If it ends before its first flush and is small, it has a length; else it is chunked.
    package func begin(_ status: Int, _ headers: AnswerHeaders = [:], mayCompress: Bool = true) {
        guard let head = beginAnswer(status, headers) else { return }
        var conditions = connection.conditions(of: request)
        conditions.isGzipped = mayCompress && !request.isHead && compresses(head)
        if head.isBodiless {
            conditions.framing = .none
        } else if !request.isVersion11 {
            conditions.framing = .untilClose
            conditions.isLast = true
            connection.closeBehindAnswer()
        } else {
            conditions.framing = .chunked
        }
        let answer = StreamedAnswer(
            head,
            connection.encoder,
            conditions: conditions,
            isHead: request.isHead
        )
        progress = .streaming(answer)
    }

    /// Adds to a begun answer; kept until there are 16 KiB or it is flushed.
    package func write(_ bytes: ByteView) {
        stream { $0.write(bytes) }
    }

    package func write(_ bytes: ByteWriter) { bytes.withView { write($0) } }

    /// Sends all that was written, so that the client can read it.
    package func flush() {
        stream { $0.flush() }
    }

    /// Ends a begun answer.
    package func end() {
        connection.checkLoop()
        guard case .streaming(let answer) = progress else { return requireClosed() }
        finish(answer.end(), isLast: connection.isLast)
    }

    private func stream(_ step: (StreamedAnswer) -> ByteBuffer?) {
        connection.checkLoop()
        guard case .streaming(let answer) = progress else { return requireClosed() }
        if let bytes = step(answer) { connection.send(bytes) }
    }

    private func requireClosed() {
        precondition(isClosed, "an answer is written between its begin and its end")
    }

    /// The head of the answer; nil if the client is gone.
    private func beginAnswer(_ status: Int, _ headers: AnswerHeaders) -> AnswerHead? {
        connection.checkLoop()
        if isClosed { return nil }
        guard case .waiting = progress else { preconditionFailure("a request is answered once") }
        precondition(status >= 200 && status < 600, "an answer is final")
        self.status = status
        var head = AnswerHead(status: status, headers: self.headers)
        head.headers.append(headers)
        return head
    }

    private func compresses(_ head: AnswerHead) -> Bool {
        connection.server.settings.compressesAnswers && AnswerCompression.pays(head)
            && AnswerCompression.isAccepted(by: request)
    }

    private func finish(_ bytes: ByteBuffer, isLast: Bool) {
        markEnded()
        connection.finish(self, bytes, isLast: isLast)
    }
}

extension GatewayExchange {
    /// Collects the body, inflated if the client sent it as gzip.
    ///
    /// - Parameters:
    ///   - bytesMax: A longer body is refused.
    ///   - done: Called once, possibly at once: with the bytes, which then belong to the handler, or with why there
    ///     are none: 413, 400, 503. The handler answers.
    package func readBody(
        atMost bytesMax: Int,
        _ done: @escaping (Result<ByteWriter, Refusal>) -> Void
    ) {
        connection.checkLoop()
        guard let body else { return done(.success(ByteWriter(capacity: 16))) }
        if isClosed { return done(.failure(Refusal(400, "The client closed the connection"))) }
        // A compressed body is at least as large when it is inflated; a wrong claim is found later.
        if let length = request.header("Content-Length").flatMap({ Int($0) }), length > bytesMax {
            body.drain()
            let refusal = Refusal(413, "The request's body has more than \(bytesMax) bytes")
            return done(.failure(refusal))
        }
        body.collect(atMost: bytesMax, done)
        connection.continueBody()
    }

    /// Passes the body as it arrives, inflated if the client sent it as gzip.
    ///
    /// - Parameters:
    ///   - consume: Called with each part, which is borrowed; a refusal that it throws ends the body.
    ///   - done: Called once: with nil behind the last part, or with why there are no further ones. The handler
    ///     answers.
    package func streamBody(
        _ consume: @escaping (ByteView) throws(Refusal) -> Void,
        _ done: @escaping (Refusal?) -> Void
    ) {
        connection.checkLoop()
        guard let body else { return done(nil) }
        if isClosed { return done(Refusal(400, "The client closed the connection")) }
        body.stream(consume, done)
        connection.continueBody()
    }

    /// Accounts for the bytes that a handler keeps of a streamed body, until the answer: the bound of collected
    /// bodies counts for both.
    ///
    /// - Throws: `Refusal` 503 if all requests together keep too much.
    package func keepBody(_ bytes: Int) throws(Refusal) {
        connection.checkLoop()
        if !isClosed { try body?.keep(bytes) }
    }

    /// Stops the calls of `consume`, and the receiving of more than a socket's buffer.
    package func pauseBody() {
        connection.checkLoop()
        body?.pause()
    }

    /// Continues after `pauseBody`.
    package func resumeBody() {
        connection.checkLoop()
        body?.resume()
        connection.continueBody()
    }
}

/// Bodies and answers of JSON, for routes of a database and of the whole gateway.
extension GatewayExchange {
    /// Reads the body; empty if there is none.
    ///
    /// - Throws: `Refusal` 400 or 413.
    package func body(atMost bytesMax: Int) async throws(Refusal) -> ByteWriter {
        let result = await withUnsafeContinuation { waiter in
            readBody(atMost: bytesMax) { waiter.resume(returning: Sent($0)) }
        }
        return try result.body.get()
    }

    /// The body's buffer changes hands once.
    private struct Sent: @unchecked Sendable {  // tidy:allow one owner at a time
        let body: Result<ByteWriter, Refusal>
        init(_ body: Result<ByteWriter, Refusal>) { self.body = body }
    }

    /// - Throws: `Refusal` 415 if the body says to be no JSON; a request may leave the type out.
    package func requireJSONType() throws(Refusal) {
        guard let type = request.header("Content-Type"), !type.isEmpty,
            !type.hasPrefix("application/json")
        else { return }
        throw .contentType(type)
    }

    package func answer(
        json status: Int,
        _ headers: AnswerHeaders = [:],
        _ write: (inout JSONWriter) -> Void
    ) {
        let output = ByteWriter()
        var writer = JSONWriter(output)
        write(&writer)
        answer(json: output, status: status, headers)
    }

    /// Answers with a text that is no JSON, or that Sync Gateway does not call JSON.
    func answer(_ type: String, _ text: String) {
        let body = ByteWriter()
        body.append(text: text)
        body.withView { answer(200, ["Content-Type": type], body: $0) }
    }
}

/// Decides whether an answer is gzipped, as Sync Gateway decides it.
enum AnswerCompression {
    /// JSON that is shorter is not compressed.
    private static let jsonBytesMin = 1_000

    /// Whether a whole answer of `count` bytes is long enough; Sync Gateway has a bound for JSON only.
    static func pays(_ count: Int, _ head: AnswerHead) -> Bool {
        let isJSON = head.headers["Content-Type"] == "application/json"
        return count >= (isJSON ? jsonBytesMin : 1) && pays(head)
    }

    /// Whether the client accepts it, and the request is none whose answer stays as it is.
    static func isAccepted(by request: GatewayRequest) -> Bool {
        switch request.method {
        case "HEAD", "PUT", "DELETE": return false
        default: break
        }
        guard let accepted = request.header("Accept-Encoding") else { return false }
        return !request.isWebSocketUpgrade && lists(gzipIn: accepted)
    }

    /// Whether it makes an answer smaller.
    static func pays(_ head: AnswerHead) -> Bool {
        guard head.status < 300, head.headers["Content-Encoding"] == nil,
            let type = head.headers["Content-Type"]
        else { return false }
        return ["application/json", "text/", "multipart/mixed"].contains { type.hasPrefix($0) }
    }

    /// Whether the value of `Accept-Encoding` has gzip with a quality above 0.
    static func lists(gzipIn value: String) -> Bool {
        value.split(separator: ",").contains { element in
            let parts = element.split(separator: ";").map { trimmed($0) }
            guard let coding = parts.first, FieldName.equal(String(coding), "gzip") else {
                return false
            }
            return !parts.dropFirst().contains { part in
                part.hasPrefix("q=") && Double(part.dropFirst(2)) == 0
            }
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
