import Bytes
import Glibc
import LinuxPlatform
import SyncFrontend
import SyncWire
import Syncing
import Testing

/// A server on loopback with the routes of one test.
final class Site: Sendable {
    let lane: EventLoopLane
    let server: GatewayServer
    let port: Int

    /// Serves the routes, which are made on the loop, on a free port of this kind.
    init(
        _ kind: PortKind = .publicPort,
        settings: GatewaySettings = GatewaySettings(),
        crossOrigin: CrossOriginPolicy? = nil,
        administration: @escaping @Sendable () -> AdministrationGuard = { AdministrationGuard() },
        routes: @escaping @Sendable () -> [GatewayRoute]
    ) throws {
        lane = EventLoopLane("test")
        server = try GatewayServer(lane, settings, time: LinuxClock()) {
            GatewayRouter(routes(), crossOrigin: crossOrigin, administration: administration())
        }
        port = try server.listen(GatewayListener(kind, host: "127.0.0.1", port: 0))
    }

    deinit {
        server.stop()
        lane.stop()
    }

    func client(receiveBytes: Int32? = nil) throws -> RawClient {
        try RawClient(port: port, receiveBytes: receiveBytes)
    }

    /// One answer to a request on a connection of its own.
    func answer(to request: String, isHead: Bool = false) throws -> RawClient.Answer {
        let client = try client()
        try client.send(request)
        return try client.answer(toHead: isHead)
    }

    var connectionCount: Int {
        get throws { try lane.run { [server] in server.connectionCount } }
    }
}

/// The text of a request with `Host`.
func request(_ line: String, _ fields: String..., body: String = "") -> String {
    let length = body.isEmpty ? "" : "Content-Length: \(body.utf8.count)\r\n"
    let lines = fields.map { "\($0)\r\n" }.joined()
    return "\(line) HTTP/1.1\r\nHost: 127.0.0.1\r\n\(lines)\(length)\r\n\(body)"
}

extension GatewayExchange {
    /// Answers 200 with a text.
    func answer(text: String) {
        let body = ByteWriter()
        body.append(text: text)
        answer(200, ["Content-Type": "text/plain"], body: body.view)
    }
}
