internal import NIOCore
internal import NIOHTTP1

/// Closes a connection after its last response, or when a request takes too long to arrive.
///
/// A client that sends a byte a second could keep a connection open forever under an idle timeout,
/// which restarts with every byte. So these deadlines are fixed.
///
/// - While a response is sent there is no deadline: streams may last indefinitely. With a
///   `stallTimeout`, a client that stops reading is an exception: between two moments at which the
///   channel's buffer is full, the client must have read half of it.
/// - If a request is refused before all of its body arrived, the rest is not read.
/// - `ConnectionPersistence` decides which response is the last. If the route requested the close,
///   the response may be an endless stream. The connection then closes as soon as the client shuts
///   down its side, because nothing else would end the stream before its next change.
final class ConnectionLifetime: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// From the start of the connection to the end of the first request's headers.
    private static let firstHeadTimeout = TimeAmount.seconds(15)
    /// From a response to the end of the next request's headers: how long the connection may be
    /// idle.
    private static let nextHeadTimeout = TimeAmount.seconds(75)
    /// From a request's headers to the end of its body: 64 MiB at 0.5 MiB a second.
    private static let bodyTimeout = TimeAmount.seconds(128)
    /// From the last response, or a response before the end of its request, to the close: closing
    /// at once could make the kernel discard a response that the client has not read yet.
    private static let closeTimeout = TimeAmount.seconds(2)

    private let stallTimeout: TimeAmount?
    private var persistence = ConnectionPersistence()
    private var deadline: Scheduled<Void>?
    /// Closes the connection if its buffer stays full; nil while the channel is writable.
    private var stall: Scheduled<Void>?
    private var isReading = false
    private var isLast = false
    private var isClosedByRoute = false

    /// - Parameter stallTimeout: How long a client may leave a full buffer unread; nil for any time.
    init(stallTimeout: TimeAmount? = nil) {
        self.stallTimeout = stallTimeout
    }

    func handlerAdded(context: ChannelHandlerContext) {
        setDeadline(Self.firstHeadTimeout, context)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        cancelTimers()
    }

    func channelInactive(context: ChannelHandlerContext) {
        cancelTimers()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stall?.cancel()
        stall = nil
        if let stallTimeout, !context.channel.isWritable {
            stall = context.eventLoop.assumeIsolated().scheduleTask(in: stallTimeout) {
                context.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            persistence.receive(&head)
            isReading = true
            setDeadline(Self.bodyTimeout, context)
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
            isLast = persistence.beginResponse(&head)
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            break
        case .end:
            persistence.endResponse()
            if isLast { return writeLastEnd(data, promise, context) }
            if persistence.unansweredCount == 0 {
                setDeadline(isReading ? Self.closeTimeout : Self.nextHeadTimeout, context)
            }
        }
        context.write(data, promise: promise)
    }

    /// Writes the end of the last response and closes the sending side behind it.
    ///
    /// With a `stallTimeout` the client has that time to read what is still queued.
    private func writeLastEnd(
        _ data: NIOAny,
        _ promise: EventLoopPromise<Void>?,
        _ context: ChannelHandlerContext
    ) {
        let written = promise ?? context.eventLoop.makePromise()
        context.writeAndFlush(data, promise: written)
        context.close(mode: .output, promise: nil)
        setDeadline(stallTimeout ?? Self.closeTimeout, context)
        guard stallTimeout != nil else { return }
        written.futureResult.assumeIsolated().whenSuccess {
            if context.channel.isActive { self.setDeadline(Self.closeTimeout, context) }
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if isClosedByRoute, persistence.unansweredCount > 0,
            case ChannelEvent.inputClosed? = event as? ChannelEvent
        {
            return context.close(promise: nil)
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func cancelTimers() {
        deadline?.cancel()
        deadline = nil
        stall?.cancel()
        stall = nil
    }

    private func setDeadline(_ amount: TimeAmount, _ context: ChannelHandlerContext) {
        deadline?.cancel()
        deadline = context.eventLoop.assumeIsolated().scheduleTask(in: amount) {
            context.close(promise: nil)
        }
    }
}
