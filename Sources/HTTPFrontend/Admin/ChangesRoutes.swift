internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// The HTTP feed of a bucket's changes (docs/changes.md).
extension AdminRoutes {
    private static let path = "/pools/default/buckets/*/changes"
    private static let permission = "cluster.bucket[.].data.dcp!read"
    private static let retrySeconds = 5

    /// The additional permission that `include_docs` needs.
    private static func documents(of bucket: String) -> Permission {
        Permission(.bucket(bucket), ["data", "docs"], operation: "read")
    }

    /// Whether the identity of a feed may still have it.
    static func mayFollow(_ call: Call, hasValues: Bool) -> Bool {
        call.isServed && (!hasValues || call.rights.allows(documents(of: call.capture(0))))
    }

    static let changes: [Route] = [
        Route(.get, path, access: .permission(permission), needsCluster: true, handler: openChanges)
            .accepting(ChangesQuery.parameters.names),
        // A token may be longer than proxies accept in a target.
        Route(
            .post,
            path,
            access: .permission(permission),
            needsCluster: true,
            body: .raw,
            handler: openChanges
        )
        .accepting(ChangesQuery.parameters.names),
    ]

    @Sendable private static func openChanges(_ call: Call) async -> Reply {
        let query: ChangesQuery
        switch ChangesQuery.parse(call.request) {
        case .success(let parsed): query = parsed
        case .failure(let flaws): return .refused(flaws.errors)
        }
        let permission = documents(of: call.capture(0))
        if query.request.hasValues, !call.rights.allows(permission) {
            return .forbidden(permission.text)
        }
        let outcome = await call.service.feeds.open(
            query.request,
            from: query.start,
            ofBucket: call.capture(0),
            login: "\(call.identity)"
        )
        switch outcome {
        case .opened(let changes): return reply(call, query, from: changes)
        case .noBucket: return .notFound
        case .invalid(let reason): return .refused([FieldError("since", reason)])
        case .gone(let reason): return refusal(410, "gone", reason: reason)
        case .tooMany(let reason): return refusal(429, "too_many_feeds", reason: reason)
        case .unavailable(let reason): return refusal(503, "retry_needed", reason: reason)
        }
    }

    private static func refusal(_ status: Int, _ error: String, reason: String) -> Reply {
        let reply = Reply.failure(status, error, reason: reason)
        return status == 410 ? reply : reply.retry(afterSeconds: retrySeconds)
    }

    private static func reply(
        _ call: Call,
        _ query: ChangesQuery,
        from changes: ClusterChanges
    ) -> Reply {
        let stream = ChangesReply(call: call, query: query, lease: ChangesLease(changes))
        var reply = Reply(
            status: 200,
            contentType: query.format.contentType,
            body: .stream { isConnected, send in
                try await stream.run(while: isConnected, send)
                return []
            }
        )
        reply.headers.append(("Connection", "close"))
        // A client that reads nothing holds streams on all nodes. It resumes by its token.
        reply.stallTimeout = .seconds(180)
        return reply
    }
}

/// The parameters of a request for an HTTP feed.
struct ChangesQuery: Sendable {
    struct Flaws: Error {
        let errors: [FieldError]
    }

    /// Without any of them a feed begins with the first document, which a misspelt one must not cause.
    static let parameters = Parameters(
        names: ["since", "feed", "include_docs", "limit", "heartbeat"]
    )

    var request: ClusterChanges.Request
    var start = ChangesStart.beginning
    var format = ChangesFormat.lines
    /// The seconds after which an idle feed sends a sign of life; nil for never.
    var heartbeatSeconds: UInt64?

    /// Heartbeats of an event source without the parameter: proxies close idle connections after a
    /// minute.
    private static let heartbeatDefault: UInt64 = 30
    private static let heartbeatMax: UInt64 = 3_600

    /// Parses the query, a POST body (a form, or a token alone), and `Last-Event-ID`.
    static func parse(_ request: RESTRequest) -> Result<ChangesQuery, Flaws> {
        let body = ChangesBody(request)
        let value = { (name: String) in body.form?[name] ?? request.query[name] }
        var flaws = body.flaws
        let feed = value("feed").map(ChangesCollection.Feed.init(rawValue:)) ?? .normal
        if feed == nil {
            flaws.append(FieldError("feed", "feed is normal, longpoll or eventsource"))
        }
        var query = ChangesQuery(request: ClusterChanges.Request(feed: feed ?? .normal))
        if feed == .eventsource {
            query.format = .events
            query.heartbeatSeconds = heartbeatDefault
        }
        switch value("include_docs") {
        case nil, "false": break
        case "true": query.request.hasValues = true
        default: flaws.append(FieldError("include_docs", "include_docs is true or false"))
        }
        if let text = value("limit") {
            query.request.limit = FormParameters.number(text).flatMap(Int.init(exactly:))
            if (query.request.limit ?? 0) < 1 {
                flaws.append(FieldError("limit", "limit is a number from 1"))
            }
        }
        if let text = value("heartbeat") {
            query.heartbeatSeconds = FormParameters.number(text)
            if !(1...heartbeatMax).contains(query.heartbeatSeconds ?? 0) {
                let rule = "heartbeat is a number of seconds from 1 to \(heartbeatMax)"
                flaws.append(FieldError("heartbeat", rule))
            }
        }
        // An event source repeats its first target when it reconnects, so its header is newer.
        query.start = start(request.fields[.lastEventID] ?? body.token ?? value("since"))
        return flaws.isEmpty ? .success(query) : .failure(Flaws(errors: flaws))
    }

