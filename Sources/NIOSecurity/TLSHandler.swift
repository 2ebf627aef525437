internal import Bytes
package import NIOCore
package import Seams
package import Vocabulary

/// Secures one connection of SwiftNIO: the handlers behind it see its content.
///
/// - Belongs to the event loop of the connection.
package final class TLSHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// The owner of the connection, as far as it wants to know.
    package struct Observer: Sendable {
        /// The client has proved a certificate.
        package var authenticated: @Sendable (ClientCertificate) -> Void = { _ in }
        /// The connection ends because the client broke TLS.
        package var refused: @Sendable (String) -> Void = { _ in }

        package init() {}
    }

    private let channel: any ClientChannel
    private let observer: Observer
    private let content = ByteWriter(capacity: 16)
    private let output = ByteWriter(capacity: 16)
    /// Received bytes that OpenSSL has not taken yet.
    private var rest = ByteBuffer()
    private var hasEnded = false
    private var hasInputEnded = false

    /// Memory that is kept between two calls.
    private static let keptBytesMax = 16 << 10

    package init(_ channel: any ClientChannel, _ observer: Observer = Observer()) {
        self.channel = channel
        self.observer = observer
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var input = unwrapInboundIn(data)
        if rest.readableBytes > 0 {
            rest.writeBuffer(&input)
            input = rest
            rest.clear()
        }
        var isOver = false
        while !isOver {
            let wasOpen = channel.isOpen
            let progress = input.withUnsafeReadableBytes { bytes in
                channel.receive(ByteView(bytes), content: content, output: output)
            }
            if !wasOpen, let certificate = channel.clientCertificate {
                observer.authenticated(certificate)
            }
            input.moveReaderIndex(forwardBy: progress.consumed)
            sendOutput(context, promise: nil)
            context.flush()
            passContent(context)
            switch progress.next {
            case .more: break
            case .receive: isOver = true
            case .close(let reason):
                isOver = true
                input.clear()
                if let reason {
                    observer.refused(reason)
                    context.close(promise: nil)
                } else {
                    endInput(context)
                }
            }
        }
        rest = input
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case ChannelEvent.inputClosed? = event as? ChannelEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        endInput(context)
    }

    /// The client has shut down its side, of TLS or of the connection.
    private func endInput(_ context: ChannelHandlerContext) {
        guard !hasInputEnded else { return }
        hasInputEnded = true
        context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
    }

    package func write(
        context: ChannelHandlerContext,
        data: NIOAny,
        promise: EventLoopPromise<Void>?
    ) {
        guard channel.isOpen, !hasEnded else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        let isSealed = unwrapOutboundIn(data).withUnsafeReadableBytes { bytes in
            channel.send(ByteView(bytes), output: output)
        }
        sendOutput(context, promise: promise)
        if !isSealed { context.close(promise: nil) }
    }

    package func close(
        context: ChannelHandlerContext,
        mode: CloseMode,
        promise: EventLoopPromise<Void>?
    ) {
        if mode != .input, !hasEnded {
            hasEnded = true
            channel.sendEnd(output: output)
            sendOutput(context, promise: nil)
            context.flush()
        }
        context.close(mode: mode, promise: promise)
    }

    private func passContent(_ context: ChannelHandlerContext) {
        guard !content.view.isEmpty else { return }
        let bytes = ByteBuffer(bytes: content.view.buffer)
        content.removeAll(keepingAtMost: Self.keptBytesMax)
        context.fireChannelRead(wrapInboundOut(bytes))
    }

    private func sendOutput(_ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        guard promise != nil || !output.view.isEmpty else { return }
        let bytes = ByteBuffer(bytes: output.view.buffer)
        output.removeAll(keepingAtMost: Self.keptBytesMax)
        context.write(wrapOutboundOut(bytes), promise: promise)
    }
}
