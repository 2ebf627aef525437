internal import Bytes
internal import Deflate
internal import Seams
internal import SyncService
internal import SyncWire

/// A feed of changes over a WebSocket: the first message has the parameters, each later one of the gateway an array
/// of rows.
///
/// `[]` says that the client has all rows; afterwards an empty message says it, and is the heartbeat. Messages are
/// one gzip stream if the client asks for it.
final class ChangesSocket: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Shorter messages are not compressed: `[]` and the empty one.
    private static let plainBytesMax = 8

    private let call: RouteCall
    private let filter: ChangesRequest.Filter
    private let heartbeatMillisecondsMax: Int
    private var feed: ChangesFeed?
    private var deflater: Deflater?
    private var isCaughtUp = false
    private var writableWaiter: UnsafeContinuation<Void, Never>?

    private init(
        _ call: RouteCall,
        _ filter: ChangesRequest.Filter,
        heartbeatMillisecondsMax: Int
    ) {
        self.call = call
        self.filter = filter
        self.heartbeatMillisecondsMax = heartbeatMillisecondsMax
    }

    /// Answers the upgrade.
    ///
    /// - Parameters:
    ///   - call: The request.
    ///   - filter: That of the query, for a message without channels.
    ///   - heartbeatMillisecondsMax: From the configuration; 0 for no bound.
    static func open(
        _ call: RouteCall,
        _ filter: ChangesRequest.Filter,
        heartbeatMillisecondsMax: Int
    ) {
        let socket = ChangesSocket(call, filter, heartbeatMillisecondsMax: heartbeatMillisecondsMax)
        call.exchange.upgradeToWebSocket { connection, event in
            switch event {
            case .opened: break
            case .text(let message), .binary(let message): socket.begin(message, connection)
            case .writable: socket.resume()
            case .closed: socket.end()
            }
        }
    }

    /// Handles the message with the parameters; later ones are ignored.
    private func begin(_ message: ByteView, _ connection: WebSocketConnection) {
        guard feed == nil else { return }
        do {
            let request = try Refusal.parsing { () throws(RequestRefusal) in
                try ChangesRequest(
                    webSocketMessage: message,
                    filter: filter,
                    heartbeatMillisecondsMax: heartbeatMillisecondsMax
                )
            }
            let feed = try ChangesFeed(request, of: call.database, for: call.requester)
            self.feed = feed
            if request.isCompressed { deflater = Deflater(.gzip, .small) }
            call.executor.spawn { [self] in
                await run(feed, request, on: connection)
                connection.close()
            }
        } catch {
            // Sync Gateway gives no reason, and some clients take another code for a failure of the network.
            call.environment.trace.debug("sync", "A feed over a WebSocket: \(error.reason)")
            connection.close()
        }
    }

    private func resume() {
        writableWaiter?.resume()
        writableWaiter = nil
    }

    private func end() {
        resume()
        feed?.interrupt()
    }

    private func run(
        _ feed: ChangesFeed,
        _ request: ChangesRequest,
        on connection: WebSocketConnection
    ) async {
        let clock = FeedClock(feed, request.waiting, on: call.executor.lane)
        defer {
            clock.stop()
            feed.close()
        }
        clock.restart()
        while !connection.isClosed {
            guard let page = try? await feed.next() else { return }
            for start in stride(from: 0, to: page.rows.count, by: ChangesWriter.webSocketRowsMax) {
                let end = min(start + ChangesWriter.webSocketRowsMax, page.rows.count)
                send(page.rows[start..<end], connection)
                await writable(connection)
            }
            if !page.rows.isEmpty { clock.restart() }
            if feed.isFinished { return }
            guard page.isAtEnd else { continue }
            sendRest(connection)
            while true {
                await feed.wait()
                if connection.isClosed || clock.isTimedOut { return }
                guard clock.takeHeartbeat() else { break }
                sendRest(connection)
                if feed.hasChanged { break }
            }
        }
    }

    private func send(_ rows: ArraySlice<ChangesRow>, _ connection: WebSocketConnection) {
        let output = ByteWriter()
        var writer = ChangesWriter(.websocket, output)
        writer.begin()
        for row in rows { writer.append(row) }
        writer.end(last: .zero)
        output.withView { send($0, connection) }
    }

    /// Says that the client has all rows.
    private func sendRest(_ connection: WebSocketConnection) {
        let text: StaticString = "[]"
        let view = ByteView(start: text.utf8Start, count: isCaughtUp ? 0 : text.utf8CodeUnitCount)
        isCaughtUp = true
        send(view, connection)
    }

    private func send(_ message: ByteView, _ connection: WebSocketConnection) {
        guard let deflater, message.count > Self.plainBytesMax else {
            return connection.send(text: message)
        }
        let output = ByteWriter()
        deflater.deflate(message, to: output)
        deflater.flush(to: output)
        output.withView { connection.send(binary: $0) }
    }

    private func writable(_ connection: WebSocketConnection) async {
        guard !connection.isWritable, !connection.isClosed else { return }
        await withUnsafeContinuation { writableWaiter = $0 }
    }
}
