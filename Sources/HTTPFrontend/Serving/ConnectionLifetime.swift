internal import NIOCore
internal import NIOHTTP1
internal import Seams

/// Closes a connection after its last response, or when a request takes too long to arrive.
///
/// A client that sends a byte a second could keep a connection open forever under an idle timeout,
/// which restarts with every byte. So these deadlines are fixed.
///
/// - While a response is sent there is no deadline: streams may last indefinitely. With a
///   `stallTimeout`, a client that stops reading is an exception: between two moments at which the
///   channel's buffer is full, the client must have read half of it.
/// - A response that is queued may be in the channel's buffer for long, because the client reads
///   slowly. Its connection stays open while the client reads: something of the buffer must be sent
///   in every `nextHeadTimeout`, or `stallTimeout`. The deadline for what follows the response begins
///   when its end is written.
/// - If a request is refused before all of its body arrived, the rest is not read.
/// - A client without a login is read in small pieces, and its body only after its request was admitted
///   (`ConnectionLogin`).
/// - `ConnectionPersistence` decides which response is the last. If the route requested the close,
///   the response may be an endless stream. The connection then closes as soon as the client shuts
///   down its side, because nothing else would end the stream before its next change.
/// - A client that closes its connection and one that only shuts down its side send the same. While a
///   request that ends with its connection (`ConnectionWatch`) waits for its response, an interim
///   response distinguishes them: the kernel of a client that closed answers it with a reset, and a
///   client that shut down its side ignores it (RFC 9110, 15.2).
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

    /// The pause before each interim response to a client that shut down its side: most responses are
    /// ready before.
    private static let probePause = TimeAmount.seconds(1)

    private let stallTimeout: TimeAmount?
    private let watch: ConnectionWatch
    private var persistence = ConnectionPersistence()
    private var deadline = MovingDeadline()
    private var timer: Scheduled<Void>?
    /// The bytes in the channel's buffer at the start of a deadline that ends only if none of them is sent.
    private var drainedBytes: Int?
    /// Closes the connection if its buffer stays full; nil while the channel is writable.
    private var stall: Scheduled<Void>?
    /// Finds out whether the client closed its connection; nil unless it shut down its side.
    private var probe: Scheduled<Void>?
    /// The ends of responses that are queued and whose write is awaited.
    private var unwrittenEndCount = 0
    private var input: StrangerInput
    private var isLast = false
    private var isClosedByRoute = false

    init(_ settings: PortChannel.Settings, _ watch: ConnectionWatch) {
        stallTimeout = settings.stallTimeout.map { TimeAmount($0) }
        self.watch = watch
        input = StrangerInput(isStranger: watch.login != nil)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        setDeadline(Self.firstHeadTimeout, context)
        guard let login = watch.login else { return }
        setReceiveBytes(LoginWatch.inputBytesMax, context)
        let loop = context.eventLoop
        let bound = NIOLoopBound((handler: self, context: context), eventLoop: loop)
        login.observeAdmission { loop.execute { bound.value.handler.release(bound.value.context) } }
    }

    /// Bounds what one read of the socket receives: of a client without a login, little.
    private func setReceiveBytes(_ bytes: Int?, _ context: ChannelHandlerContext) {
        let allocator: any RecvByteBufferAllocator =
            bytes.map { FixedSizeRecvByteBufferAllocator(capacity: $0) }
            ?? AdaptiveRecvByteBufferAllocator()
        try? context.channel.syncOptions?.setOption(.recvAllocator, value: allocator)
    }

    /// Reads on after a request was admitted or answered.
    private func release(_ context: ChannelHandlerContext) {
        endBound(context)
        if input.release(), context.channel.isActive { context.read() }
    }

    func read(context: ChannelHandlerContext) {
        if input.mayRead() { context.read() }
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
            endBound(context)
            input.beginRequest()
            setDeadline(Self.bodyTimeout, context)
            return context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body:
            break
        case .end:
            input.endRequest()
            if persistence.unansweredCount > 0 {
                deadline.clear()
            } else if !isLast, unwrittenEndCount == 0 {
                // The response ended before the request.
                setIdleDeadline(context)
            }
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            if head.status.code < 200 { break }
            release(context)
            if watch.login?.isRefused ?? false {
                head.headers.replaceOrAdd(name: "Connection", value: "close")
            }
            isClosedByRoute = !head.isKeepAlive
            isLast = persistence.beginResponse(&head)
            return context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body:
            break
        case .end:
            persistence.endResponse()
            let isIdle = persistence.unansweredCount == 0
            // A writable channel has little in its buffer: no promise for a short response.
            if isLast || (isIdle && !context.channel.isWritable) {
                return writeEnd(data, promise, in: context)
            }
            if isIdle { setIdleDeadline(context) }
        }
        context.write(data, promise: promise)
    }

    /// Ends the bound of the input once the client has logged in.
    private func endBound(_ context: ChannelHandlerContext) {
        guard input.receivesLittle, watch.login?.isStranger == false, input.recordLogin() else {
            return
        }
        setReceiveBytes(nil, context)
    }

    /// Writes the end of a response after which the connection is idle, or closes.
    ///
    /// The end of the last response closes the sending side behind it.
    private func writeEnd(
        _ data: NIOAny,
        _ promise: EventLoopPromise<Void>?,
        in context: ChannelHandlerContext
    ) {
        let written = promise ?? context.eventLoop.makePromise()
        unwrittenEndCount += 1
        if isLast {
            context.writeAndFlush(data, promise: written)
            context.close(mode: .output, promise: nil)
        } else {
            context.write(data, promise: written)
        }
        setDrainDeadline(context)
        written.futureResult.assumeIsolated().whenSuccess {
            self.unwrittenEndCount -= 1
            let isIdle = self.persistence.unansweredCount == 0 && self.unwrittenEndCount == 0
            guard self.isLast || isIdle, context.channel.isActive else { return }
            self.setIdleDeadline(context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent, persistence.unansweredCount > 0
        {
            if isClosedByRoute { return context.close(promise: nil) }
            probeLater(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Sends an interim response after a pause, and again until the last response begins.
    private func probeLater(_ context: ChannelHandlerContext) {
        probe = context.eventLoop.assumeIsolated().scheduleTask(in: Self.probePause) {
            guard self.persistence.unansweredCount > 0 else { return }
            if self.watch.isWatched, self.persistence.allowsInterimResponse {
                let head = HTTPResponseHead(version: .http1_1, status: .continue)
                context.writeAndFlush(self.wrapOutboundOut(.head(head)), promise: nil)
            }
            self.probeLater(context)
        }
    }

    private func cancelTimers() {
        deadline.clear()
        timer?.cancel()
        timer = nil
        stall?.cancel()
        stall = nil
        probe?.cancel()
        probe = nil
    }

    /// Closes the connection if the client sends nothing: no next request, not the rest of its
    /// request, or no close after the last response.
    private func setIdleDeadline(_ context: ChannelHandlerContext) {
        setDeadline(isLast || input.isReading ? Self.closeTimeout : Self.nextHeadTimeout, context)
    }

    /// Closes the connection if nothing of what is queued is sent in this time; else begins again.
    private func setDrainDeadline(_ context: ChannelHandlerContext) {
        setDeadline(stallTimeout ?? Self.nextHeadTimeout, context)
        drainedBytes = Self.bufferedBytes(context)
    }

    /// The bytes in the channel's buffer, which the kernel has not accepted yet.
    private static func bufferedBytes(_ context: ChannelHandlerContext) -> Int {
        let bytes = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
        return bytes ?? 0
    }

    private func setDeadline(_ amount: TimeAmount, _ context: ChannelHandlerContext) {
        drainedBytes = nil
        let time = NIODeadline.now() + amount
        if deadline.set(time.uptimeNanoseconds) { setTimer(time, context) }
    }

    private func setTimer(_ time: NIODeadline, _ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: time) {
            self.timer = nil
            switch self.deadline.fire() {
            case .nothing: break
            case .setTimer(let time): self.setTimer(.uptimeNanoseconds(time), context)
            case .expired: self.expire(context)
            }
        }
    }

    private func expire(_ context: ChannelHandlerContext) {
        guard let drainedBytes, Self.bufferedBytes(context) < drainedBytes else {
            return context.close(promise: nil)
        }
        setDrainDeadline(context)
    }
}

/// A deadline that is set for every request, and one timer that follows it.
///
/// To schedule and to cancel a timer costs an allocation and a search of the event loop's queue, twice for each
/// request. So a deadline that becomes later, or has no effect any more, leaves the timer alone: when it fires, it
/// is set again for the time that remains. Times are nanoseconds of one clock.
package struct MovingDeadline: Sendable {
    /// The action when the timer fires.
    package enum Firing: Equatable, Sendable {
        /// There is no deadline now, and no timer.
        case nothing
        /// The deadline has moved: set the timer for this time.
        case setTimer(UInt64)
        /// The deadline has passed, and is none any more.
        case expired
    }

    private var deadline: UInt64?
    /// When the timer fires; nil if none is set.
    private var timer: UInt64?

    /// No deadline and no timer.
    package init() {}

    /// Replaces the deadline.
    ///
    /// - Returns: Whether the caller must set the timer for this time, instead of one that it has set.
    package mutating func set(_ time: UInt64) -> Bool {
        deadline = time
        if let timer, timer <= time { return false }
        timer = time
        return true
    }

    /// Removes the deadline; the timer stays.
    package mutating func clear() { deadline = nil }

    /// The timer has fired at the time for which it was set.
    package mutating func fire() -> Firing {
        let fired = timer
        timer = nil
        guard let deadline, let fired else { return .nothing }
        guard deadline > fired else {
            self.deadline = nil
            return .expired
        }
        timer = deadline
        return .setTimer(deadline)
    }
}

/// How much of a connection's input is received before its client has logged in.
///
/// The socket is read in small pieces until the login. The body of a request is not read before the
/// request is admitted or answered: the login is in its head.
package struct StrangerInput {
    /// Whether a request has begun whose end has not arrived.
    package private(set) var isReading = false
    /// Whether the socket is read in small pieces.
    package private(set) var receivesLittle: Bool
    private var isHeld = false
    /// Whether the channel was asked to read while the body was held.
    private var isReadOwed = false

    /// - Parameter isStranger: Whether the client has to log in.
    package init(isStranger: Bool) {
        receivesLittle = isStranger
    }

    /// The head of a request has arrived.
    package mutating func beginRequest() {
        isReading = true
        isHeld = receivesLittle
    }

    /// The end of a request has arrived.
    package mutating func endRequest() { isReading = false }

    /// Whether the socket may be read; if not, `release` returns that it was to be read.
    package mutating func mayRead() -> Bool {
        guard isHeld, isReading else { return true }
        isReadOwed = true
        return false
    }

    /// The request was admitted, or its response begins.
    ///
    /// - Returns: Whether the socket has to be read now.
    package mutating func release() -> Bool {
        defer { isReadOwed = false }
        isHeld = false
        return isReadOwed
    }

    /// The client has logged in.
    ///
    /// - Returns: Whether the socket was read in small pieces until now.
    package mutating func recordLogin() -> Bool {
        defer { receivesLittle = false }
        return receivesLittle
    }
}
