internal import NIOCore
internal import NIOHTTP1

/// Bounds the heads of requests, refuses those whose fields are ambiguous, and gives the framework's refusal
/// of a request a body.
///
/// The framework answers each request that it cannot parse with 400, an empty body and the end of the
/// connection. The body that is added states the cause and the remedy. A request whose fields are refused
/// (`RequestHeadFields.flaw`) is reported to the framework as one that cannot be parsed: the refusal then follows
/// the responses to earlier requests.
final class HeadLimit: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Bytes of a request's target and header fields together.
    static let bytesMax = 32 << 10
    static let fieldsMax = 200

    /// The cause and the remedy, as sentences for users.
    static func reason(_ error: HTTPParserError) -> String {
        switch error {
        case .headerOverflow:
            "The request's target and header fields have more than \(bytesMax) bytes, or there are more"
                + " than \(fieldsMax) fields. Send long parameters in the body of a POST, for example"
                + " {\"keys\": [...]} to a view."
        case .invalidURL:
            "The request's target has a byte that it must not have, for example of a space or of a letter"
                + " outside of ASCII. Percent-encode it (%20 for a space), as curl does with -G and"
                + " --data-urlencode."
        default: "The request is not valid HTTP/1.1: \(error.debugDescription)."
        }
    }

    private let refusal: @Sendable (String) -> Reply
    /// Why the request that is answered next is refused.
    private var reason: String?
    /// Whether a head was refused for its fields: what follows it is not read.
    private var hasRefused = false
    /// Whether the refused request is one whose response has no body.
    private var isHead = false

    /// - Parameter refusal: The port's refusal for a reason; its body is bytes.
    init(_ refusal: @escaping @Sendable (String) -> Reply) {
        self.refusal = refusal
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasRefused else { return }
        if case .head(let head) = unwrapInboundIn(data), let flaw = Self.flaw(head) {
            hasRefused = true
            isHead = head.method == .HEAD
            reason = flaw
            return context.fireErrorCaught(HTTPParserError.invalidHeaderToken)
        }
        context.fireChannelRead(data)
    }

    private static func flaw(_ head: HTTPRequestHead) -> String? {
        let requiresHost = head.version != .http1_0 && head.version != .http0_9
        return RequestHeadFields.flaw(of: head.headers.lazy.map(\.name), requiresHost: requiresHost)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard !hasRefused else { return }
        if let error = error as? HTTPParserError { reason = Self.reason(error) }
        context.fireErrorCaught(error)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // A response to an earlier request may precede the refusal.
        guard let reason, case .head(var head) = unwrapOutboundIn(data), Self.isRefusal(head)
        else { return context.write(data, promise: promise) }
        self.reason = nil
        let refusal = refusal(reason)
        guard case .bytes(let bytes) = refusal.body else {
            return context.write(data, promise: promise)
        }
        head.headers.replaceOrAdd(name: "Content-Length", value: "\(bytes.count)")
        if let type = refusal.contentType { head.headers.add(name: "Content-Type", value: type) }
        context.write(wrapOutboundOut(.head(head)), promise: promise)
        guard !isHead else { return }
        let body = HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: bytes)))
        context.write(wrapOutboundOut(body), promise: nil)
    }

    /// Whether a response is the framework's, which has only these two fields: each of the routes' has more.
    private static func isRefusal(_ head: HTTPResponseHead) -> Bool {
        head.status == .badRequest && head.headers.count == 2
            && head.headers.first(name: "Content-Length") == "0"
            && head.headers.contains(name: "Connection")
    }
}
