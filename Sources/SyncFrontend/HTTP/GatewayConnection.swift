internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket
internal import SyncWire

/// One connection: receives requests and sends their answers, one after the other.
///
/// - The socket is read only while nothing that was received waits: a client that sends faster than its requests
///   are served is stopped by the kernel.
/// - A request begins only when the socket accepts its answer, so that a client that reads slowly keeps few answers
///   in memory.
/// - A connection that must close sends its last answer, shuts down its side, and waits a moment for the client's:
///   a close with unread input would make the kernel discard the answer.
final class GatewayConnection: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// A part that was received and not handled.
    enum Part {
        case head(HTTPRequestHead)
        case body(ByteBuffer)
        case end
        /// No further part will come.
        case broken(Refusal)
    }

    struct Flags {
        /// The connection closes behind the current answer.
        var isLast = false
        /// The client has shut down its side.
        var isInputClosed = false
        var isOutputClosed = false
        /// The last answer was written.
        var isLingering = false
        var isAdvancing = false
        var needsFlush = false
        /// Parts arrived since the socket was read.
        var hasReceived = false
        /// The client sends the body only when it is asked.
        var expectsContinue = false
    }

    let server: GatewayServer
    private let kind: PortKind
    private(set) var context: ChannelHandlerContext?
    /// The connection, also after an upgrade.
    private var channel: (any Channel)?
    private var exchange: GatewayExchange?
    private var parts = CircularBuffer<Part>(initialCapacity: 4)
    private var flags = Flags()
    var patience: Patience
    /// The place in the server's table.
    var index = 0
    private let remoteAddress: String

    init(_ server: GatewayServer, _ kind: PortKind, from remoteAddress: String) {
        self.server = server
        self.kind = kind
        self.remoteAddress = remoteAddress
        patience = Patience(server.connections)
    }

    var encoder: AnswerEncoder { server.encoder }
    var isLast: Bool { flags.isLast }
    var isWritable: Bool { context?.channel.isWritable ?? false }

    func checkLoop() { server.lane.loop.preconditionInEventLoop() }

    // MARK: The socket

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        channel = context.channel
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        patience.begin(.head, server.settings.timeouts.head)
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        flags.hasReceived = true
        switch unwrapInboundIn(data) {
        case .head(let head): parts.append(.head(head))
        case .body(let bytes): parts.append(.body(bytes))
        case .end: parts.append(.end)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if !flags.hasReceived, patience.kind == .idle {
            patience.begin(.head, server.settings.timeouts.head)
        }
        flags.hasReceived = false
        advance()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        applyWritability(context.channel.isWritable)
        guard context.channel.isWritable else { return }
        exchange?.resumeWriters()
        advance()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed? = event as? ChannelEvent else { return }
        flags.isInputClosed = true
        flags.isLast = true
        if flags.isOutputClosed { return context.close(promise: nil) }
        if let exchange {
            checkInput(of: exchange)
        } else if parts.isEmpty, !flags.isLingering {
            closeBehindWrites(ByteBuffer())
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return context.close(promise: nil) }
        flags.hasReceived = true
        parts.append(.broken(Self.refusal(of: error)))
        advance()
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        parts.removeAll()
        let lost = exchange
        exchange = nil
        lost?.markClosed()
        lost?.body?.release()
    }

    private static func refusal(of error: HTTPParserError) -> Refusal {
        switch error {
        case .headerOverflow: Refusal(431, "The request's target and headers are too long")
        case .invalidVersion: Refusal(505, "The gateway speaks HTTP/1.1")
        default: Refusal(400, "The request is not valid HTTP/1.1")
        }
    }

    /// The client must read while the socket accepts nothing more.
    func applyWritability(_ isWritable: Bool) {
        if !isWritable {
            patience.begin(.send, server.settings.timeouts.send)
        } else if !flags.isLingering {
            patience.end()
        }
    }

    /// The client has let the server wait for too long.
    func expire() {
        if patience.kind == .send, let options = channel?.syncOptions {
            let bytes = try? options.getOption(.bufferedWritableBytes)
            // A client that reads something keeps its connection.
            if let bytes, patience.restart(buffered: bytes, server.settings.timeouts.send) {
                return
            }
        }
        close()
    }

    func close() { channel?.close(promise: nil) }

    // MARK: Requests

    /// Handles what has arrived as far as possible, then sends what that wrote, and reads on.
    private func advance() {
        guard !flags.isAdvancing, context != nil else { return }
        flags.isAdvancing = true
        while handleFirstPart() {}
        flags.isAdvancing = false
        guard let context else { return }
        if flags.needsFlush {
            flags.needsFlush = false
            context.flush()
        }
        if exchange == nil, !flags.isLingering, patience.kind == .none {
            patience.begin(.idle, server.settings.timeouts.idle)
        }
        if parts.isEmpty, !flags.isInputClosed { context.read() }
    }

    /// Returns false if there is no part, or the first one has to wait.
    private func handleFirstPart() -> Bool {
        if flags.isLingering { parts.removeAll() }
        guard let part = parts.first else { return false }
        guard let exchange else {
            guard isWritable else { return false }
            parts.removeFirst()
            begin(part)
            return true
        }
        guard let body = exchange.body, !body.isOver else { return false }
        switch part {
        case .body(let bytes):
            guard body.isReady else { return false }
            parts.removeFirst()
            if patience.kind == .body { patience.begin(.body, server.settings.timeouts.body) }
            body.receive(bytes)
        case .end:
            guard body.isReady else { return false }
            parts.removeFirst()
            body.receiveEnd()
        case .broken(let refusal):
            parts.removeFirst()
            flags.isLast = true
            body.fail(refusal)
        case .head: preconditionFailure("a request ends before the next one begins")
        }
        releaseIfOver(exchange)
        return true
    }

    private func begin(_ part: Part) {
        switch part {
        case .head(let head): begin(head)
        case .broken(let refusal):
            flags.isLast = true
            // There is no request to answer to; the client gets the refusal all the same.
            let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
            let request = GatewayRequest(head, kind, from: remoteAddress)
            let refused = GatewayExchange(request, server.countRequest(), body: nil, on: self)
            exchange = refused
            refused.refuse(refusal)
        case .body, .end: preconditionFailure("a body belongs to a request")
        }
    }

    private func begin(_ head: HTTPRequestHead) {
        patience.end()
        let request = GatewayRequest(head, kind, from: remoteAddress)
        // The decoder does not go on behind a request that asks for another protocol.
        let asksForProtocol =
            head.method == .CONNECT
            || request.header("Upgrade") != nil && request.lists("upgrade", in: "Connection")
        flags.isLast = !head.isKeepAlive || asksForProtocol || flags.isInputClosed
        var body: RequestBody?
        if case .end? = parts.first {
            parts.removeFirst()
        } else {
            body = RequestBody(
                isGzipped: request.header("Content-Encoding") == "gzip",
                server.bodies
            )
            flags.expectsContinue =
                request.isVersion11 && request.lists("100-continue", in: "Expect")
        }
        let begun = GatewayExchange(request, server.countRequest(), body: body, on: self)
        exchange = begun
        server.router.serve(begun)
    }

    /// The handler has asked for more of the body.
    func continueBody() {
        guard let body = exchange?.body, !body.isOver else { return }
        if flags.expectsContinue {
            flags.expectsContinue = false
            if parts.isEmpty {
                send(encoder.make { $0.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n") })
            }
        }
        if body.isReady {
            patience.begin(.body, server.settings.timeouts.body)
        } else if patience.kind == .body {
            patience.end()
        }
        advance()
    }

    /// Ends the exchange of a client that has shut down its side, if its handler waits for that.
    func checkInput(of waiting: GatewayExchange) {
        guard flags.isInputClosed, waiting === exchange, waiting.endsWithInput,
            waiting.body?.isOver ?? true
        else { return }
        // Not within the handler's own call.
        context?.eventLoop.assumeIsolated().execute { [self] in
            guard waiting === exchange else { return }
            context?.close(promise: nil)
        }
    }

    // MARK: WebSockets

    /// Answers 101, and lets the connection speak WebSocket.
    func upgrade(_ head: AnswerHead, _ handler: @escaping WebSocketConnection.Handler) {
        guard let context else { return }
        let conditions = AnswerEncoder.Conditions(framing: .none)
        context.write(
            wrapOutboundOut(encoder.make { encoder.writeHead(head, conditions, to: &$0) }),
            promise: nil
        )
        context.flush()
        exchange = nil
        let socket = WebSocketConnection(self, handler)
        let pipeline = context.pipeline.syncOperations
        let decoder = WebSocketFrameDecoder(maxFrameSize: WebSocketConnection.messageBytesMax)
        do {
            let http = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(ByteToMessageHandler(decoder))
            try pipeline.addHandler(socket)
            _ = pipeline.removeHandler(self)
            socket.open()
            // This forwards what the client has sent behind the handshake, at the end of the turn.
            pipeline.removeHandler(http).assumeIsolated().whenComplete { _ in socket.advance() }
        } catch {
            close()
        }
    }

    /// A WebSocket waits for the client's part of the close handshake.
    func awaitClose() { patience.begin(.linger, server.settings.timeouts.linger) }

    /// Closes a WebSocket behind what it has sent.
    func closeWebSocket() {
        guard let channel else { return }
        flags.isLingering = true
        patience.begin(.linger, server.settings.timeouts.linger)
        let written = channel.eventLoop.makePromise(of: Void.self)
        written.futureResult.whenComplete { _ in channel.close(promise: nil) }
        channel.writeAndFlush(ByteBuffer(), promise: written)
    }

    // MARK: Answers

    func conditions(of request: GatewayRequest) -> AnswerEncoder.Conditions {
        if let body = exchange?.body, !body.isOver {
            let length = request.header("Content-Length").flatMap { Int($0) } ?? 0
            if flags.expectsContinue || length > RequestBody.drainedBytesMax { flags.isLast = true }
        }
        return AnswerEncoder.Conditions(
            framing: .none,
            isLast: flags.isLast,
            isVersion10: !request.isVersion11
        )
    }

    func closeBehindAnswer() { flags.isLast = true }

    func send(_ bytes: ByteBuffer) {
        guard let context else { return }
        context.write(wrapOutboundOut(bytes), promise: nil)
        if flags.isAdvancing {
            flags.needsFlush = true
        } else {
            context.flush()
        }
    }

    /// Sends the end of an answer.
    func finish(_ answered: GatewayExchange, _ bytes: ByteBuffer, isLast: Bool) {
        flags.expectsContinue = false
        guard !isLast else {
            answered.body?.drain()
            answered.body?.release()
            exchange = nil
            return closeBehindWrites(bytes)
        }
        send(bytes)
        answered.body?.drain()
        releaseIfOver(answered)
        advance()
    }

    /// Ends an answer without its rest, so that the client notices.
    func abort() {
        context?.flush()
        close()
    }

    /// Forgets an exchange whose answer and body are over; the connection is ready for the next one.
    private func releaseIfOver(_ ended: GatewayExchange) {
        guard ended === exchange, case .ended = ended.progress else { return }
        if let body = ended.body, !body.isOver {
            guard !body.isTooLongToDrain else { return closeBehindWrites(ByteBuffer()) }
            if patience.kind != .drain { patience.begin(.drain, server.settings.timeouts.head) }
            return
        }
        ended.body?.release()
        exchange = nil
        if patience.kind == .drain { patience.end() }
        if flags.isLast { closeBehindWrites(ByteBuffer()) }
    }

    /// Writes the last bytes of the connection, and closes it once they are sent.
    private func closeBehindWrites(_ bytes: ByteBuffer) {
        guard let context, !flags.isLingering else { return }
        flags.isLingering = true
        exchange = nil
        patience.begin(.send, server.settings.timeouts.send)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in self.closeOutput() }
        context.writeAndFlush(wrapOutboundOut(bytes), promise: written)
    }

    private func closeOutput() {
        guard let context else { return }
        if flags.isInputClosed { return context.close(promise: nil) }
        flags.isOutputClosed = true
        patience.begin(.linger, server.settings.timeouts.linger)
        context.close(mode: .output, promise: nil)
        context.read()
    }
}

