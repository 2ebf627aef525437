package import Bytes
package import NIOCore
internal import NIOHTTP1
package import NIOWebSocket
internal import SyncWire

/// An event of a WebSocket.
package enum WebSocketEvent {
    /// The handshake was answered: the first event.
    case opened
    /// A whole text message, in valid UTF-8; borrowed.
    case text(ByteView)
    /// A whole binary message; borrowed.
    case binary(ByteView)
    /// The socket can be written again after `isWritable` was false.
    case writable
    /// The last event: the other side has closed, broken the protocol, or is gone.
    case closed
}

/// One WebSocket (RFC 6455), without extensions.
///
/// - Fragments are joined: an event has a whole message of at most `messageBytesMax`.
/// - Pings are answered, and so is a close.
/// - Belongs to the event loop of its connection: every call is made there.
package final class WebSocketConnection: ChannelInboundHandler,
    @unchecked Sendable  // tidy:allow belongs to its event loop
{
    package typealias InboundIn = WebSocketFrame
    package typealias Handler = (WebSocketConnection, WebSocketEvent) -> Void

    /// Far more than a message of changes or a frame of BLIP has.
    package static let messageBytesMax = 1 << 20

    private struct Flags {
        var isPaused = false
        var needsFlush = false
        /// A close frame was sent: nothing follows it.
        var hasSentClose = false
    }

    private let connection: GatewayConnection
    private var handler: Handler?
    private var context: ChannelHandlerContext?
    private var fragments: WebSocketFragments
    /// Frames that arrived while the handler was not to be called.
    private var waiting = CircularBuffer<WebSocketFrame>()
    private var flags = Flags()

    init(_ connection: GatewayConnection, _ handler: @escaping Handler) {
        self.connection = connection
        self.handler = handler
        fragments = WebSocketFragments(bytesMax: Self.messageBytesMax)
    }

    // MARK: For the handler

    /// Whether the socket accepts more; if not, what is sent is kept in memory until the event `writable`.
    package var isWritable: Bool { context?.channel.isWritable ?? false }

    /// Whether nothing more is sent or received.
    package var isClosed: Bool { handler == nil || flags.hasSentClose }

    /// Sends a message; it is dropped once the WebSocket is closed.
    package func send(text: ByteView) { send(.text, text) }

    package func send(binary: ByteView) { send(.binary, binary) }

    /// Begins the close handshake, and ends the connection if the client does not answer in time.
    ///
    /// - Parameters:
    ///   - code: Of RFC 6455, section 7.4.
    ///   - reason: At most 123 bytes; the rest is cut off.
    package func close(code: UInt16 = 1_000, reason: String = "") {
        connection.checkLoop()
        guard !isClosed else { return }
        let payload = ByteWriter()
        payload.append(bigEndian: code)
        payload.append(text: reason)
        payload.truncate(to: min(payload.count, WebSocketFragments.controlBytesMax))
        payload.withView { send(.connectionClose, $0) }
        flags.hasSentClose = true
        connection.awaitClose()
    }

    /// Stops events of messages, and the receiving of more than a socket's buffer.
    package func pause() {
        connection.checkLoop()
        flags.isPaused = true
    }

    package func resume() {
        connection.checkLoop()
        guard flags.isPaused else { return }
        flags.isPaused = false
        // The caller may be the handler of an earlier message.
        context?.eventLoop.assumeIsolated().execute { [self] in advance() }
    }

    // MARK: The socket

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) { finish() }

    /// The handshake was answered.
    func open() { handler?(self, .opened) }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        waiting.append(unwrapInboundIn(data))
    }

    package func channelReadComplete(context: ChannelHandlerContext) { advance() }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        connection.applyWritability(context.channel.isWritable)
        if context.channel.isWritable { handler?(self, .writable) }
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { context.close(promise: nil) }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? NIOWebSocketError else { return context.close(promise: nil) }
        fail(error == .invalidFrameLength ? 1_009 : 1_002)
    }

    package func channelInactive(context: ChannelHandlerContext) { finish() }

    private func finish() {
        context = nil
        waiting.removeAll()
        // The handler may have the last reference to this.
        exchange(&handler, with: nil)?(self, .closed)
    }

    /// Handles the frames that have arrived, and reads on.
    func advance() {
        while !flags.isPaused, handler != nil, let frame = waiting.popFirst() { handle(frame) }
        if waiting.isEmpty { context?.read() }
    }

    private func handle(_ frame: WebSocketFrame) {
        switch fragments.add(frame) {
        case .incomplete: break
        case .message(let isText, let bytes):
            guard !flags.hasSentClose else { return }
            bytes.withUnsafeReadableBytes { bytes in
                let view = ByteView(bytes)
                handler?(self, isText ? .text(view) : .binary(view))
            }
        case .ping(let bytes):
            // A client that does not read gets no answer.
            guard isWritable else { return }
            bytes.withUnsafeReadableBytes { send(.pong, ByteView($0)) }
        case .close(let code):
            let payload = ByteWriter()
            if let code { payload.append(bigEndian: code) }
            payload.withView { closeConnection($0) }
        case .broken(let code): fail(code)
        }
    }

    /// The client has broken the protocol.
    private func fail(_ code: UInt16) {
        let payload = ByteWriter()
        payload.append(bigEndian: code)
        payload.withView { closeConnection($0) }
    }

    /// Sends a close frame, unless one was sent, and closes the connection behind it.
    private func closeConnection(_ payload: ByteView) {
        send(.connectionClose, payload)
        flags.hasSentClose = true
        exchange(&handler, with: nil)?(self, .closed)
        connection.closeWebSocket()
    }

    private func send(_ opcode: WebSocketOpcode, _ payload: ByteView) {
        connection.checkLoop()
        guard !flags.hasSentClose, let context else { return }
        let bytes = connection.encoder.make { buffer in
            WebSocketFragments.write(opcode, payload, to: &buffer)
        }
        context.write(NIOAny(bytes), promise: nil)
        guard !flags.needsFlush else { return }
        // One system call for all messages of this turn.
        flags.needsFlush = true
        context.eventLoop.assumeIsolated().execute { [self] in
            flags.needsFlush = false
            self.context?.flush()
        }
    }
}

