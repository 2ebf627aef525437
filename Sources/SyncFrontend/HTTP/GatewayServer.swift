internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSecurity
internal import OpenSSLPlatform
package import Seams

/// The gateway's ports, all on one event loop.
///
/// `init`, `listen` and `stop` are called by another thread and wait; everything else belongs to the loop.
package final class GatewayServer: @unchecked Sendable {  // tidy:allow belongs to its event loop
    package let lane: EventLoopLane
    let settings: GatewaySettings
    let encoder: AnswerEncoder
    let bodies: BodyBudget
    let router: GatewayRouter
    let connections = ConnectionTable()
    /// Called when an exchange has ended: its answer is written, or its client is gone.
    package var didAnswer: ((GatewayExchange) -> Void)?
    /// All requests so far.
    package private(set) var requestCount: UInt64 = 0
    private let time: any TimeSource

    // A device whose network is gone sends no end. The kernel asks it after 2 minutes, and gives up 9 questions later.
    private static let keepaliveIdle = ChannelOptions.Types.SocketOption(
        level: .tcp,
        name: NIOBSDSocket.Option(rawValue: TCP_KEEPIDLE)
    )
    private static let keepaliveInterval = ChannelOptions.Types.SocketOption(
        level: .tcp,
        name: NIOBSDSocket.Option(rawValue: TCP_KEEPINTVL)
    )

    private var listeners: [(channel: any Channel, gate: ListenerGate)] = []

    /// - Parameters:
    ///   - lane: The loop of the server.
    ///   - settings: Bounds of connections and requests.
    ///   - time: For the date of answers.
    ///   - makeRouter: Called on the loop: it makes what the routes need.
    /// - Throws: The error of `makeRouter`.
    package init(
        _ lane: EventLoopLane,
        _ settings: GatewaySettings = GatewaySettings(),
        time: any TimeSource,
        makeRouter: @escaping @Sendable () throws -> GatewayRouter
    ) throws {
        self.lane = lane
        self.settings = settings
        self.time = time
        encoder = AnswerEncoder(serverName: settings.serverName)
        bodies = BodyBudget(bytesMax: settings.bodyBytesMax)
        router = try lane.run(makeRouter)
    }

    /// Claims an address and serves it.
    ///
    /// - Throws: `GatewayServerError`, if the address cannot be used.
    /// - Returns: The port, which differs from the listener's if that is 0.
    @discardableResult
    package func listen(_ listener: GatewayListener) throws(GatewayServerError) -> Int {
        let bootstrap = ServerBootstrap(group: lane.loop)
            .serverChannelOption(.backlog, value: 1_024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try self.addGate(to: channel) }
            }
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(Self.keepaliveIdle, value: 120)
            .childChannelOption(Self.keepaliveInterval, value: 30)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let security = listener.security?.server {
                        let handler = TLSHandler(security.makeChannel())
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try self.serve(channel, listener.kind)
                }
            }
        do {
            let channel = try bootstrap.bind(host: listener.host, port: listener.port).wait()
            return channel.localAddress?.port ?? listener.port
        } catch {
            throw GatewayServerError(listener, error)
        }
    }

    /// Closes all ports and connections.
    package func stop() {
        try? lane.run { [self] in
            for listener in listeners { listener.channel.close(promise: nil) }
            listeners = []
            for connection in connections.connections { connection.close() }
        }
    }

    /// Open connections of all ports.
    package var connectionCount: Int { connections.connections.count }

    var isFull: Bool { connectionCount >= settings.connectionsMax }

    func countRequest() -> UInt64 {
        requestCount += 1
        return requestCount
    }

    private func addGate(to channel: any Channel) throws {
        let gate = ListenerGate(self)
        try channel.pipeline.syncOperations.addHandler(gate)
        listeners.append((channel, gate))
    }

    private func serve(_ channel: any Channel, _ kind: PortKind) throws {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = settings.headBytesMax
        limits.maxHeaderListSize = settings.headBytesMax
        let decoder = HTTPRequestDecoder(
            leftOverBytesStrategy: .forwardBytes,
            limitConfiguration: limits
        )
        let connection = GatewayConnection(self, kind, from: Self.address(of: channel))
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        try pipeline.addHandler(connection)
        connections.add(connection)
        if !connections.isTicking { tick() }
        channel.closeFuture.assumeIsolated().whenComplete { [self] _ in
            connections.remove(connection)
            for listener in listeners { listener.gate.release() }
        }
    }

    /// The client's address; that of IPv4 also if the port serves both protocols.
    private static func address(of channel: any Channel) -> String {
        let address = channel.remoteAddress?.ipAddress ?? ""
        let mark = "::ffff:"
        let isMapped = address.hasPrefix(mark) && address.contains(".")
        return isMapped ? String(address.dropFirst(mark.utf8.count)) : address
    }

    /// Counts seconds while there are connections.
    private func tick() {
        connections.isTicking = connectionCount > 0
        guard connections.isTicking else { return }
        encoder.setDate(unixSeconds: Int(time.wallNanoseconds() / 1_000_000_000))
        lane.post(after: 1_000_000_000) { [self] in
            connections.advance()
            tick()
        }
    }
}

