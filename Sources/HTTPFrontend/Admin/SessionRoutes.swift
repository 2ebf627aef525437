internal import ClusterService
internal import Orchestration

/// Login and logout of the console.
extension AdminRoutes {
    /// Bytes of a session's token: enough that it cannot be guessed.
    private static let tokenBytes = 16
    private static let consolePermission = "cluster.ui!read"

    static let session: [Route] = [
        Route(.post, "/uilogin", access: .open, handler: logIn),
        Route(.post, "/uilogout", access: .open) { call in
            if let token = call.request.cookie(named: Authentication.cookieName(call.request)) {
                call.authentication.sessions.end(token)
            }
            return withCookie("", call, attributes: "; Max-Age=0")
        },
    ]

    /// Logs in a user of the console: the administrator, or a local user with its permission.
    @Sendable private static func logIn(_ call: Call) async -> Reply {
        if let refusal = refusalOfConsole(call) { return refusal }
        let form = call.request.form
        guard let user = form["user"], let password = form["password"],
            let identity = await call.authentication.identity(
                ofUser: user,
                password,
                call.request
            )
        else {
            return .json(["errors": ["_": "Wrong user name or password."]], status: 400)
        }
        guard Rights(of: identity, in: call.state).allows(consolePermission) else {
            return .forbidden(consolePermission)
        }
        let token = call.service.cluster.token(bytes: tokenBytes)
        call.authentication.sessions.begin(
            token,
            of: identity,
            in: call.state,
            nowMilliseconds: call.service.cluster.wallMilliseconds
        )
        return withCookie(token, call)
    }

    /// A reply that sets the session's cookie; scripts cannot read the cookie, and pages of other
    /// sites cannot make a browser send it.
    private static func withCookie(
        _ token: String,
        _ call: Call,
        attributes: String = ""
    ) -> Reply {
        let name = Authentication.cookieName(call.request)
        let secure = call.request.isSecured ? "; Secure" : ""
        let cookie = "\(name)=\(token); HttpOnly; SameSite=Strict; Path=/\(secure)\(attributes)"
        return Reply.done.header("Set-Cookie", cookie)
    }
}