/// How long a connection waits, and for what.
///
/// Deadlines count the ticks of the server's table, so that setting one costs no timer and no clock.
struct Patience {
    enum Kind {
        /// The server works; the client may wait as long as it wants.
        case none
        /// The end of a request's head.
        case head
        /// The next request.
        case idle
        /// The next part of a body.
        case body
        /// The end of a body that no handler needs.
        case drain
        /// That the client reads.
        case send
        /// The client's close.
        case linger
    }

    private(set) var kind = Kind.none
    /// The tick at which the wait is over.
    private(set) var deadline = Int.max
    /// The bytes that waited to be sent at the last deadline.
    private var bufferedBytes = Int.max
    private let table: ConnectionTable

    init(_ table: ConnectionTable) { self.table = table }

    mutating func begin(_ kind: Kind, _ seconds: Int) {
        self.kind = kind
        bufferedBytes = .max
        // The next tick may come at once.
        deadline = table.tick + seconds + 1
    }

    mutating func end() {
        kind = .none
        deadline = .max
    }

    /// Begins again if fewer bytes wait to be sent than at the last deadline; returns whether.
    mutating func restart(buffered: Int, _ seconds: Int) -> Bool {
        guard buffered < bufferedBytes else { return false }
        bufferedBytes = buffered
        deadline = table.tick + seconds + 1
        return true
    }
}

/// The open connections of a server, and the clock of their deadlines.
final class ConnectionTable {
    private(set) var connections: [GatewayConnection] = []
    /// Seconds since the first connection; stands still while there is none.
    private(set) var tick = 0
    /// Whether the next second is on its way.
    var isTicking = false

    func add(_ connection: GatewayConnection) {
        connection.index = connections.count
        connections.append(connection)
    }

    func remove(_ connection: GatewayConnection) {
        let last = connections.removeLast()
        guard last !== connection else { return }
        connections[connection.index] = last
        last.index = connection.index
    }

    /// Closes what has waited for too long.
    func advance() {
        tick += 1
        // Closing one changes the list.
        for expired in connections.filter({ $0.patience.deadline <= tick }) { expired.expire() }
    }
}
