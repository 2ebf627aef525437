internal import Orchestration
internal import Vocabulary

/// The admin port's routes, by subject, and its rules: Couchbase's texts, and the parameters that
/// every route has (`uuid`, `bucket_uuid`, `just_validate`).
struct AdminTable: RouteTable {
    let routes: [Route]

    /// - Parameter views: The services of the view port; nil to omit the routes of views.
    init(views: ViewServer.Services?) {
        let known =
            AdminRoutes.health + AdminRoutes.session + AdminRoutes.pools + AdminRoutes.nodes
            + AdminRoutes.provisioning
            + AdminRoutes.nodeSetup + AdminRoutes.buckets + AdminRoutes.bucketCompaction
            + AdminRoutes.alternateAddresses + AdminRoutes.configurations + AdminRoutes.documents
            + AdminRoutes.changes
            + AdminRoutes.statistics + AdminRoutes.monitoring + AdminRoutes.settings
            + AdminRoutes.indexing
            + AdminRoutes.users + AdminRoutes.collections + AdminRoutes.membership
            + AdminRoutes.rebalance
            + AdminRoutes.retries + AdminRoutes.security + AdminRoutes.certificates
            + AdminRoutes.clientCertificates
            + AdminRoutes.autoFailover + AdminRoutes.groups
            + AdminRoutes.absent + AdminRoutes.console
        routes =
            known + [AdminRoutes.metrics(views?.reading)] + (views.map(AdminRoutes.views) ?? [])
    }

    /// The same as Couchbase's: no caching, no framing.
    let commonHeaders: [HeaderField] = [
        ("Cache-Control", "no-cache,no-store,must-revalidate"),
        ("Pragma", "no-cache"),
        ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("X-Permitted-Cross-Domain-Policies", "none"),
        ("X-XSS-Protection", "1; mode=block"),
    ]

    // MARK: Refusals

    func reply(to refusal: PortRefusal, of request: RESTRequest) -> Reply {
        switch refusal {
        case .notServing:
            return .text("The node is starting or stopping.\r\n", status: 503)
        case .notFound:
            return .notFound
        case .methodNotAllowed(let allowed):
            return Reply.text("Method Not Allowed\r\n", status: 405)
                .header("Allow", allowed.sorted().joined(separator: ", "))
        case .fromAnotherSite:
            return .text(request.anotherSiteReason + ".\r\n", status: 403)
        case .foreignHost:
            return .text(request.foreignHostReason + "\r\n", status: 421)
        case .withoutTLS:
            return .text(RESTRequest.withoutTLSReason + "\r\n", status: 403)
        case .unauthorized:
            let text =
                "This request needs the name and the password of a user (HTTP Basic); these are "
                + "missing or wrong.\r\n"
            return Reply.text(text, status: 401).withChallenge(for: request)
        case .forbidden(let permission):
            return .forbidden(permission)
        case .illFormedTarget:
            let text = "The path or query is not UTF-8. Percent-encode the bytes of a key.\r\n"
            return .text(text, status: 400)
        case .illFormedField(let error):
            return .refused([error])
        case .bodyTooLarge(let most):
            return .text("The body is larger than \(most) bytes.\r\n", status: 413)
        case .bodyMemoryExhausted:
            let text = "The memory for request bodies is used up. Retry later.\r\n"
            return .text(text, status: 503)
        }
    }

    func refusalBeforeAuthentication(of request: RESTRequest, _ state: ClusterState) -> Reply? {
        guard let uuid = request.query["uuid"], let own = state.uuid, uuid != own else {
            return nil
        }
        return .text("Cluster uuid does not match the requested.\r\n", status: 404)
    }

    func refusalBeforeBody(
        of request: RESTRequest,
        to route: Route,
        bucket name: String?,
        _ state: ClusterState
    ) -> Reply? {
        if route.needsCluster, !state.isProvisioned { return .json("unknown pool", status: 404) }
        guard let uuid = request.query["bucket_uuid"], let name,
            let bucket = state.bucket(named: name), bucket.settings.uuid != uuid
        else { return nil }
        return .text("Bucket uuid does not match the requested.\r\n", status: 404)
    }

    func refusalOfBody(of request: RESTRequest, to route: Route) -> Reply? {
        if let wrong = request.flaw(ofBody: route.body) { return .refused([wrong]) }
        if let parameters = route.parameters {
            let form = route.body == .form ? request.form : FormParameters([])
            let errors = parameters.flaws(of: request.query) + parameters.flaws(of: form)
            guard errors.isEmpty else { return .refused(errors) }
        }
        guard request.isValidationOnly, !request.isRead, !route.validates else { return nil }
        let text = "This request does not support validation alone. Nothing was changed."
        return .refused([FieldError("just_validate", text)])
    }

    // MARK: The state

    /// First path segments of routes that read or change the replicated cluster state.
    private static let replicatedRoots = [
        "pools", "poolsStreaming", "nodes", "nodeStatuses", "settings", "internalSettings",
        "controller", "couchBase",
    ].map { Array($0.utf8) }

    /// A change that one node acknowledged must be visible on every other node, also to the next
    /// change.
    ///
    /// `/pools` alone is exempt: it only identifies the server.
    func needsCurrentState(_ request: RESTRequest, _ state: ClusterState) -> Bool {
        guard let first = request.segments.first, Self.replicatedRoots.contains(first) else {
            return false
        }
        return request.segments.count > 1 || first == Array("nodeStatuses".utf8)
            || first == Array("internalSettings".utf8)
    }
}

/// The admin port's routes by subject; each file adds its own.
enum AdminRoutes {}
