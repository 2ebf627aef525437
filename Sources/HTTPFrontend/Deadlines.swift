internal import HTTPTypes
internal import NIOCore
internal import NIOHTTPTypes

/// Closes a connection that takes too long over a request, however lively it drips.
///
/// An idle timeout starts anew with every byte, so a client that sends one a second would keep a
/// connection for ever; these deadlines do not move.
///
/// - While an answer is under way there is no deadline: streams last as long as they like.
/// - Whoever was refused before sending all of a body does not get to send the rest.
/// - An answer that says `Connection: close` is the last. A client that ends its side meanwhile is
///   gone: streams are such answers, and would talk to nobody for as long as nothing changes.
final class Deadlines: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// From the connection's begin to the end of the first request's headers.
    private static let firstHead = TimeAmount.seconds(15)
    /// From one answer to the end of the next request's headers: how long it may stay unused.
    private static let nextHead = TimeAmount.seconds(75)
    /// From a request's headers to the end of its body: 64 MiB at 0.5 MiB a second.
    private static let body = TimeAmount.seconds(128)
    /// From an answer that came before the end of its request: time to read it, no more.
    ///
    /// Closing at once could destroy the answer on its way.
    private static let farewell = TimeAmount.seconds(2)

    private var deadline: Scheduled<Void>?
    private var unanswered = 0
    private var isReading = false
    private var isLast = false

    func handlerAdded(context: ChannelHandlerContext) {
        set(Self.firstHead, context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        deadline?.cancel()
        deadline = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        deadline?.cancel()
        deadline = nil
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head:
            unanswered += 1
            isReading = true
            set(Self.body, context)
        case .body:
            break
        case .end:
            isReading = false
            deadline?.cancel()
            deadline = nil
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head):
            if head.status.kind == .informational { break }
            isLast = head.headerFields[.connection] == "close"
        case .body:
            break
        case .end:
            unanswered -= 1
            if isLast {
                context.writeAndFlush(data, promise: promise)
                context.close(mode: .output, promise: nil)
                return set(Self.farewell, context)
            }
            if unanswered == 0 { set(isReading ? Self.farewell : Self.nextHead, context) }
        }
        context.write(data, promise: promise)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if isLast, unanswered > 0, case ChannelEvent.inputClosed? = event as? ChannelEvent {
            return context.close(promise: nil)
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func set(_ amount: TimeAmount, _ context: ChannelHandlerContext) {
        deadline?.cancel()
        deadline = context.eventLoop.assumeIsolated().scheduleTask(in: amount) {
            context.close(promise: nil)
        }
    }
}
