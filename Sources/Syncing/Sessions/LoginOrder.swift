package import SyncWire

/// The login that a request on the public port offers.
package struct LoginOffer: Hashable, Sendable {
    package var bearerToken: String?
    package var basic: BasicCredentials?
    package var sessionID: String?

    package init() {}
}

/// Decides who a request is from: bearer token, then Basic, then the cookie, then the guest.
///
/// A step that the request offers decides; only an unknown session leads on to the guest, and only in the
/// dialect of 1.4.
package struct LoginOrder: Hashable, Sendable {
    package let dialect: GatewayDialect
    /// Whether the database has providers of OpenID Connect; without them, a bearer token is ignored.
    package let acceptsTokens: Bool

    package init(dialect: GatewayDialect, acceptsTokens: Bool) {
        self.dialect = dialect
        self.acceptsTokens = acceptsTokens
    }

    package enum Step: Hashable, Sendable {
        case verifyToken(String)
        case verifyPassword(BasicCredentials)
        case checkSession(id: String)
        case guest
    }

    package enum Decision: Hashable, Sendable {
        case accepted(PrincipalKey)
        case refused(LoginRefusal)
    }

    package func firstStep(of offer: LoginOffer) -> Step {
        if acceptsTokens, let token = offer.bearerToken, !token.isEmpty {
            return .verifyToken(token)
        }
        // A browser sends an empty name if the user gave none.
        if let basic = offer.basic, !basic.name.isEmpty { return .verifyPassword(basic) }
        if let id = offer.sessionID { return .checkSession(id: id) }
        return .guest
    }

    /// After `verifyToken`; nil if no enabled user has a valid token.
    package func decide(token user: PrincipalKey?) -> Decision {
        user.map { .accepted($0) } ?? .refused(.invalidToken)
    }

    /// After `verifyPassword`, with the stored user, and whether the password is the user's.
    package func decide(password user: Principal?, isRight: Bool) -> Decision {
        guard let user, isRight, !user.isDisabled else { return .refused(.invalidLogin) }
        return .accepted(user.key)
    }

    /// After `checkSession`; nil if the session is unknown, over or of a disabled user.
    package func decide(session user: PrincipalKey?, guest: Principal) -> Decision {
        if let user { return .accepted(user) }
        return dialect == .first ? decide(guest: guest) : .refused(.invalidSession)
    }

    package func decide(guest: Principal) -> Decision {
        guest.isDisabled ? .refused(.loginRequired) : .accepted(guest.key)
    }

    /// Decides whose session `POST _session` creates.
    ///
    /// The user whose name and password the body has, else the one that the request is from.
    package func decideNewSession(named: Principal?, requester: PrincipalKey) -> Decision {
        if let named, !named.isDisabled { return .accepted(named.key) }
        return requester == .guest ? .refused(.invalidSessionLogin) : .accepted(requester)
    }
}

/// Why a login is refused; the status is always 401.
package enum LoginRefusal: Hashable, Sendable {
    /// The guest is disabled. Clients ask without a login first, and need this answer to send one.
    case loginRequired
    case invalidLogin
    case invalidToken
    case invalidSession
    case invalidSessionLogin

    /// The value of `WWW-Authenticate` that invites a login.
    package static let challenge = "Basic realm=\"Couchbase Sync Gateway\""

    package var refusal: Refusal {
        switch self {
        case .loginRequired: Refusal(401, "Login required")
        case .invalidLogin, .invalidToken, .invalidSessionLogin: Refusal(401, "Invalid login")
        case .invalidSession: Refusal(401, "Session Invalid")
        }
    }

    /// Whether the answer has `challenge`.
    package var hasChallenge: Bool { self == .loginRequired || self == .invalidLogin }
}
