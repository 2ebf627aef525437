import SyncFrontend
import SyncWire
import Syncing
import Testing

/// Which route a path has, and what the router answers itself.
@Suite struct RouterTests {
    /// Routes of all forms; each answers with its pattern and its parameters.
    private static func routes() -> [GatewayRoute] {
        let everywhere: Set<PortKind> = [.publicPort, .administration]
        let table: [(Set<RouteMethod>, String, Set<PortKind>, [String])] = [
            ([.get], "/", everywhere, []),
            ([.get], "/_all_dbs", [.administration], []),
            ([.get], "/metrics", [.metrics], []),
            ([.get, .put, .delete], "/{db}/", everywhere, ["db"]),
            ([.post], "/{db}/", everywhere, ["db"]),
            ([.get, .post], "/{db}/_changes", everywhere, ["db"]),
            ([.get, .put, .delete], "/{db}/_local/{id}", everywhere, ["db", "id"]),
            ([.get, .put], "/{db}/_design/{ddoc}", everywhere, ["db", "ddoc"]),
            ([.get], "/{db}/_design/{ddoc}/_view/{view}", everywhere, ["db", "ddoc", "view"]),
            ([.get, .post], "/{db}/_user/", [.administration], ["db"]),
            ([.put, .patch], "/{db}/_user/{name}", [.administration], ["db", "name"]),
            ([.get, .put, .delete], "/{db}/{doc}", everywhere, ["db", "doc"]),
            (
                [.get, .put], "/{db}/{doc}/{attachment...}", everywhere,
                ["db", "doc", "attachment"]
            ),
        ]
        return table.map { methods, pattern, ports, names in
            GatewayRoute(methods, pattern, on: ports) { exchange in
                let values = names.map { exchange.parameters[$0] }
                exchange.answer(text: ([pattern] + values).joined(separator: " "))
            }
        }
    }

    @Test(
        arguments: [
            ("/", "/"), ("/demo", "/{db}/ demo"), ("/demo/", "/{db}/ demo"),
            ("/demo/doc", "/{db}/{doc} demo doc"), ("/demo/doc/", "/{db}/{doc} demo doc"),
            ("/demo/a%2Fb", "/{db}/{doc} demo a/b"), ("/demo/a+b", "/{db}/{doc} demo a+b"),
            ("/demo/%C3%A9", "/{db}/{doc} demo é"), ("/demo/doc?rev=1", "/{db}/{doc} demo doc"),
            ("/demo/doc/a.txt", "/{db}/{doc}/{attachment...} demo doc a.txt"),
            ("/demo/doc/a/b%20c", "/{db}/{doc}/{attachment...} demo doc a/b c"),
            ("/demo/_changes", "/{db}/_changes demo"), ("/demo/_changes/", "/{db}/_changes demo"),
            ("/demo/%5Fchanges", "/{db}/_changes demo"),
            ("/demo/_local/_x", "/{db}/_local/{id} demo _x"),
            ("/demo/_local%2Fx%2Fy", "/{db}/_local/{id} demo x/y"),
            ("/demo/_design/d", "/{db}/_design/{ddoc} demo d"),
            ("/demo/_design%2Fd", "/{db}/_design/{ddoc} demo d"),
            ("/demo/_design/d/_view/v", "/{db}/_design/{ddoc}/_view/{view} demo d v"),
            ("/demo/_nosuch", nil), ("/demo/_t9", nil), ("/demo/%5Ft9", nil), ("/demo/_local", nil),
            ("/demo/_local/", nil), ("/demo/_local/a/b", nil), ("/demo/_user/", nil),
            ("/_all_dbs", nil), ("/_nosuch/x", nil), ("/metrics", "/{db}/ metrics"), ("//", nil),
            ("/demo/_design/d/_view", nil),
        ] as [(String, String?)]
    )
    func pathOfThePublicPortHasItsRoute(_ path: String, _ expected: String?) throws {
        let site = try Site { Self.routes() }
        let answer = try site.answer(to: request("GET \(path)"))
        if let expected {
            #expect(answer.text == expected)
        } else {
            #expect(answer.status == 404)
            #expect(answer.text == #"{"error":"not_found","reason":"unknown URL"}"#)
        }
    }

    @Test(arguments: [
        ("/demo/./doc", "/demo/doc"), ("/demo/a/../doc?rev=1", "/demo/doc"), ("/demo/..", "/"),
        ("/demo//", "/demo/"), ("/demo/%2E%2E/x%20y/", "/x%20y/"),
    ]) func pathThatIsNotCleanIsRedirected(_ path: String, _ expected: String) throws {
        let site = try Site { Self.routes() }
        let answer = try site.answer(to: request("PUT \(path)"))
        #expect(answer.status == 301 && answer.body.isEmpty)
        #expect(answer.headers["location"] == expected)
    }

    @Test func optionsOfTheServerNeedNoPath() throws {
        let site = try Site { Self.routes() }
        #expect(try site.answer(to: request("OPTIONS *")).status == 200)
    }

    @Test(arguments: [
        (PortKind.administration, "/_all_dbs", 200), (.administration, "/demo/_user/", 200),
        (.administration, "/demo/_user", 200), (.administration, "/metrics", 200),
        (.metrics, "/metrics", 200), (.metrics, "/", 404), (.metrics, "/demo/doc", 404),
    ])
    func portHasItsOwnRoutes(_ kind: PortKind, _ path: String, _ status: Int) throws {
        let site = try Site(kind) { Self.routes() }
        #expect(try site.answer(to: request("GET \(path)")).status == status)
    }

