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
