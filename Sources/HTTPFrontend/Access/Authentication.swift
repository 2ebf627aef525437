internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Finds out who sent a request, and whether a route serves them.
///
/// - After provisioning nothing is ever done without the password but what a password-less bucket
///   allows; before it everything is.
/// - Wrong credentials are refused even where none would do.
struct Authentication: Sendable {
    let service: AdministrationService
    let sessions: Sessions

    /// Nil where credentials were sent and are wrong, or the page has no session (any more): it is not
    /// to go on as a stranger who sees what needs no password.
    func identity(of request: AdminRequest, _ state: ClusterState) -> Identity? {
        guard state.isProvisioned else { return .unprovisioned }
        // The page says so where it means its cookie: a header no foreign page can make a browser
        // send, so the cookie alone opens nothing.
        if request.headers["ns-server-ui"] == "yes" {
            guard let token = request.cookie(named: Self.cookieName(request)) else {
                return nil
            }
            let now = service.wallMilliseconds
            return sessions.user(of: token, in: Realm(state), nowMilliseconds: now)
                .map(Identity.administrator)
        }
        guard request.headers["authorization"] != nil else { return .anonymous }
        guard let (user, password) = request.basicCredentials else { return nil }
        if password.isEmpty, state.bucket(named: user)?.settings.passwordless == true {
            return .bucket(user)
        }
        return service.isAdministrator(user, password) ? .administrator(user) : nil
    }

    /// What to answer instead of serving; nil where the route serves them.
    func refusal(
        of identity: Identity?,
        for access: Access,
        _ request: AdminRequest,
        bucket name: String?,
        _ state: ClusterState
    ) -> Reply? {
        if case .open = access { return nil }
        guard let identity else { return unauthorized(request) }
        if identity.isAdministrator { return nil }
        switch access {
        case .open:
            return nil
        case .administrator(let permission):
            if identity == .anonymous { return unauthorized(request) }
            return .forbidden(permission.replacing("[.]", with: "[\(name ?? "")]"))
        case .discovery:
            if identity != .anonymous || state.hasPasswordlessBucket { return nil }
            return unauthorized(request)
        case .bucket(let operation):
            if Self.isVisible(name ?? "", to: identity, state) { return nil }
            if identity == .anonymous { return unauthorized(request) }
            return .forbidden("cluster.bucket[\(name ?? "")].\(operation)")
        }
    }

    static func isVisible(_ name: String, to identity: Identity, _ state: ClusterState) -> Bool {
        switch identity {
        case .unprovisioned, .administrator: true
        case .bucket, .anonymous: state.bucket(named: name)?.settings.passwordless == true
        }
    }

    /// Cookies do not tell ports apart, so the name does: two nodes of one machine, two sessions.
    static func cookieName(_ request: AdminRequest) -> String {
        let host = request.headers["host"] ?? ""
        return "ui-auth-\(URLCoding.encode(host.utf8))"
    }

    private func unauthorized(_ request: AdminRequest) -> Reply {
        var reply = Reply.empty(401)
        // The page shows its own form; the challenge would have the browser show another.
        if request.headers["invalid-auth-response"] != "on" {
            let challenge = "Basic realm=\"Couchbase Server Admin / REST\""
            reply.headers.append(("WWW-Authenticate", challenge))
        }
        return reply
    }
}

extension ClusterState {
    fileprivate var hasPasswordlessBucket: Bool { buckets.contains(where: \.settings.passwordless) }
}
