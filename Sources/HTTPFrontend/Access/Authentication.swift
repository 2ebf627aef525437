internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Authenticates requests and authorizes them for a route.
///
/// - After provisioning, a request without a password may only use password-less buckets; before
///   provisioning requests from loopback are allowed, and those with the token of `InitToken`.
/// - Wrong credentials are refused even if the route needs none.
struct Authentication: Sendable {
    let service: AdministrationService
    let sessions: SessionTable

    /// The identity of the request's credentials.
    ///
    /// Nil if the credentials are wrong, or if the console's session is missing or has ended: the
    /// console must not continue as an anonymous client that sees only password-less buckets.
    func identity(of request: RESTRequest, _ state: ClusterState) async -> Identity? {
        switch check(request, state) {
        case .identity(let identity): identity
        case .unchecked(let user, let password):
            await identity(ofUser: user, password, request)
        }
    }

    /// The result of an authentication without a check of a password.
    enum Check: Sendable {
        /// The result of `identity(of:_:)`.
        case identity(Identity?)
        /// The password is wrong, or has to be checked, which takes milliseconds.
        case unchecked(user: String, password: String)
    }

    /// Authenticates a request as far as that takes microseconds.
    func check(_ request: RESTRequest, _ state: ClusterState) -> Check {
        guard state.isProvisioned else { return .identity(identityOfFirstComer(request)) }
        if let certificate = request.connection?.secured?.certificate {
            let rules = state.settings.security.clientCertificates
            if let identity = Self.identity(of: certificate, rules, state) {
                request.connection?.login?.note(identity)
                return .identity(identity)
            }
            // A password is enough, unless every client needs a certificate.
            if rules.state == .mandatory { return .identity(nil) }
        }
        guard let (user, password) = request.basicCredentials,
            request.fields[.nsServerUI] != "yes"
        else {
            let identity = identityWithoutPassword(of: request, state)
            if let identity { request.connection?.login?.note(identity) }
            return .identity(identity)
        }
        guard let known = service.users.knownLogin(user, password), let outcome = known else {
            return .unchecked(user: user, password: password)
        }
        let identity = Identity(outcome, from: request.origin)
        request.connection?.login?.note(identity)
        return .identity(identity)
    }

    /// The user that a certificate names; nil if it names none.
    private static func identity(
        of certificate: ClientCertificate,
        _ rules: ClientCertificateSettings,
        _ state: ClusterState
    ) -> Identity? {
        guard rules.state != .disable, let name = rules.user(of: certificate) else { return nil }
        if state.administrator?.name == name { return .administrator(name) }
        return state.user(name) == nil ? nil : .user(name)
    }

    /// The identity of a request to a node without a cluster.
    private func identityOfFirstComer(_ request: RESTRequest) -> Identity? {
        let password = request.basicCredentials?.password
        let identity = Identity(
            firstComerFrom: request.origin,
            hasToken: password.map(service.cluster.initToken.isRight) ?? false,
            hasCredentials: request.fields[.authorization] != nil
        )
        if let identity { request.connection?.login?.note(identity) }
        return identity
    }

    /// The identity of a request without a valid name and password.
    private func identityWithoutPassword(
        of request: RESTRequest,
        _ state: ClusterState
    ) -> Identity? {
        // The console marks its requests with this header. Another site's page cannot make a
        // browser send it, so the cookie alone authenticates nothing.
        if request.fields[.nsServerUI] == "yes" {
            guard let token = request.cookie(named: Self.cookieName(request)) else {
                return nil
            }
            let now = service.cluster.wallMilliseconds
            return sessions.identity(of: token, in: state, nowMilliseconds: now)
        }
        return request.fields[.authorization] == nil ? .anonymous(from: request.origin) : nil
    }

    /// The identity that a name and a password log in; nil if they are wrong.
    ///
    /// A right password whose check is cached waits for nothing. A wrong one waits like one that was
    /// never checked.
    func identity(
        ofUser user: String,
        _ password: String,
        _ request: RESTRequest
    ) async -> Identity? {
        let connection = request.connection?.login
        var outcome = service.users.knownLogin(user, password) ?? nil
        if outcome == nil {
            await connection?.pause()
            outcome = await service.users.checkLogin(user, password, from: connection?.host ?? "")
        }
        guard let outcome else {
            connection?.recordRefusal(of: user)
            return nil
        }
        let identity = Identity(outcome, from: request.origin)
        connection?.note(identity)
        return identity
    }

    /// Why the route does not serve the identity; nil if it does.
    static func refusal(
        of identity: Identity?,
        for access: RouteAccess,
        bucket name: String?,
        _ state: ClusterState
    ) -> PortRefusal? {
        if case .open = access { return nil }
        guard let identity, identity.exists(in: state) else { return .unauthorized }
        if identity.isAdministrator { return nil }
        guard let permission = access.permission(bucket: name) else {
            guard case .anonymous(let origin) = identity else { return nil }
            return state.hasPasswordlessBucket(for: origin) ? nil : .unauthorized
        }
        if Rights(of: identity, in: state).allows(permission) { return nil }
        return identity.isAnonymous ? .unauthorized : .forbidden(permission.text)
    }

    /// Browsers share cookies between the ports of a host, so the name contains the port: two nodes
    /// of one machine have two sessions.
    static func cookieName(_ request: RESTRequest) -> String {
        let host = request.fields[.host] ?? ""
        return "ui-auth-\(URLCoding.encode(host.utf8))"
    }
}

extension Identity {
    init(_ outcome: LoginOutcome, from origin: ClientOrigin) {
        self =
            switch outcome {
            case .administrator(let name): .administrator(name)
            case .user(let id): .user(id)
            case .bucket(let name): .bucket(name)
            case .guest(let name): .guest(name, from: origin)
            }
    }
}

extension Reply {
    /// This reply with the challenge of Basic authentication.
    ///
    /// Without it if the request asks so: the console shows its own login form, and a challenge
    /// would make the browser show another.
    func withChallenge(for request: RESTRequest) -> Reply {
        guard request.fields[.invalidAuthResponse] != "on" else { return self }
        return header("WWW-Authenticate", "Basic realm=\"Couchbase Server Admin / REST\"")
    }
}
