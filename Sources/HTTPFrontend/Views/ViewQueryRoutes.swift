internal import Orchestration
internal import Vocabulary

/// View queries on the view port.
extension ViewTable {
    /// - Parameters:
    ///   - queries: Carries out the queries.
    ///   - prefix: The path before the bucket's.
    ///   - stallTimeout: How long a client may leave a chunk of an answer unread; nil if the port has
    ///     such a limit for all responses.
    /// - Returns: The routes.
    static func queries(
        _ queries: any ViewQueries,
        under prefix: String = "",
        stallTimeout: Duration? = nil
    ) -> [Route] {
        documentPaths.flatMap { path in
            let path = prefix + path
            return [RESTRequest.Method.get, .post].flatMap { method in
                [
                    query(method, "\(path)/_view/*", queries: queries, stallTimeout: stallTimeout),
                    Route(
                        method,
                        "\(path)/_spatial/*",
                        access: .permission("cluster.bucket[.].views!read"),
                        body: .viewQuery
                    ) { call in
                        await call.withViewBucket { _ in
                            .failure(400, "bad_request", reason: "Spatial views are not supported")
                        }
                    },
                ]
            }
        }
    }

    private static func query(
        _ method: RESTRequest.Method,
        _ path: String,
        queries: any ViewQueries,
        stallTimeout: Duration?
    ) -> Route {
        let permission = RouteAccess.permission("cluster.bucket[.].views!read")
        let route = Route(method, path, access: permission, body: .viewQuery) { call in
            await call.withViewBucket { bucket in
                var reply = await answer(call, queries, inBucket: bucket)
                reply.stallTimeout = stallTimeout
                return reply
            }
        }
        guard method == .get else { return route }
        return route.answeringPromptly { call in answerNow(call, queries) }
    }

    /// Bytes of a body above which its parameters are not parsed on the connection's event loop.
    ///
    /// Smaller ones cost a few milliseconds at most, and most of them less than a change of the thread. The
    /// largest ones have 262 144 keys, each with a sort key to make.
    private static let loopBodyBytesMax = 64 << 10

    private static func answer(
        _ call: Call,
        _ queries: any ViewQueries,
        inBucket bucket: String
    ) async -> Reply {
        guard call.request.body.count > loopBodyBytesMax else {
            return await begin(call, queries, inBucket: bucket)
        }
        return await withTaskExecutorPreference(WorkExecutor.shared) {
            await begin(call, queries, inBucket: bucket)
        }
    }

    /// Parses the parameters of a query, and begins it.
    private static func begin(
        _ call: Call,
        _ queries: any ViewQueries,
        inBucket bucket: String
    ) async -> Reply {
        var parameters = queryParameters(of: call)
        if call.request.method == .post {
            switch ViewQueryBody.parse(call.request.body) {
            case .parameters(let members): parameters += members
            case .invalid(let reason): return .failure(400, "bad_request", reason: reason)
            }
        }
        if let refusal = refusalOfDocuments(parameters, call, inBucket: bucket) { return refusal }
        // Until the last reference is gone, the query is cancelled when the client disconnects.
        let interest = call.request.connection?.beginWatching()
        if interest == nil, call.request.connection != nil {
            return .failure(503, "service_unavailable", reason: "The client disconnected")
        }
        defer { withExtendedLifetime(interest) {} }
        let outcome: ViewQueryOutcome
        if let begun = call.request.begunQuery {
            outcome = await begun.outcome()
        } else {
            outcome = await queries.begin(viewRequest(of: call, bucket, parameters))
        }
        switch outcome {
        case .refused(let refusal): return reply(to: refusal)
        // One write with its length, instead of a head, a chunk and an end.
        case .whole(let bytes): return .rendered(bytes)
        case .rows(let rows):
            let lease = RowsLease(rows, interest)
            return Reply(
                status: 200,
                contentType: "application/json",
                body: .stream { isConnected, send in
                    // A long answer must not keep an event loop from its other connections.
                    try await withTaskExecutorPreference(globalConcurrentExecutor) {
                        try await write(lease, while: isConnected, send)
                    }
                }
            )
        }
    }

