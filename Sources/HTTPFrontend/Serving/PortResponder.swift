internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOHTTPTypes
internal import Vocabulary

/// Converts the framework's requests to `RESTRequest`, and `Reply` to the framework's responses.
struct PortResponder: HTTPResponder {
    struct Context: InitializableFromSource {
        typealias Source = ApplicationRequestContextSource

        let channel: any Channel

        init(source: ApplicationRequestContextSource) {
            channel = source.channel
        }
    }

    let router: Router
    private let bodies: BodyMemory

    init(router: Router) {
        self.router = router
        bodies = router.resources.bodies
    }

    func respond(to request: Request, context: Context) async throws -> Response {
        if let prepared = ConnectionWatch.current?.removePrepared() {
            // It has no body, and was admitted.
            let reply = await router.answer(prepared.request, prepared.admitted)
            return response(reply, to: prepared.request, context.channel)
        }
        var asked = RESTRequest(
            method: request.method.rawValue,
            target: request.head.path ?? "/",
            fields: Self.fields(of: request),
            addresses: Self.addresses(of: context.channel)
        )
        asked.connection = ConnectionWatch.current
        let admitted: Router.Admitted
        switch await router.admit(asked) {
        case .refused(let reply): return response(reply, to: asked, context.channel)
        case .admitted(let found): admitted = found
        }
        asked.connection?.login?.noteAdmission()
        let bytesMax = admitted.bodyBytesMax
        if let declared = request.headers[.contentLength].flatMap({ Int($0) }), declared > bytesMax
        {
            return refuse(.bodyTooLarge(bytesMax: bytesMax), asked, context)
        }
        // The client sends its body after this interim response.
        if request.headers[.expect]?.lowercased() == "100-continue" {
            let interim = HTTPResponsePart.head(HTTPResponse(status: .continue))
            context.channel.writeAndFlush(interim, promise: nil)
        }
        var body = ByteBuffer()
        // `bodies` counts the body until the reply is made, because the route's handler reads it.
        defer { _ = bodies.resize(from: body.readableBytes, to: 0) }
        for try await part in request.body {
            let count = body.readableBytes + part.readableBytes
            guard count <= bytesMax else {
                return refuse(.bodyTooLarge(bytesMax: bytesMax), asked, context)
            }
            guard bodies.resize(from: body.readableBytes, to: count) else {
                return refuse(.bodyMemoryExhausted, asked, context)
            }
            body.writeImmutableBuffer(part)
        }
        asked.body = Array(body.readableBytesView)
        return response(await router.answer(asked, admitted), to: asked, context.channel)
    }

    /// Refuses a request before its body ends.
    ///
    /// `ConnectionLifetime` closes the connection without reading the rest of the body.
    private func refuse(
        _ refusal: Refusal,
        _ asked: RESTRequest,
        _ context: Context
    ) -> Response {
        var reply = router.table.reply(to: refusal, of: asked)
        reply.headers.append(("Connection", "close"))
        return response(reply, to: asked, context.channel)
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

    private static func fields(of request: Request) -> RequestFields {
        var fields = request.headers.map { (name: $0.name.canonicalName, value: $0.value) }
        // The framework stores `Host` outside the header fields.
        if let authority = request.head.authority { fields.append(("host", authority)) }
        return RequestFields(fields)
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
