internal import NIOCore

/// Stops accepting while a server has as many connections as it may have.
///
/// A system call accepts several connections, so a few more may be open.
final class ListenerGate: ChannelOutboundHandler {
    typealias OutboundIn = Never

    private let server: GatewayServer
    private var context: ChannelHandlerContext?
    private var isHeld = false

    init(_ server: GatewayServer) {
        self.server = server
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func read(context: ChannelHandlerContext) {
        isHeld = server.isFull
        if !isHeld { context.read() }
    }

    /// A connection was closed.
    func release() {
        guard isHeld, let context, !server.isFull else { return }
        isHeld = false
        context.read()
    }
}