    /// As `answer`, for a GET whose query needs not wait.
    private static func answerNow(_ call: Call, _ queries: any ViewQueries) -> Route.PromptReply {
        let bucket: String
        switch call.viewBucket {
        case .refused(let reply): return .reply(reply)
        case .name(let name): bucket = name
        }
        let parameters = queryParameters(of: call)
        if let refusal = refusalOfDocuments(parameters, call, inBucket: bucket) {
            return .reply(refusal)
        }
        switch queries.beginNow(viewRequest(of: call, bucket, parameters)) {
        case .refused(let refusal): return .reply(reply(to: refusal))
        case .whole(let bytes): return .reply(.rendered(bytes))
        case .begun(let query): return .mustWait(query)
        case .mustWait: return .mustWait(nil)
        }
    }

    private static func queryParameters(of call: Call) -> [ViewParameter] {
        call.request.query.pairs.map { field in
            ViewParameter(name: field.name, value: .text(field.value))
        }
    }

    private static func viewRequest(
        of call: Call,
        _ bucket: String,
        _ parameters: [ViewParameter]
    ) -> ViewRequest {
        ViewRequest(
            bucket: bucket,
            designDocument: call.capture(1),
            view: call.capture(2),
            parameters: parameters
        )
    }

    private static func reply(to refusal: ViewRefusal) -> Reply {
        let reply = Reply.failure(refusal.status, refusal.error, reason: refusal.reason)
        return refusal.retryAfterSeconds.map { reply.retry(afterSeconds: $0) } ?? reply
    }

    /// The refusal of a query for documents by an identity that may only read views; nil if there is
    /// none.
    ///
    /// An identity that may write views can read documents through them.
    private static func refusalOfDocuments(
        _ parameters: [ViewParameter],
        _ call: Call,
        inBucket bucket: String
    ) -> Reply? {
        guard IndexQueries.includesDocuments(parameters) else { return nil }
        let permission = Permission(.bucket(bucket), ["data", "docs"], operation: "read")
        let write = Permission(.bucket(bucket), ["views"], operation: "write")
        guard !call.rights.allows(permission), !call.rights.allows(write) else { return nil }
        return .forbidden(permission.text, "include_docs needs the permission \(permission.text)")
    }

    // MARK: The response

    /// Bytes of one write: together with the channel's buffer of the same size, what is queued for a
    /// slow client at most.
    private static let chunkBytes = 64 << 10

    /// Cancels a query's rows when nothing can request them any more, also if the response never
    /// begins: to a HEAD request, or because the client disconnected.
    private final class RowsLease: Sendable {
        let rows: any ViewRows
        private let interest: ConnectionWatch.Interest?

        init(_ rows: any ViewRows, _ interest: ConnectionWatch.Interest?) {
            self.rows = rows
            self.interest = interest
        }

        deinit { rows.cancel() }
    }

    /// The client disconnected before the end of the response.
    private struct Disconnected: Error {}

    /// Sends the rows, each part once the connection accepts it.
    ///
    /// - Throws: The error of the rows, of `send`, or `Disconnected`.
    /// - Returns: The fields of the trailer.
    private static func write(
        _ lease: RowsLease,
        while isConnected: () -> Bool,
        _ send: Reply.Send
    ) async throws -> [HeaderField] {
        while isConnected() {
            switch try await lease.rows.next() {
            case .end(let isPartial):
                return isPartial ? [("X-View-Partial", "1")] : []
            case .bytes(let bytes) where bytes.count <= chunkBytes:
                if !bytes.isEmpty { try await send(bytes) }
            case .bytes(let bytes):
                for start in stride(from: 0, to: bytes.count, by: chunkBytes) {
                    try await send(Array(bytes[start..<min(start + chunkBytes, bytes.count)]))
                }
            }
        }
        throw Disconnected()
    }
}