    @Test(arguments: [
        ("POST", "/demo/doc", "GET, HEAD, PUT, DELETE"), ("PATCH", "/", "GET, HEAD"),
        ("PURGE", "/demo/", "GET, HEAD, POST, PUT, DELETE"),
        ("DELETE", "/demo/_changes", "GET, HEAD, POST"),
    ])
    func otherMethodOfAKnownPathIsRefused(_ method: String, _ path: String, _ allow: String) throws
    {
        let site = try Site { Self.routes() }
        let answer = try site.answer(to: request("\(method) \(path)"))
        #expect(answer.status == 405)
        #expect(answer.headers["allow"] == allow)
        #expect(answer.text == #"{"error":"Method Not Allowed","reason":""}"#)
        let options = try site.answer(to: request("OPTIONS \(path)"))
        #expect(options.status == 204)
        #expect(options.headers["allow"] == allow)
        #expect(options.headers["content-length"] == nil)
    }

    @Test func optionsOfAnUnknownPathAreNotFound() throws {
        let site = try Site { Self.routes() }
        #expect(try site.answer(to: request("OPTIONS /demo/_nosuch")).status == 404)
    }

    @Test func targetThatCannotBeDecodedIsRefused() throws {
        let site = try Site { Self.routes() }
        #expect(try site.answer(to: request("GET /demo/%zz")).status == 400)
        #expect(try site.answer(to: request("GET /demo/%ff")).status == 400)
        let many = (0..<300).map { "p\($0)=1" }.joined(separator: "&")
        #expect(try site.answer(to: request("GET /demo/?\(many)")).status == 413)
    }

    private static let policy = CrossOriginPolicy(
        origins: ["http://example.com"],
        loginOrigins: [],
        headers: ["Content-Type"],
        maxAgeSeconds: 1_728_000
    )

    @Test func allowedOriginIsNamedInEveryAnswer() throws {
        let site = try Site(crossOrigin: Self.policy) { Self.routes() }
        for line in ["GET /demo/", "GET /demo/_nosuch", "POST /demo/doc", "OPTIONS /demo/doc"] {
            let answer = try site.answer(to: request(line, "Origin: http://example.com"))
            #expect(answer.headers["access-control-allow-origin"] == "http://example.com")
            #expect(answer.headers["access-control-allow-credentials"] == "true")
            #expect(answer.headers["access-control-allow-headers"] == "Content-Type")
            let isAboutMethods = line.hasPrefix("OPTIONS") || line.hasPrefix("POST")
            #expect(
                answer.headers["access-control-max-age"] == (isAboutMethods ? "1728000" : nil)
            )
            #expect(
                answer.headers["access-control-allow-methods"]
                    == (isAboutMethods ? "GET, HEAD, PUT, DELETE" : nil)
            )
        }
        let foreign = try site.answer(to: request("GET /demo/", "Origin: http://other.com"))
        #expect(foreign.headers["access-control-allow-origin"] == "")
        let without = try site.answer(to: request("GET /demo/"))
        #expect(without.headers["access-control-allow-origin"] == nil)
    }

    @Test func administrationPortHasNoOriginHeaders() throws {
        let site = try Site(
            .administration,
            crossOrigin: Self.policy,
            administration: { Self.trusting },
            routes: { Self.routes() }
        )
        let text = request("GET /demo/", "Origin: http://example.com", "Authorization: admin")
        let answer = try site.answer(to: text)
        #expect(answer.status == 200)
        #expect(answer.headers["access-control-allow-origin"] == nil)
    }

    private static var trusting: AdministrationGuard {
        var guardian = AdministrationGuard()
        guardian.hostNames = ["gateway.example"]
        guardian.hasLogin = { $0.header("Authorization") == "admin" }
        return guardian
    }

    @Test(
        arguments: [
            ("127.0.0.1:4985", nil, 200), ("127.0.0.1", nil, 200), ("[::1]:4985", nil, 200),
            ("localhost:4985", nil, 200), ("LOCALHOST", nil, 200),
            ("gateway.example:4985", nil, 200),
            ("evil.example", nil, 403), ("127.0.0.1.evil.example", nil, 403),
            ("localhost:4985@evil.example", nil, 403), ("", nil, 403),
            ("127.0.0.1", "Origin: http://127.0.0.1:4985", 403),
            ("evil.example", "Authorization: admin", 200),
        ] as [(String, String?, Int)]
    )
    func pageCannotUseTheAdministrationPort(_ host: String, _ field: String?, _ status: Int) throws
    {
        let site = try Site(
            .administration,
            administration: { Self.trusting },
            routes: { Self.routes() }
        )
        let fields = field.map { "\($0)\r\n" } ?? ""
        let text = "GET /demo/ HTTP/1.1\r\nHost: \(host)\r\n\(fields)\r\n"
        #expect(try site.answer(to: text).status == status)
    }

    @Test func publicPortAcceptsEveryHost() throws {
        let site = try Site { Self.routes() }
        let text = "GET /demo/ HTTP/1.1\r\nHost: any.example\r\nOrigin: http://x\r\n\r\n"
        #expect(try site.answer(to: text).status == 200)
    }
}