extension GatewayExchange {
    /// Answers 101 and speaks WebSocket from then on; refuses a request that does not ask for it.
    ///
    /// - Parameters:
    ///   - subprotocol: The one of the client's that the route has chosen; nil for none.
    ///   - handler: Called with each event: `opened` first, within this call, and `closed` last.
    package func upgradeToWebSocket(
        subprotocol: String? = nil,
        _ handler: @escaping WebSocketConnection.Handler
    ) {
        connection.checkLoop()
        if isClosed { return }
        guard request.isWebSocketUpgrade, body == nil else {
            headers["Upgrade"] = "websocket"
            return refuse(Refusal(426, "This path speaks WebSocket"))
        }
        guard var fields = handshake() else {
            headers["Sec-WebSocket-Version"] = "13"
            return refuse(
                Refusal(400, "The WebSocket handshake is not one of RFC 6455, version 13")
            )
        }
        if let subprotocol { fields["Sec-WebSocket-Protocol"] = subprotocol }
        // A browser checks no origin of a WebSocket, and Sync Gateway sends no other fields.
        status = 101
        progress = .upgraded
        connection.server.didAnswer?(self)
        connection.upgrade(AnswerHead(status: 101, headers: fields), handler)
    }

    /// The fields that prove that the server has understood the handshake; nil if it is none.
    private func handshake() -> AnswerHeaders? {
        guard let channel = connection.context?.channel else { return nil }
        let upgrader = NIOWebSocketServerUpgrader(
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() }
        )
        var fields: AnswerHeaders?
        // Nothing in it waits, so the closure is called before this returns.
        upgrader.buildUpgradeResponse(
            channel: channel,
            upgradeRequest: request.head,
            initialResponseHeaders: [:]
        ).assumeIsolated().whenSuccess { headers in
            var found = AnswerHeaders()
            for (name, value) in headers { found.add(name, value) }
            fields = found
        }
        return fields
    }
}
