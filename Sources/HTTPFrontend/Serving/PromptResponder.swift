internal import ClusterService
internal import NIOCore
internal import NIOHTTP1

/// Answers short requests on the event loop of their connection, before the framework.
///
/// The framework's task, its streams and its types of heads cost more than a short view query. So a GET
/// whose route has a prompt handler is tried here first. If its answer is not ready at once, the request is
/// passed to the framework with what was done for it (`Router.Prepared`): nothing is done twice.
///
/// - The responses are the framework's, byte for byte, and pass the same handlers (`PortChannel`).
/// - Requests keep their order: while the framework has an unanswered request of the connection, it gets
///   those that follow as well.
/// - A client that does not read its responses is not answered here: the framework waits for the client.
/// - Requests that have a body, name an expectation or an upgrade, end the connection, or are of HTTP/1.0 are
///   the framework's. After one that may end the connection, so are all that follow.
final class PromptResponder: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The router and the response dates, which all connections of a port share.
    struct Port: Sendable {
        let router: Router
        let dates = ResponseDates()
    }

    /// Responses between two reads of the socket; a client may send hundreds of requests at once, and the
    /// other connections of the loop would wait for all of them.
    private static let responsesMax = 8

    private let port: Port
    private let watch: ConnectionWatch
    /// The head of a request that may be answered here, until its end arrives.
    private var head: HTTPRequestHead?
    /// Requests that the framework has not answered.
    private var forwardedCount = 0
    private var responseCount = 0
    /// Whether a response of the framework may be the connection's last.
    private var isEnding = false
    /// The addresses of the connection's ends, once they were needed.
    private var addresses: ConnectionAddresses?

    init(_ port: Port, _ watch: ConnectionWatch) {
        self.port = port
        self.watch = watch
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            if Self.endsConnection(head) { isEnding = true }
            if isCandidate(head, context) {
                self.head = head
                return
            }
            forwardedCount += 1
        case .body:
            forwardHead(context)
        case .end:
            if let head {
                self.head = nil
                if answer(head, context) { return }
                forward(head, context)
            }
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        responseCount = 0
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        forwardHead(context)
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        watch.removePrepared()
        context.fireChannelInactive()
    }

    private func isCandidate(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) -> Bool {
        guard head.method == .GET, forwardedCount == 0, !isEnding,
            responseCount < Self.responsesMax, context.channel.isWritable,
            // A target of another form is converted by the framework.
            head.uri.utf8.first == UInt8(ascii: "/")
        else { return false }
        let headers = head.headers
        return !headers.contains(name: "Content-Length")
            && !headers.contains(name: "Transfer-Encoding")
            && !headers.contains(name: "Expect") && !headers.contains(name: "Upgrade")
    }

    /// Whether the response to a request may be the connection's last.
    private static func endsConnection(_ head: HTTPRequestHead) -> Bool {
        // `ConnectionPersistence` has made the field exactly this word if it is.
        head.version != .http1_1 || head.headers.first(name: "Connection") == "close"
    }

    private func forwardHead(_ context: ChannelHandlerContext) {
        guard let head else { return }
        self.head = nil
        forward(head, context)
    }

    private func forward(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        forwardedCount += 1
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    /// Answers a request; false, with the work done for it passed on, if it must wait.
    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) -> Bool {
        let addresses = addresses ?? PortResponder.addresses(of: context.channel)
        self.addresses = addresses
        var request = RESTRequest(
            method: RESTRequest.Method.get.rawValue,
            target: head.uri,
            fields: RequestHeadFields(head.headers),
            addresses: addresses
        )
        request.connection = watch
        switch port.router.answerNow(request) {
        case .reply(let reply):
            guard case .bytes(let bytes) = reply.body else { return false }
            responseCount += 1
            respond(reply, bytes, in: context)
            return true
        case .mustWait(let prepared):
            if let prepared { watch.pass(prepared) }
            return false
        }
    }

    // MARK: Responses

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head): if !head.isKeepAlive { isEnding = true }
        case .body: break
        case .end: forwardedCount -= 1
        }
        context.write(data, promise: promise)
    }

    /// Writes a response with the fields that the framework adds to each one.
    private func respond(_ reply: Reply, _ bytes: [UInt8], in context: ChannelHandlerContext) {
        var headers = HTTPHeaders()
        headers.reserveCapacity(8)
        for (name, value) in port.router.headers(of: reply) {
            headers.replaceOrAdd(name: name, value: value)
        }
        headers.add(name: "Content-Length", value: "\(bytes.count)")
        let now = port.router.service.cluster.wallMilliseconds
        headers.add(name: "Date", value: port.dates.text(atSeconds: Int(now / 1_000)))
        headers.add(name: "Server", value: HTTPListener.serverName)
        if let value = port.router.strictTransport(over: watch) {
            headers.add(name: "Strict-Transport-Security", value: value)
        }
        let head = HTTPResponseHead(
            version: .http1_1,
            status: HTTPResponseStatus(statusCode: reply.status),
            headers: headers
        )
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !bytes.isEmpty {
            let buffer = context.channel.allocator.buffer(bytes: bytes)
            context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}
