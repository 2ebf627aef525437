internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Authenticates requests and authorizes them for a route.
///
/// - After provisioning, a request without the password may only use password-less buckets; before
///   provisioning every request is allowed.
/// - Wrong credentials are refused even if the route needs none.
struct Authentication: Sendable {
    let service: AdministrationService
    let sessions: Sessions

    /// The identity of the request's credentials.
    ///
    /// Nil if the credentials are wrong, or if the console's session is missing or has expired: the
    /// console must not continue as an anonymous client that sees only password-less buckets.
    func identity(of request: RESTRequest, _ state: ClusterState) -> Identity? {
        guard state.isProvisioned else { return .unprovisioned }
        // The console marks its requests with this header. Another site's page cannot make a
        // browser send it, so the cookie alone authenticates nothing.
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

    /// Why the route does not serve the identity; nil if it does.
    func refusal(
        of identity: Identity?,
        for access: Access,
        bucket name: String?,
        _ state: ClusterState
    ) -> Refusal? {
        if case .open = access { return nil }
        guard let identity else { return .unauthorized }
        if identity.isAdministrator { return nil }
        switch access {
        case .open:
            return nil
        case .administrator(let permission):
            if identity == .anonymous { return .unauthorized }
            return .forbidden(permission.replacing("[.]", with: "[\(name ?? "")]"))
        case .discovery:
            if identity != .anonymous || state.hasPasswordlessBucket { return nil }
            return .unauthorized
        case .bucket(let operation):
            if Self.isVisible(name ?? "", to: identity, state) { return nil }
            if identity == .anonymous { return .unauthorized }
            return .forbidden("cluster.bucket[\(name ?? "")].\(operation)")
        }
    }

    static func isVisible(_ name: String, to identity: Identity, _ state: ClusterState) -> Bool {
        switch identity {
        case .unprovisioned, .administrator: true
        case .bucket, .anonymous: state.bucket(named: name)?.settings.passwordless == true
        }
    }

    /// Browsers share cookies between the ports of a host, so the name contains the port: two nodes
    /// of one machine have two sessions.
    static func cookieName(_ request: RESTRequest) -> String {
        let host = request.headers["host"] ?? ""
        return "ui-auth-\(URLCoding.encode(host.utf8))"
    }
}

extension Reply {
    /// This reply with the challenge of Basic authentication.
    ///
    /// Without it if the request asks so: the console shows its own login form, and a challenge
    /// would make the browser show another.
    func withChallenge(for request: RESTRequest) -> Reply {
        guard request.headers["invalid-auth-response"] != "on" else { return self }
        var reply = self
        let challenge = "Basic realm=\"Couchbase Server Admin / REST\""
        reply.headers.append(("WWW-Authenticate", challenge))
        return reply
    }
}

extension ClusterState {
    fileprivate var hasPasswordlessBucket: Bool { buckets.contains(where: \.settings.passwordless) }
}
