internal import Bytes
internal import SyncService
internal import SyncWire

/// Feeds of changes, by GET, by POST and over a WebSocket.
extension Gateway {
    package var changesRoutes: [GatewayRoute] {
        [
            GatewayRoute([.get, .post], "/{db}/_changes") { [self] exchange in
                serve(exchange) { [heartbeatMillisecondsMax] call async throws(Refusal) in
                    try await call.answerChanges(heartbeatMillisecondsMax)
                }
            }
        ]
    }
}

extension RouteCall {
    /// - Throws: `Refusal` 400 for invalid parameters.
    fileprivate func answerChanges(_ heartbeatMillisecondsMax: Int) async throws(Refusal) {
        let isPost = request.method == "POST"
        let body = isPost ? try await self.body() : ByteWriter(capacity: 0)
        let parsed = try Refusal.parsing(body) { (text) throws(RequestRefusal) in
            try ChangesRequest(
                query: query,
                body: text,
                heartbeatMillisecondsMax: heartbeatMillisecondsMax
            )
        }
        if parsed.feed == .websocket {
            return ChangesSocket.open(
                self,
                parsed.filter,
                heartbeatMillisecondsMax: heartbeatMillisecondsMax
            )
        }
        let feed = try ChangesFeed(parsed, of: database, for: requester)
        await ChangesAnswer(self, feed, request: parsed).run()
    }
}
