internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket
internal import SyncWire

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