/// An address that cannot be served.
package struct GatewayServerError: Error, Sendable, CustomStringConvertible {
    /// A sentence for an operator: the cause and the remedy.
    package let description: String

    init(description: String) { self.description = description }

    init(_ listener: GatewayListener, _ error: any Error) {
        let place = listener.place
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE: description = "\(place) is in use by another process; set another port"
        case EADDRNOTAVAIL:
            description = "This machine does not have the address \(listener.host)"
        case EACCES: description = "This user may not use \(place); choose a port above 1023"
        default: description = "\(place) cannot be served: \(error)"
        }
    }
}

/// The bounds of connections and requests.
package struct GatewaySettings: Sendable {
    /// The value of `Server`.
    package var serverName = "Couchbase Sync Gateway/1.4.1 Divan"
    /// Compress answers for clients that accept it (the configuration's `compressResponses`).
    package var compressesAnswers = true
    /// Open connections of all ports together; further clients wait to be accepted.
    package var connectionsMax = 8_192
    /// Bytes of a request's target and header fields together.
    package var headBytesMax = 64 << 10
    /// Bytes of all request bodies that are collected at one time, beyond 64 KiB each.
    package var bodyBytesMax = 256 << 20
    /// Seconds of each kind of waiting.
    package var timeouts = GatewayTimeouts()

    package init() {}
}

/// How many seconds a connection may wait for its client; each is exact to a second.
package struct GatewayTimeouts: Sendable {
    /// From the first byte of a request, or the start of the connection, to the end of its head.
    package var head = 10
    /// From an answer to the next request.
    package var idle = 120
    /// Between two parts of a body that is read.
    package var body = 60
    /// Without a byte that the client reads, while more waits to be sent.
    package var send = 60
    /// From the last answer to the client's close: a connection that is closed before that may lose the answer.
    package var linger = 2

    package init() {}
}

/// An address to listen on.
package struct GatewayListener: Sendable {
    package let kind: PortKind
    /// An address in digits, or a name.
    package let host: String
    /// 0 claims any free port.
    package let port: Int
    /// Nil for clear text.
    package let security: TLSCertificate?

    package init(_ kind: PortKind, host: String, port: Int, security: TLSCertificate? = nil) {
        self.kind = kind
        self.host = host
        self.port = port
        self.security = security
    }

    /// For messages: `127.0.0.1:4984`, `[::1]:4984`.
    var place: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Stops accepting while a server has as many connections as it may have.
///
/// A system call accepts several connections, so a few more may be open.
final class ListenerGate: ChannelOutboundHandler {
    typealias OutboundIn = Never

    private let server: GatewayServer
    private var context: ChannelHandlerContext?
    private var isHeld = false

    init(_ server: GatewayServer) { self.server = server }

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

/// The certificate and the key of a TLS server.
///
/// They are read when this value is made: a confined gateway opens no files when it makes its ports.
package struct TLSCertificate: Sendable {
    let server: TLSServer

    /// - Parameters:
    ///   - certificate: The name of the PEM file with the certificate and its chain.
    ///   - key: That of its key, without a password.
    /// - Throws: `GatewayServerError` if a file cannot be used.
    package init(certificate: String, key: String) throws(GatewayServerError) {
        do throws(TLSError) {
            server = try TLSServer(certificateFile: certificate, keyFile: key)
        } catch {
            throw GatewayServerError(description: "TLS cannot be served: \(error)")
        }
    }
}
