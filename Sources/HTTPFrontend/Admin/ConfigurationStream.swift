internal import ClusterService
internal import Orchestration

extension Reply {
    /// Sends JSON again and again, whenever it changed, until there is none any more.
    ///
    /// - Parameters:
    ///   - call: The request; `?heartbeat=SECONDS` also asks for bare separators.
    ///   - render: The JSON of now; nil ends the stream.
    /// - Returns: The reply, which lasts as long as both sides want.
    static func stream(_ call: Call, _ render: @escaping @Sendable (Call) -> [UInt8]?) -> Reply {
        let stream = ConfigurationStream(call: call, render: render)
        var reply = Reply(
            status: 200,
            contentType: "application/json; charset=utf-8",
            body: .stream { isHeard, send in try await stream.run(while: isHeard, send) }
        )
        reply.headers.append(("Connection", "close"))
        return reply
    }
}

/// One client's stream of configurations, each followed by four newlines.
///
/// - At once, and at most ten a second: a rebalance changes a thousand vBuckets one by one.
/// - It ends with the realm of whoever asked: with another password he has to ask again.
/// - Nothing queues up for a slow client: what is sent next is what is true then.
private struct ConfigurationStream {
    private static let separator = Array("\n\n\n\n".utf8)
    /// What nobody tells us of, a bucket's warmup for one, is seen by looking this often.
    private static let recheckNanoseconds: UInt64 = 5_000_000_000
    private static let pauseNanoseconds: UInt64 = 100_000_000

    let call: Call
    let render: @Sendable (Call) -> [UInt8]?

    func run(while isHeard: () -> Bool, _ send: Reply.Send) async throws {
        let service = call.service
        let heartbeat = call.request.query["heartbeat"].flatMap(FormParameters.number)
            .map { min(max($0, 1), 3_600) * 1_000 }
        let realm = Realm(call.state)
        var shown: [UInt8] = []
        var sentAt: UInt64 = 0
        while service.isServing, isHeard(), !Task.isCancelled {
            let seen = service.changes
            let refreshed = call.refreshed
            guard Realm(refreshed.state) == realm, let json = render(refreshed) else { return }
            let now = service.monotonicNanoseconds
            if json != shown {
                try await send(json + Self.separator)
                shown = json
                sentAt = now
            } else if let heartbeat, now >= sentAt + heartbeat * 1_000_000 {
                try await send(Self.separator)
                sentAt = now
            }
            let patience = heartbeat.map { min($0 * 1_000_000, Self.recheckNanoseconds) }
            let changes = await service.waitForChange(
                after: seen,
                nanoseconds: patience ?? Self.recheckNanoseconds
            )
            let due = now + Self.pauseNanoseconds
            let later = service.monotonicNanoseconds
            if changes != seen, later < due { try await Task.sleep(for: .nanoseconds(due - later)) }
        }
    }
}

extension Call {
    /// The same request, asked of the cluster as it is now.
    var refreshed: Call {
        Call(
            request: request,
            state: service.state,
            identity: identity,
            captures: captures,
            service: service,
            sessions: sessions,
            machine: machine
        )
    }
}
