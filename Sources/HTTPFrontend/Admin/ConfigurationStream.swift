internal import ClusterService
internal import Orchestration

extension Reply {
    /// A reply that sends JSON whenever it changes.
    ///
    /// - Parameters:
    ///   - call: The request; `?heartbeat=SECONDS` also asks for bare separators.
    ///   - render: The current JSON; nil ends the stream.
    /// - Returns: The reply; it lasts until `render` returns nil, the realm changes, the route's permission
    ///   is revoked, the node stops or the client disconnects.
    static func stream(_ call: Call, _ render: @escaping @Sendable (Call) -> [UInt8]?) -> Reply {
        let stream = ConfigurationStream(call: call, render: render)
        return Reply(
            status: 200,
            contentType: "application/json; charset=utf-8",
            body: .stream { isConnected, send in
                try await stream.run(while: isConnected, send)
                return []
            }
        ).header("Connection", "close")
    }
}

/// One client's stream of configurations, each followed by four newlines.
///
/// - A change is sent at once, but at most ten a second: a rebalance changes a thousand vBuckets
///   one by one.
/// - The stream ends when the realm changes, for example with a new password, and when the identity loses
///   the route's permission.
/// - Nothing is queued for a slow client: the next send renders the state of that moment.
private struct ConfigurationStream {
    private static let separator = Array("\n\n\n\n".utf8)
    /// Interval of re-rendering without a notification: some changes, for example of a bucket's
    /// warmup, notify nothing.
    private static let recheckNanoseconds: UInt64 = 5_000_000_000
    /// Minimum interval between two sends.
    private static let pauseNanoseconds: UInt64 = 100_000_000

    let call: Call
    let render: @Sendable (Call) -> [UInt8]?

    /// Sends until the stream ends.
    ///
    /// - Throws: `CancellationError` while it waits, or the error of `send`.
    func run(while isConnected: () -> Bool, _ send: Reply.Send) async throws {
        let service = call.service
        let heartbeat = call.request.query["heartbeat"].flatMap(FormParameters.number)
            .map { min(max($0, 1), 3_600) * 1_000 }
        let realm = Realm(of: call.identity, in: call.state)
        var shown: [UInt8] = []
        var sentAt: UInt64 = 0
        while service.cluster.isServing, isConnected(), !Task.isCancelled {
            let seen = service.cluster.changes
            let refreshed = call.refreshed
            guard Realm(of: call.identity, in: refreshed.state) == realm, refreshed.isServed,
                let json = render(refreshed)
            else { return }
            let now = service.cluster.monotonicNanoseconds
            if json != shown {
                try await send(json + Self.separator)
                shown = json
                sentAt = now
            } else if let heartbeat, now >= sentAt + heartbeat * 1_000_000 {
                try await send(Self.separator)
                sentAt = now
            }
            let timeout = heartbeat.map { min($0 * 1_000_000, Self.recheckNanoseconds) }
            let changes = await service.cluster.waitForChange(
                after: seen,
                nanoseconds: timeout ?? Self.recheckNanoseconds
            )
            let due = now + Self.pauseNanoseconds
            let later = service.cluster.monotonicNanoseconds
            if changes != seen, later < due { try await Task.sleep(for: .nanoseconds(due - later)) }
        }
    }
}

extension Call {
    /// The same request with the current cluster state.
    var refreshed: Call {
        Call(
            request: request,
            route: route,
            state: service.state,
            identity: identity,
            captures: captures,
            service: service,
            authentication: authentication,
            machine: machine,
            latencies: latencies
        )
    }
}
