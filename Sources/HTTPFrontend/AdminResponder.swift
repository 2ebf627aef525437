internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import NIOCore
internal import NIOHTTPTypes

/// Converts the framework's requests to `AdminRequest`, and `Reply` to the framework's responses.
struct AdminResponder: HTTPResponder {
    struct Context: InitializableFromSource {
        typealias Source = ApplicationRequestContextSource

        let channel: any Channel

        init(source: ApplicationRequestContextSource) {
            channel = source.channel
        }
    }

    /// Headers of every response, the same as Couchbase's: no caching, no framing.
    private static let commonHeaders: [(String, String)] = [
        ("Cache-Control", "no-cache,no-store,must-revalidate"),
        ("Pragma", "no-cache"),
        ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("X-Permitted-Cross-Domain-Policies", "none"),
        ("X-XSS-Protection", "1; mode=block"),
    ]

    let router: Router
    private let bodies = BodyMemory()

    init(router: Router) {
        self.router = router
    }

    func respond(to request: Request, context: Context) async throws -> Response {
        var asked = AdminRequest(
            method: request.method.rawValue,
            target: request.head.path ?? "/",
            headers: Self.headers(request),
            localAddress: Self.address(context.channel.localAddress)
        )
        let admitted: Router.Admitted
        switch router.admit(asked) {
        case .refused(let reply): return response(reply, to: asked, context.channel)
        case .admitted(let found): admitted = found
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
            guard count <= admitted.bodyBytesMax else {
                let most = admitted.bodyBytesMax
                return refuse("The body is larger than \(most) bytes.", 413, asked, context)
            }
            guard bodies.resize(from: body.readableBytes, to: count) else {
                let text = "The memory for request bodies is used up. Retry later."
                return refuse(text, 503, asked, context)
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
        _ text: String,
        _ status: Int,
        _ asked: AdminRequest,
        _ context: Context
    ) -> Response {
        var reply = Reply.text(text + "\r\n", status: status)
        reply.headers.append(("Connection", "close"))
        return response(reply, to: asked, context.channel)
    }

    private func response(
        _ reply: Reply,
        to asked: AdminRequest,
        _ channel: any Channel
    ) -> Response {
        var headers = HTTPFields()
        for (name, value) in Self.commonHeaders + reply.headers {
            guard let name = HTTPField.Name(name) else { continue }
            headers[name] = value
        }
        if let type = reply.contentType { headers[.contentType] = type }
        return Response(
            status: HTTPResponse.Status(code: reply.status),
            headers: headers,
            body: asked.method == .head ? ResponseBody() : body(of: reply, channel)
        )
    }

    private func body(of reply: Reply, _ channel: any Channel) -> ResponseBody {
        switch reply.body {
        case .bytes(let bytes):
            bytes.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        case .stream(let run):
            // Do not use the framework's detection of disconnects: after the body has been read, as
            // here, it crashes the process when a client disconnects.
            ResponseBody { writer in
                try await run({ channel.isActive }) {
                    try await writer.write(ByteBuffer(bytes: $0))
                }
                try await writer.finish(nil)
            }
        }
    }

    private static func headers(_ request: Request) -> [String: String] {
        var headers: [String: String] = [:]
        for field in request.headers { headers[field.name.canonicalName] = field.value }
        // The framework stores `Host` outside the header fields.
        if let authority = request.head.authority { headers["host"] = authority }
        return headers
    }

    private static func address(_ address: SocketAddress?) -> String {
        let digits = address?.ipAddress ?? "127.0.0.1"
        return digits.hasPrefix("::ffff:") ? String(digits.dropFirst(7)) : digits
    }
}
