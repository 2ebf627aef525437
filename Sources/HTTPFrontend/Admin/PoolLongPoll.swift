internal import Bytes
internal import ClusterService
internal import Orchestration

/// `GET /pools/default?waitChange=ms&etag=E`: replies once the pool's tag is no longer E, or after
/// the timeout.
///
/// - The tag covers the content of `/poolsStreaming/default`, without volatile statistics.
struct PoolLongPoll {
    /// Upper bound of a client's timeout, which also bounds waiting for a client that disconnected.
    ///
    /// Clients repeat the request.
    private static let waitMax = Duration.seconds(60)
    /// Interval of re-rendering without a notification: some changes, for example of a bucket's
    /// warmup, notify nothing.
    private static let recheck = Duration.seconds(1)

    let call: Call

    func reply() async -> Reply {
        let query = call.request.query
        guard let milliseconds = query["waitChange"].flatMap(FormParameters.number) else {
            return .refused([FieldError("waitChange", "waitChange is a number of milliseconds")])
        }
        let clock = ContinuousClock()
        let wait = min(Duration.milliseconds(min(milliseconds, 1 << 30)), Self.waitMax)
        let deadline = clock.now + wait
        while true {
            let seen = call.service.cluster.changes
            let current = call.refreshed
            guard current.isServed else { return .empty(401) }
            let tag = Self.tag(current)
            let left = clock.now.duration(to: deadline)
            let isOver = left <= .zero || !call.service.cluster.isServing || Task.isCancelled
            guard tag == query["etag"], !isOver else { return Self.answer(current, tag) }
            let timeout = min(left, Self.recheck)
            _ = await call.service.cluster.waitForChange(
                after: seen,
                nanoseconds: UInt64(timeout / .nanoseconds(1))
            )
        }
    }

    private static func tag(_ call: Call) -> String {
        let json = PoolJSON(call: call).json(volatile: false).bytes
        return String(json.withUnsafeBytes { CRC32.checksum(ByteView($0)) })
    }

    private static func answer(_ call: Call, _ tag: String) -> Reply {
        guard case .object(let members) = PoolJSON(call: call).json() else {
            preconditionFailure("the pool is an object")
        }
        return .json(.object(members + [("etag", .string(tag))]))
    }
}
