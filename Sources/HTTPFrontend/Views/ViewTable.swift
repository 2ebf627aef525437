internal import Orchestration
internal import Vocabulary

/// The view port's routes and its rules: CouchDB's texts, which Couchbase kept there.
struct ViewTable: RouteTable {
    /// Clients of the 1.x family compare the status line of a missing view.
    static let reasonPhrases: [UInt: String] = [404: "Object Not Found"]

    /// Both forms of a design document's path: clients encode the slash of its id or not.
    static let documentPaths = ["/<bucket>/_design/*", "/<bucket>/<design>"]

    let routes: [Route]

    init(_ services: ViewServer.Services) {
        routes =
            Self.general + Self.designDocuments(services.designDocuments)
            + Self.queries(services.queries)
    }

    let commonHeaders: [HeaderField] = [("Cache-Control", "must-revalidate")]

    private static let general: [Route] = [
        Route(.get, "/", access: .open) { _ in
            .json(["couchdb": "Welcome", "version": .string(Release.couchbaseVersion)])
        },
        Route(.get, "/<bucket>/_all_docs", access: .permission("cluster.bucket[.].data.docs!read"))
        {
            call in
            await call.withViewBucket { _ in
                .failure(400, "bad_request", reason: "_all_docs is no longer supported")
            }
        },
    ]

    // MARK: Refusals

    func reply(to refusal: PortRefusal, of request: RESTRequest) -> Reply {
        switch refusal {
        case .notServing:
            return .failure(503, "service_unavailable", reason: "The node is starting or stopping")
        case .notFound:
            return .missing("missing")
        case .methodNotAllowed(let methods):
            let allowed = (methods + (methods.contains("GET") ? ["HEAD"] : [])).sorted()
            let reason = "Only \(allowed.joined(separator: ",")) allowed"
            return Reply.failure(405, "method_not_allowed", reason: reason)
                .header("Allow", allowed.joined(separator: ", "))
        case .fromAnotherSite:
            return .failure(403, "forbidden", reason: request.anotherSiteReason)
        case .withoutTLS:
            return .failure(403, "forbidden", reason: RESTRequest.withoutTLSReason)
        case .foreignHost:
            return .failure(421, "misdirected_request", reason: request.foreignHostReason)
        case .unauthorized:
            return Reply.failure(401, "unauthorized", reason: "password required")
                .withChallenge(for: request)
        case .forbidden(let permission):
            let reason = "The user needs the permission \(permission)"
            return .forbidden(permission, reason)
        case .illFormedTarget:
            return .failure(400, "bad_request", reason: "The path or the query is not valid UTF-8")
        case .illFormedField(let error):
            return .failure(400, "bad_request", reason: error.text)
        case .bodyTooLarge(let most):
            let reason = "The request's body is larger than \(most) bytes"
            return .failure(413, "too_large", reason: reason)
        case .bodyMemoryExhausted:
            let reason = "The memory for request bodies is used up. Retry later."
            return Reply.failure(503, "service_unavailable", reason: reason).retry(afterSeconds: 1)
        }
    }

    func refusalBeforeAuthentication(of request: RESTRequest, _ state: ClusterState) -> Reply? {
        nil
    }

    /// Refuses a body of another type than JSON; without a type it is read as JSON.
    func refusalBeforeBody(
        of request: RESTRequest,
        to route: Route,
        bucket name: String?,
        _ state: ClusterState
    ) -> Reply? {
        guard route.method == .put || route.method == .post,
            !["", "application/json"].contains(request.contentType)
        else { return nil }
        return .failure(415, "bad_content_type", reason: "Content-Type must be application/json")
    }

    func refusalOfBody(of request: RESTRequest, to route: Route) -> Reply? { nil }

    /// A design document that one node acknowledged must be visible on every other node.
    ///
    /// A query needs that only for its bucket; the service that carries it out checks the rest.
    func needsCurrentState(_ request: RESTRequest, _ state: ClusterState) -> Bool {
        let segments = request.segments
        guard segments.count > 1 else { return false }
        // `/B/_design/D/_view/V`, or with the slash of the document's id encoded.
        let isQuery =
            segments.count > 3 && segments[segments.count - 2].elementsEqual("_view".utf8)
        guard isQuery, let segment = BucketSegment(segments[0]) else { return true }
        return state.uuid(ofBucket: segment.name) == nil
    }
}

extension Call {
    /// Calls `body` with the name of the bucket in the path's first segment.
    ///
    /// - Returns: The reply of `body`, or the refusal if the bucket does not exist or has another
    ///   UUID.
    func withViewBucket(_ body: (String) async -> Reply) async -> Reply {
        switch viewBucket {
        case .name(let name): await body(name)
        case .refused(let reply): reply
        }
    }

    /// The bucket in the path's first segment.
    enum ViewBucket {
        case name(String)
        /// The bucket does not exist or has another UUID.
        case refused(Reply)
    }

    /// The bucket in the path's first segment, by the call's state.
    var viewBucket: ViewBucket {
        guard let segment = BucketSegment(captures[0]),
            let known = state.uuid(ofBucket: segment.name)
        else { return .refused(.missing("missing")) }
        if let uuid = segment.uuid, uuid != known {
            return .refused(.missing("uuids_dont_match"))
        }
        return .name(segment.name)
    }
}

extension Reply {
    /// `{"error":"word","reason":"sentence"}`, the view port's form of every failure.
    static func failure(_ status: Int, _ error: String, reason: String) -> Reply {
        json(["error": .string(error), "reason": .string(reason)], status: status)
    }

    /// The refusal of an identity that lacks a permission: also with the members that Couchbase Server
    /// answers with instead.
    static func forbidden(_ permission: String, _ reason: String) -> Reply {
        json(
            [
                "error": "forbidden", "reason": .string(reason),
                "message": .string(forbiddenMessage),
                "permissions": [.string(permission)],
            ],
            status: 403
        )
    }

    /// Clients match the word `not_found`.
    static func missing(_ reason: String) -> Reply { failure(404, "not_found", reason: reason) }

    /// This reply with the time after which the client may retry.
    func retry(afterSeconds seconds: Int) -> Reply {
        header("Retry-After", "\(seconds)")
    }
}
