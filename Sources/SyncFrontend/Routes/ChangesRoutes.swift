internal import Bytes
internal import Seams
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

/// The answer of `_changes` over HTTP: `normal`, `longpoll` or `continuous`.
///
/// A page is read when the socket takes it, so that a slow client has one page in memory.
final class ChangesAnswer: @unchecked Sendable {  // tidy:allow belongs to its lane
    private let call: RouteCall
    private let feed: ChangesFeed
    private let request: ChangesRequest
    private let clock: FeedClock
    private let output = ByteWriter(capacity: 512)
    private var writer: ChangesWriter

    init(_ call: RouteCall, _ feed: ChangesFeed, request: ChangesRequest) {
        self.call = call
        self.feed = feed
        self.request = request
        clock = FeedClock(feed, request.waiting, on: call.executor.lane)
        writer = ChangesWriter(request.feed, output)
    }

    private var exchange: GatewayExchange { call.exchange }

    /// Sends the feed until it ends or the client is gone.
    func run() async {
        defer {
            clock.stop()
            feed.close()
        }
        let type =
            request.feed == .continuous ? "application/octet-stream" : "application/json"
        exchange.begin(
            200,
            [
                "Content-Type": type,
                "Cache-Control": "private, max-age=0, no-cache, no-store",
            ],
            mayCompress: request.feed != .continuous
        )
        guard !exchange.request.isHead else { return exchange.end() }
        exchange.whenClosed { [feed] in feed.interrupt() }
        writer.begin()
        // A client of a long poll knows by the first bytes that the gateway has the request.
        send(flushing: request.feed != .normal)
        await serveRows()
        if request.feed != .continuous {
            writer.end(last: feed.last, isNumber: isOfDocuments && call.database.dialect == .first)
            send(flushing: false)
        }
        exchange.end()
    }

    private var isOfDocuments: Bool { if case .documents = request.filter { true } else { false } }

    /// Sends rows until the answer is complete, or the client is gone.
    private func serveRows() async {
        var hasRows = false
        if request.feed != .normal { clock.restart() }
        while !exchange.isClosed {
            guard let page = try? await feed.next() else { break }
            for row in page.rows { writer.append(row) }
            if !page.rows.isEmpty {
                hasRows = true
                // The other kinds end before they wait again.
                if request.feed == .continuous { clock.restart() }
            }
            if page.isAtEnd, request.feed == .continuous, !feed.isFinished { writer.heartbeat() }
            send(flushing: request.feed == .continuous)
            if feed.isFinished { break }
            if page.isAtEnd, request.feed == .normal || request.feed == .longpoll && hasRows {
                break
            }
            guard (try? await call.writable()) != nil else { break }
            if page.isAtEnd, await !waitForChange() { break }
        }
    }

    /// Waits, and sends heartbeats; returns whether there may be a row.
    private func waitForChange() async -> Bool {
        while true {
            await feed.wait()
            if exchange.isClosed || clock.isTimedOut { return false }
            guard clock.takeHeartbeat() else { return true }
            writer.heartbeat()
            send(flushing: true)
            if feed.hasChanged { return true }
        }
    }

    private func send(flushing: Bool) {
        exchange.write(output.view)
        output.removeAll(keepingAtMost: 64 << 10)
        if flushing { exchange.flush() }
    }
}

/// The heartbeats and the timeout of a feed that waits.
///
/// A timeout begins anew with each row that is sent.
final class FeedClock: @unchecked Sendable {  // tidy:allow belongs to the lane of its connection
    private let lane: any Lane
    private let feed: ChangesFeed
    private let waiting: ChangesRequest.Waiting
    private var heartbeat: LaneTimer?
    private var timeout: LaneTimer?
    private(set) var isTimedOut = false
    private var isHeartbeatDue = false

    init(_ feed: ChangesFeed, _ waiting: ChangesRequest.Waiting, on lane: any Lane) {
        self.feed = feed
        self.waiting = waiting
        self.lane = lane
        beatLater()
    }

    /// Begins the timeout anew.
    func restart() {
        timeout?.cancel()
        guard waiting.timeoutMilliseconds > 0 else { return }
        timeout = lane.post(after: nanoseconds(waiting.timeoutMilliseconds)) { [self] in
            isTimedOut = true
            feed.interrupt()
        }
    }

    /// Whether a heartbeat is due; then the next one is due an interval later.
    func takeHeartbeat() -> Bool {
        defer { isHeartbeatDue = false }
        return isHeartbeatDue
    }

    func stop() {
        heartbeat?.cancel()
        timeout?.cancel()
    }

    private func beatLater() {
        guard waiting.heartbeatMilliseconds > 0 else { return }
        heartbeat = lane.post(after: nanoseconds(waiting.heartbeatMilliseconds)) { [self] in
            isHeartbeatDue = true
            feed.interrupt()
            beatLater()
        }
    }

    private func nanoseconds(_ milliseconds: Int) -> UInt64 { UInt64(milliseconds) * 1_000_000 }
}
