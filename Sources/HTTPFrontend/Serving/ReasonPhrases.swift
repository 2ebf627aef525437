internal import NIOCore
internal import NIOHTTP1

/// Replaces reason phrases of responses.
///
/// Old clients compare the whole status line. The framework's statuses have no phrase: it sends the
/// standard's for every code it knows.
final class ReasonPhrases: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let phrases: [UInt: String]

    /// - Parameter phrases: The phrases by status code; other codes keep the standard's.
    init(_ phrases: [UInt: String]) {
        self.phrases = phrases
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .head(var head) = unwrapOutboundIn(data),
            let phrase = phrases[head.status.code]
        else { return context.write(data, promise: promise) }
        head.status = .custom(code: head.status.code, reasonPhrase: phrase)
        context.write(wrapOutboundOut(.head(head)), promise: promise)
    }
}
