internal import ClusterService
internal import HTTPTypes
internal import HummingbirdCore
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes
internal import Orchestration
internal import Vocabulary

/// Converts the framework's requests to `RESTRequest`, and `Reply` to the framework's responses.
struct PortResponder: Sendable {
    /// A request's body was malformed after its response had begun: the connection ends without another
    /// response.
    private struct BrokenBody: Error {}

    let router: Router
    private let bodies: BodyMemory
    private let dates = ResponseDates()

    init(router: Router) {
        self.router = router
        bodies = router.resources.bodies
    }

    /// Answers a request of the framework, with the fields that every response has.
    ///
    /// - Throws: What ends the connection. An `HTTPParserError` makes the framework answer 400 before.
    func answer(
        _ request: Request,
        _ writer: consuming ResponseWriter,
        on channel: any Channel
    ) async throws {
        var response: Response
        do {
            response = try await respond(to: request, channel)
        } catch let error as HTTPParserError {
            throw error
        } catch {
            // The body cannot be read, for example because the client disconnects.
            response = Response(status: .internalServerError)
        }
        let now = router.service.cluster.wallMilliseconds
        response.headers[.date] = dates.text(atSeconds: Int(now / 1_000))
        response.headers[.server] = HTTPListener.serverName
        if let value = router.strictTransport(over: ConnectionWatch.current) {
            response.headers[.strictTransportSecurity] = value
        }
        do {
            try await writer.write(response: response.head, body: response.body)
        } catch is HTTPParserError {
            throw BrokenBody()
        }
    }

    private func respond(to request: Request, _ channel: any Channel) async throws -> Response {
        if let prepared = ConnectionWatch.current?.removePrepared() {
            // It has no body, and was admitted.
            let reply = await router.answer(prepared.request, prepared.admitted)
            return response(reply, to: prepared.request, channel)
        }
        var asked = RESTRequest(
            method: request.method.rawValue,
            target: request.head.path ?? "/",
            fields: Self.fields(of: request),
            addresses: Self.addresses(of: channel)
        )
        asked.connection = ConnectionWatch.current
        let admitted: Router.Admitted
        switch await router.admit(asked) {
        case .refused(let reply): return response(reply, to: asked, channel)
        case .admitted(let found): admitted = found
        }
        asked.connection?.login?.notifyAdmitted()
        let bytesMax = admitted.bodyBytesMax
        if let declared = request.headers[.contentLength].flatMap({ Int($0) }), declared > bytesMax
        {
            return refuse(.bodyTooLarge(bytesMax: bytesMax), asked, on: channel)
        }
        // The client sends its body after this interim response.
        if request.headers[.expect]?.lowercased() == "100-continue" {
            let interim = HTTPResponsePart.head(HTTPResponse(status: .continue))
            channel.writeAndFlush(interim, promise: nil)
        }
        var body = ByteBuffer()
        // `bodies` counts the body until the reply is made, because the route's handler reads it.
        defer { _ = bodies.resize(from: body.readableBytes, to: 0) }
        for try await part in request.body {
            let count = body.readableBytes + part.readableBytes
            guard count <= bytesMax else {
                return refuse(.bodyTooLarge(bytesMax: bytesMax), asked, on: channel)
            }
            guard bodies.resize(from: body.readableBytes, to: count) else {
                return refuse(.bodyMemoryExhausted, asked, on: channel)
            }
            body.writeImmutableBuffer(part)
        }
        asked.body = Array(body.readableBytesView)
        return response(await router.answer(asked, admitted), to: asked, channel)
    }

    /// Refuses a request before its body ends.
    ///
    /// `ConnectionLifetime` closes the connection without reading the rest of the body.
    private func refuse(
        _ refusal: PortRefusal,
        _ asked: RESTRequest,
        on channel: any Channel
    ) -> Response {
        let reply = router.table.reply(to: refusal, of: asked).header("Connection", "close")
        return response(reply, to: asked, channel)
    }

    private func response(
        _ reply: Reply,
        to asked: RESTRequest,
        _ channel: any Channel
    ) -> Response {
        let whole = Response(
            status: HTTPResponse.Status(code: reply.status),
            headers: Self.fields(router.headers(of: reply)),
            body: body(of: reply, channel)
        )
        // The head of a HEAD request has the length of the body that GET has.
        return asked.method == .head ? whole.createHeadResponse() : whole
    }

    private func body(of reply: Reply, _ channel: any Channel) -> ResponseBody {
        switch reply.body {
        case .bytes(let bytes):
            bytes.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        case .stream(let run):
            // Do not use the framework's detection of disconnects: after the body has been read, as
            // here, it crashes the process when a client disconnects.
            ResponseBody { writer in
                let trailer = try await run({ channel.isActive }) {
                    let stall = reply.stallTimeout.map {
                        channel.eventLoop.scheduleTask(in: TimeAmount($0)) {
                            channel.close(promise: nil)
                        }
                    }
                    defer { stall?.cancel() }
                    try await writer.write(ByteBuffer(bytes: $0))
                }
                try await writer.finish(trailer.isEmpty ? nil : Self.fields(trailer))
            }
        }
    }

    /// Of several fields with a name, the last one.
    private static func fields(_ pairs: [HeaderField]) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in pairs {
            guard let name = HTTPField.Name(name) else { continue }
            fields[name] = value
        }
        return fields
    }

    private static func fields(of request: Request) -> RequestHeadFields {
        var fields = request.headers.map { (name: $0.name.canonicalName, value: $0.value) }
        // The framework stores `Host` outside the header fields.
        if let authority = request.head.authority { fields.append(("host", authority)) }
        return RequestHeadFields(fields)
    }

    /// The addresses of a connection's ends; without a peer's address it counts as of the network.
    static func addresses(of channel: any Channel) -> ConnectionAddresses {
        ConnectionAddresses(
            local: address(channel.localAddress),
            origin: ClientOrigin(peer: channel.remoteAddress?.ipAddress ?? "")
        )
    }

    /// The address in digits, without the prefix of an IPv4 address on an IPv6 socket.
    static func address(_ address: SocketAddress?) -> String {
        let digits = address?.ipAddress ?? "127.0.0.1"
        return digits.hasPrefix("::ffff:") ? String(digits.dropFirst(7)) : digits
    }
}
