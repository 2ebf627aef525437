internal import Bytes
internal import Credentials
internal import Seams
package import SyncWire
package import Syncing

/// Logins of requests on the public port.
extension SyncDatabase {
    package enum Login: Sendable {
        /// `renewed` is a session whose cookie the answer sends again.
        case accepted(Requester, renewed: LoginSession?)
        case refused(LoginRefusal)
    }

    /// Decides a request by the login that it offers.
    package func login(_ offer: LoginOffer) async -> Login {
        let order = LoginOrder(dialect: dialect, acceptsTokens: false)
        switch order.firstStep(of: offer) {
        case .verifyToken: return .refused(.invalidToken)
        case .verifyPassword(let password):
            let key = PrincipalKey(.user, externalName: password.name)
            let user = await storedPrincipal(key)?.principal
            let isRight = await isRight(password, of: user, key)
            return await accepted(order.decide(password: user, isRight: isRight))
        case .checkSession(let id): return await login(session: id, order)
        case .guest: return await accepted(order.decide(guest: await guest()))
        }
    }

    private func accepted(
        _ decision: LoginOrder.Decision,
        renewed: LoginSession? = nil
    ) async -> Login {
        switch decision {
        case .refused(let refusal): return .refused(refusal)
        case .accepted(let key):
            guard let requester = await requester(key) else { return .refused(.invalidLogin) }
            return .accepted(requester, renewed: renewed)
        }
    }

    private func guest() async -> Principal {
        await storedPrincipal(.guest)?.principal ?? .defaultGuest
    }

    // MARK: Passwords

    /// Whether a password is the user's; takes some ten milliseconds on another lane if it was not
    /// verified before.
    func isRight(
        _ offered: BasicCredentials,
        of user: Principal?,
        _ key: PrincipalKey
    ) async -> Bool {
        let password = Array(offered.password.utf8)
        if user != nil, let plain = unhashed[key] { return areEqualInConstantTime(plain, password) }
        if let user, user.credentials.isEmpty {
            return password.isEmpty && configuration.principals.allowsEmptyPassword
                && user.passwordStamp != 0
        }
        let stored = user.flatMap { passwords.credentials(stored: $0.credentials) }
        let login = PasswordLogin(user: offered.name, password: password)
        while true {
            if let known = passwords.knownResult(of: login, stored: stored) { return known }
            await verify(login, stored)
        }
    }

    /// Verifies a password on the lane for passwords, or waits until it can be tried again.
    private func verify(_ login: PasswordLogin, _ stored: StoredCredentials?) async {
        let passwords = passwords
        await withUnsafeContinuation { waiter in
            passwords.checks.enter(login, isKnown: stored != nil) {
                _ = passwords.verify(login, stored: stored)
                waiter.resume()
            } retry: {
                waiter.resume()
            }
        }
    }

    // MARK: Sessions

    private func login(session id: String, _ order: LoginOrder) async -> Login {
        guard let (session, version) = await storedSession(id) else {
            return await accepted(order.decide(session: nil, guest: await guest()))
        }
        let key = PrincipalKey(.user, session.user)
        let owner = await storedPrincipal(key)?.principal
        var user: PrincipalKey?
        var renewed: LoginSession?
        switch session.check(owner, now: nowSeconds) {
        case .valid: user = key
        case .renewed(let session):
            user = key
            // Of two requests one renews the session.
            if await store(session, replacing: version) { renewed = session }
        case .validOnce:
            if await stores.sides.remove(Self.sessionKey(id), version: version) { user = key }
        case .ended: _ = await stores.sides.remove(Self.sessionKey(id), version: version)
        case .disabled: break
        }
        return await accepted(order.decide(session: user, guest: await guest()), renewed: renewed)
    }

    /// Creates a session of a user.
    ///
    /// - Throws: `Refusal` 400 for a life that is no positive number or a disabled user; 507 without room.
    package func createSession(
        of user: Principal,
        seconds: Int = Int(LoginSession.defaultSeconds),
        isOneTime: Bool = false
    ) async throws(Refusal) -> LoginSession {
        let session = try LoginSession(
            of: user,
            random: environment.entropy.bytes(LoginSession.randomByteCount),
            now: nowSeconds,
            seconds: seconds,
            isOneTime: isOneTime
        )
        _ = try await stores.sides.put(
            .plain(session.encoded, expires: session.expires),
            at: Self.sessionKey(session.id),
            replacing: 0
        )
        return session
    }

    /// Verifies a login of `POST _session`; nil if name or password are wrong, or the user is disabled.
    package func user(named name: String, password: String) async -> Principal? {
        let key = PrincipalKey(.user, externalName: name)
        let user = await storedPrincipal(key)?.principal
        let offered = BasicCredentials(name: name, password: password)
        guard await isRight(offered, of: user, key), let user, !user.isDisabled else { return nil }
        return user
    }

    /// A session and its user; nil if it is over or was never.
    package func session(_ id: String) async -> (session: LoginSession, owner: Principal)? {
        guard let (session, _) = await storedSession(id),
            let owner = await storedPrincipal(PrincipalKey(.user, session.user))?.principal,
            session.check(owner, now: nowSeconds) != .ended
        else { return nil }
        return (session, owner)
    }

    /// - Returns: Whether there was such a session; of `user` if that is not nil.
    @discardableResult
    package func deleteSession(_ id: String, of user: String? = nil) async -> Bool {
        guard let (session, version) = await storedSession(id),
            user == nil || session.user == user
        else { return false }
        return await stores.sides.remove(Self.sessionKey(id), version: version)
    }

    /// Ends all sessions of a user.
    package func deleteSessions(of user: String) async {
        for key in await stores.sides.keys(withPrefix: Self.sessionKey("")) {
            await deleteSession(String(key.dropFirst(Self.sessionKey("").count)), of: user)
        }
    }

    private static func sessionKey(_ id: String) -> String { "_sync:session:" + id }

    private func storedSession(_ id: String) async -> (LoginSession, UInt64)? {
        guard let side = await stores.sides.get(Self.sessionKey(id)),
            let session = try? LoginSession(decoding: side.bytes, skipsRest: true)
        else { return nil }
        return (session, side.version)
    }

    private func store(_ session: LoginSession, replacing version: UInt64) async -> Bool {
        let content = SideContent.plain(session.encoded, expires: session.expires)
        let stored = try? await stores.sides.put(
            content,
            at: Self.sessionKey(session.id),
            replacing: version
        )
        return stored != nil
    }
}
