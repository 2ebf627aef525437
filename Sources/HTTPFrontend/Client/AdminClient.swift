package import ClusterService
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// Sends requests to another node's admin port.
///
/// Divan is an HTTP client only for adding nodes: of a node to add, only the address of its admin
/// port is known. One request a connection, bounded in time and in size.
package struct AdminClient: NodeProbe {
    private static let bodyBytesMax = 1 << 20
    private static let idleTimeout = TimeAmount.seconds(10)

    package init() {}

    /// Sends a request; failures are returned as `unreachable` with the reason.
    package func ask(_ request: ProbeRequest) async -> ProbeAnswer {
        do {
            let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                .connectTimeout(.seconds(5))
                .connect(host: request.host, port: Int(request.port)) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHTTPClientHandlers()
                        try channel.pipeline.syncOperations.addHandler(
                            IdleStateHandler(allTimeout: Self.idleTimeout)
                        )
                        try channel.pipeline.syncOperations.addHandler(IdleCloser())
                        return try NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>(
                            wrappingChannelSynchronously: channel
                        )
                    }
                }
            let local = channel.channel.localAddress?.ipAddress ?? ""
            return try await channel.executeThenClose { inbound, outbound in
                try await Self.send(request, to: outbound)
                return try await Self.answer(from: inbound, local)
            }
        } catch {
            return .unreachable(Self.reason(error))
        }
    }

    private static func send(
        _ request: ProbeRequest,
        to outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>
    ) async throws {
        let host = request.host.contains(":") ? "[\(request.host)]" : request.host
        let headers = HTTPHeaders([
            ("Host", "\(host):\(request.port)"), ("Connection", "close"), ("Accept", "*/*"),
        ])
        let head = HTTPRequestHead(
            version: .http1_1,
            method: .GET,
            uri: request.path,
            headers: headers
        )
        try await outbound.write(contentsOf: [.head(head), .end(nil)])
    }

    private static func answer(
        from inbound: NIOAsyncChannelInboundStream<HTTPClientResponsePart>,
        _ localHost: String
    ) async throws -> ProbeAnswer {
        var status = 0
        var bytes: [UInt8] = []
        for try await part in inbound {
            switch part {
            case .head(let head): status = Int(head.status.code)
            case .body(let buffer):
                bytes += buffer.readableBytesView
                guard bytes.count <= bodyBytesMax else {
                    return .unreachable("the response is larger than any of Divan's")
                }
            case .end: return .answered(status: status, body: bytes, localHost: localHost)
            }
        }
        return .unreachable("the connection was closed before the response was complete")
    }

    private static func reason(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            if let first = error.connectionErrors.first { return reason(first.error) }
            return error.dnsAError != nil || error.dnsAAAAError != nil
                ? "the name \(error.host) cannot be resolved" : "the connection failed"
        case let error as IOError: return Self.sentence(ofErrno: error.errnoCode)
        case ChannelError.connectTimeout: return "the connection timed out after five seconds"
        case is HTTPParserError: return "the response is not HTTP"
        case is ChannelError: return "the connection was lost"
        default: return "the connection was lost"
        }
    }

    /// Without the name of the system call that failed, which means nothing to an operator.
    private static func sentence(ofErrno code: CInt) -> String {
        switch code {
        case ECONNREFUSED: "the connection was refused: no process listens there"
        case EHOSTUNREACH, ENETUNREACH: "there is no route to the address"
        case ETIMEDOUT: "the connection timed out"
        case ECONNRESET, EPIPE: "the connection was reset"
        case EACCES, EPERM: "this machine does not permit the connection"
        default: "the connection failed (error \(code))"
        }
    }
}

/// Closes an idle connection.
private final class IdleCloser: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is IdleStateHandler.IdleStateEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        context.close(promise: nil)
    }
}