    /// An empty text is no token, and refused as such: a consumer that lost its token is not to get all
    /// documents as if it had asked for them.
    private static func start(_ since: String?) -> ChangesStart {
        switch since {
        case nil: .beginning
        case "now": .now
        case .some(let text): .token(text)
        }
    }
}

/// The body of a POST request for an HTTP feed: a form with the fields of the query, or a token alone.
private struct ChangesBody {
    var form: FormParameters?
    var token: String?
    var flaws: [FieldError] = []

    init(_ request: RESTRequest) {
        guard request.method == .post, !request.body.isEmpty else { return }
        // A token has no such character.
        if request.body.contains(UInt8(ascii: "=")) {
            let fields = request.formFields
            form = fields.text
            flaws =
                fields.illFormedField().map { [$0] }
                ?? ChangesQuery.parameters.flaws(of: fields.text)
        } else {
            // The end of a line, which files of a token have.
            let isBlank = { (byte: UInt8) in [0x20, 0x09, 0x0a, 0x0d].contains(byte) }
            let end = request.body.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? 0
            token = String(decoding: request.body[..<end], as: UTF8.self)
        }
    }
}

/// Closes a feed when nothing can request its changes any more, also if the response never begins: to
/// a HEAD request, or because the client disconnected.
final class ChangesLease: Sendable {
    let changes: ClusterChanges

    init(_ changes: ClusterChanges) {
        self.changes = changes
    }

    deinit { changes.close() }
}

/// The body of one client's HTTP feed.
///
/// - A token follows the changes that it stands for: at most once a second, and at the end.
/// - Changes are requested only after the client has accepted those before.
/// - The feed ends when the realm changes, for example with a new password, or a permission is revoked.
struct ChangesReply: Sendable {
    private static let tokenNanoseconds: UInt64 = 1_000_000_000
    /// How often the feed checks whether the client is connected.
    private static let checkNanoseconds: UInt64 = 2_000_000_000
    /// Bytes of one write.
    private static let chunkBytes = 64 << 10

    let call: Call
    let query: ChangesQuery
    let lease: ChangesLease

    private var now: UInt64 { call.service.cluster.monotonicNanoseconds }

    /// When the feed sends something although nothing changes.
    private struct Due {
        /// The time of the next token, if there are changes since the last one.
        var token: UInt64
        var isTokenOwed: Bool
        /// The time of the next heartbeat; nil if there are none.
        var heartbeat: UInt64?

        func wait(from now: UInt64) -> UInt64 {
            var due = now + checkNanoseconds
            if isTokenOwed { due = min(due, token) }
            if let heartbeat { due = min(due, heartbeat) }
            return due - min(now, due)
        }
    }

    /// Sends changes until the feed is over.
    ///
    /// - Throws: The error of `send`.
    func run(while isConnected: () -> Bool, _ send: Reply.Send) async throws {
        let changes = lease.changes
        let format = query.format
        let heartbeat = query.heartbeatSeconds.map { $0 * 1_000_000_000 }
        let realm = Realm(of: call.identity, in: call.state)
        // An event source gets the position at its beginning at once.
        var due = Due(token: now, isTokenOwed: format == .events)
        due.heartbeat = heartbeat.map { now + $0 }
        while isConnected() {
            var output: [UInt8] = []
            let refreshed = call.refreshed
            var isOver =
                Realm(of: call.identity, in: refreshed.state) != realm
                || !AdminRoutes.mayFollow(refreshed, hasValues: query.request.hasValues)
            if !isOver {
                for event in await changes.next(within: due.wait(from: now)) {
                    isOver = format.append(event, to: &output) || isOver
                    if !isOver { due.isTokenOwed = true }
                }
            }
            let now = now
            if isOver || (due.isTokenOwed && now >= due.token) {
                format.append(token: changes.token, to: &output)
                due.isTokenOwed = false
                due.token = now + ChangesReply.tokenNanoseconds
            }
            if output.isEmpty, let next = due.heartbeat, now >= next { output = format.heartbeat }
            if !output.isEmpty {
                due.heartbeat = heartbeat.map { now + $0 }
                try await write(output, send)
            }
            if isOver { return }
        }
    }

    private func write(_ output: [UInt8], _ send: Reply.Send) async throws {
        guard output.count > ChangesReply.chunkBytes else { return try await send(output) }
        for start in stride(from: 0, to: output.count, by: ChangesReply.chunkBytes) {
            let end = min(start + ChangesReply.chunkBytes, output.count)
            try await send(Array(output[start..<end]))
        }
    }
}
