internal import JSON
internal import Seams
internal import SyncService
internal import SyncWire
internal import Syncing

/// Sessions: logins of web pages by cookie, and those that administrators make for users.
extension Gateway {
    package var sessionRoutes: [GatewayRoute] {
        [
            GatewayRoute([.get], "/{db}/_session") { [self] exchange in
                serve(exchange, .anyone) { call async throws(Refusal) in
                    call.answerSession(of: call.requester)
                }
            },
            GatewayRoute([.post], "/{db}/_session", on: [.publicPort]) { [self] exchange in
                serve(exchange, .anyone) { [crossOrigin, isSecure] call async throws(Refusal) in
                    try await call.logIn(crossOrigin, isSecure: isSecure)
                }
            },
            GatewayRoute([.delete], "/{db}/_session", on: [.publicPort]) { [self] exchange in
                serve(exchange) { [crossOrigin] call async throws(Refusal) in
                    try await call.logOut(crossOrigin)
                }
            },
            administrationRoute([.post], "_session", RouteCall.createSession),
            administrationRoute([.get], "_session/{id}") { call async throws(Refusal) in
                guard let found = await call.database.session(call.parameter("id")) else {
                    throw .missing
                }
                guard let requester = await call.database.requester(found.owner.key) else {
                    throw .missing
                }
                call.answerSession(of: requester)
            },
            administrationRoute([.delete], "_session/{id}") { call async throws(Refusal) in
                guard await call.database.deleteSession(call.parameter("id")) else {
                    throw .missing
                }
                call.exchange.answer(200)
            },
            administrationRoute([.delete], "_user/{name}/_session") {
                call async throws(Refusal) in
                await call.database.deleteSessions(of: call.parameter("name"))
                call.exchange.answer(200)
            },
            administrationRoute([.delete], "_user/{name}/_session/{id}") {
                call async throws(Refusal) in
                let user = call.parameter("name")
                guard await call.database.deleteSession(call.parameter("id"), of: user) else {
                    throw .missing
                }
                call.exchange.answer(200)
            },
        ]
    }
}

extension RouteCall {
    fileprivate func answerSession(of requester: Requester, oneTimeID: String? = nil) {
        answer { writer in
            Principal.writeSession(
                of: requester.user,
                access: requester.access,
                oneTimeID: oneTimeID,
                to: &writer
            )
        }
    }

    /// - Throws: `Refusal` 400 for a page of an origin that may not log in.
    private func validateOrigin(_ policy: CrossOriginPolicy?) throws(Refusal) {
        let origins = request.headers("Origin")
        if let refusal = CrossOriginPolicy.refusal(ofLoginFrom: origins, policy) { throw refusal }
    }

    /// Makes a session of the user whose name and password the body has, else of the request's user.
    ///
    /// - Throws: `Refusal` 400, 401, 413 or 415.
    fileprivate func logIn(_ policy: CrossOriginPolicy?, isSecure: Bool) async throws(Refusal) {
        try validateOrigin(policy)
        var named: Principal?
        var mistake: Refusal?
        do throws(Refusal) {
            named = try await namedUser()
        } catch {
            mistake = error
        }
        let order = LoginOrder(dialect: database.dialect, acceptsTokens: false)
        let own = requester.user
        let decision = order.decideNewSession(named: named, requester: own?.key ?? .guest)
        if case .refused(let refusal) = decision { throw mistake ?? refusal.refusal }
        guard let user = named ?? own, let owner = await database.requester(user.key) else {
            throw LoginRefusal.invalidSessionLogin.refusal
        }
        let isOneTime = database.dialect == .third && query.bool("one_time")
        let session = try await database.createSession(
            of: user,
            seconds: Int(isOneTime ? LoginSession.oneTimeSeconds : LoginSession.defaultSeconds),
            isOneTime: isOneTime
        )
        RouteCall.setCookie(session, exchange, database: database, isSecure: isSecure)
        answerSession(of: owner, oneTimeID: isOneTime ? session.id : nil)
    }

    /// The user of the body; nil if name or password are wrong.
    ///
    /// - Throws: `Refusal` 400, 413 or 415.
    private func namedUser() async throws(Refusal) -> Principal? {
        let body = try await json()
        guard body.members != nil || body.isNull, let name = body.text("name"),
            let password = body.text("password")
        else { throw Refusal(RequestRefusal.badJSON) }
        return await database.user(named: name, password: password)
    }

    /// Ends the session of the request's cookie.
    ///
    /// - Throws: `Refusal` 400, or 404 without a cookie.
    fileprivate func logOut(_ policy: CrossOriginPolicy?) async throws(Refusal) {
        // In the dialect of 1.4, no page of another origin logs out, whatever the configuration allows.
        let policy = database.dialect == .first ? nil : policy
        try validateOrigin(policy)
        guard let id = RouteCall.sessionID(of: request, database) else {
            throw Refusal(404, "no session")
        }
        await database.deleteSession(id)
        let cookie = SessionCookie.deletion(
            of: database.configuration.session.cookieName,
            now: Int(environment.time.wallNanoseconds() / 1_000_000_000)
        )
        exchange.headers.add("Set-Cookie", cookie)
        exchange.answer(200)
    }

    /// Makes a session for a user, without its password.
    ///
    /// - Throws: `Refusal` 400, 404, 413 or 415.
    fileprivate func createSession() async throws(Refusal) {
        let body = try await json()
        var seconds: Int? = Int(LoginSession.defaultSeconds)
        if let life = body["ttl"], !life.isNull { seconds = life.int }
        guard body.members != nil, let name = body.text("name"), let seconds else {
            throw Refusal(RequestRefusal.badJSON)
        }
        let key = PrincipalKey(.user, externalName: name)
        guard key != .guest, PrincipalKey.isValid(name: key.name) else {
            throw Refusal(400, "Invalid or missing user name")
        }
        guard let user = await database.requester(key)?.user else {
            throw Refusal(404, "No such user \"\(name)\"")
        }
        let session = try await database.createSession(of: user, seconds: seconds)
        answerObject { writer in
            writer.member("session_id", session.id)
            let expires = session.expires * 1_000_000_000
            writer.member("expires", CalendarTime.text(unixNanoseconds: expires))
            writer.member("cookie_name", database.configuration.session.cookieName)
        }
    }
}

extension JSONValue {
    /// A member that is a text; empty if it is absent or null, nil for anything else.
    fileprivate func text(_ name: String) -> String? {
        guard let member = self[name], !member.isNull else { return "" }
        return member.string
    }
}
