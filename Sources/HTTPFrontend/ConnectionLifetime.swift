internal import NIOCore
internal import NIOHTTP1

/// Closes a connection after its last answer, or when it takes too long over a request.
///
/// An idle timeout starts anew with every byte, so a client that sends one a second would keep a
/// connection for ever; these deadlines do not move.
///
/// - While an answer is under way there is no deadline: streams last as long as they like.
/// - A client that was refused before it sent all of a body does not get to send the rest.
/// - Which answer is the last, `ConnectionPersistence` decides. Where the route says so and not the
///   client, the answer may be an endless stream: if the client ends its side meanwhile, the
///   connection closes, or the stream would go on unread for as long as nothing changes.
final class ConnectionLifetime: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// From the connection's begin to the end of the first request's headers.
    private static let firstHead = TimeAmount.seconds(15)
    /// From one answer to the end of the next request's headers: how long it may stay unused.
    private static let nextHead = TimeAmount.seconds(75)
    /// From a request's headers to the end of its body: 64 MiB at 0.5 MiB a second.
    private static let body = TimeAmount.seconds(128)
    /// From the last answer, or one before the end of its request, to the end of the connection:
    /// time to read the answer, which closing at once could destroy on its way.
    private static let farewell = TimeAmount.seconds(2)

    private var persistence = ConnectionPersistence()
    private var deadline: Scheduled<Void>?
    private var isReading = false
    private var isLast = false
    private var isClosedByRoute = false

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
        case .head(var head):
            persistence.receive(&head)
            isReading = true
            set(Self.body, context)
            return context.fireChannelRead(wrapInboundOut(.head(head)))
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
        case .head(var head):
            if head.status.code < 200 { break }
            isClosedByRoute = !head.isKeepAlive
            isLast = persistence.beginAnswer(&head)
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            break
        case .end:
            persistence.endAnswer()
            if isLast {
                context.writeAndFlush(data, promise: promise)
                context.close(mode: .output, promise: nil)
                return set(Self.farewell, context)
            }
            if persistence.unansweredCount == 0 {
                set(isReading ? Self.farewell : Self.nextHead, context)
            }
        }
        context.write(data, promise: promise)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if isClosedByRoute, persistence.unansweredCount > 0,
            case ChannelEvent.inputClosed? = event as? ChannelEvent
        {
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
