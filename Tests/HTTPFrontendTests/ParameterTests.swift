import Foundation
import HTTPFrontend
import Testing

/// Unknown and repeated fields of requests whose default does more than a misspelt field asks for.
@Suite struct ParameterTests {
    private static let services = ViewServer.Services(
        designDocuments: MemoryDesignDocuments(),
        queries: ScriptedQueries(),
        trials: ScriptedTrials()
    )

    private static let routes = RouteCatalog.adminPort(services)

    /// A request line of a route: each segment with a name that exists on the site, where one can.
    private static func line(_ entry: RouteCatalog.Entry, query: String) -> String {
        let segments = entry.path.split(separator: "/").map { segment in
            switch segment {
            case "*", "<bucket>": "b"
            case "<key>": "k"
            case "<design>": "_design%2Fd"
            default: String(segment)
            }
        }
        return "\(entry.method) /\(segments.joined(separator: "/"))?\(query)"
    }

    @Test func unknownAndRepeatedFieldsAreRefusedByNameOnEveryRouteThatListsItsOwn() async throws {
        let strict = Self.routes.filter { $0.parameters != nil }
        #expect(strict.count > 20)
        try await Site.with(views: Self.services) { site in
            try await site.createBucket("b")
            for entry in strict {
                let names = entry.parameters ?? []
                let wrong = ["misspelt"] + names.map { $0 + "s" } + names.map { $0.uppercased() }
                for name in wrong where !names.contains(name) {
                    let reply = try await site.ask(Self.line(entry, query: "\(name)=1"))
                    let errors = reply.object["errors"] as? [String: String]
                    #expect(reply.status == 400, "\(entry.method) \(entry.path) \(name)")
                    let text = errors?[name] ?? ""
                    #expect(text.hasPrefix("Unsupported key"), "\(entry.path) \(reply.text)")
                    #expect(names.allSatisfy(text.contains), "\(entry.path) \(text)")
                }
                // A form, unless the body is parsed by the route.
                let type = "Content-Type: application/x-www-form-urlencoded"
                let form = try await site.ask(
                    Self.line(entry, query: ""),
                    headers: [type],
                    json: entry.method == "GET" ? "" : "misspelt=1&value=1"
                )
                #expect(
                    entry.method == "GET" || (form.status == 400 && form.text.contains("misspelt")),
                    "\(entry.method) \(entry.path) \(form.text)"
                )
            }
            #expect(try await site.ask("GET /pools/default/buckets/b").status == 200)
        }
    }

    /// Routes that change something and do not list their fields, with the reason.
    private static let others: Set = [
        // Old tools send many fields that mean nothing here.
        "POST /pools/default/buckets", "POST /pools/default/buckets/*",
        // The session only.
        "POST /uilogin", "POST /uilogout",
        // The body is text, and nothing is changed.
        "POST /pools/default/checkPermissions", "POST /logClientError",
        "POST /pools/default/buckets/*/controller/tryMap",
        // JSON, or a view query.
        "PUT /pools/default/serverGroups", "PUT /couchBase/<bucket>/_design/*",
        "PUT /couchBase/<bucket>/<design>", "DELETE /couchBase/<bucket>/_design/*",
        "DELETE /couchBase/<bucket>/<design>", "POST /couchBase/<bucket>/_design/*/_view/*",
        "POST /couchBase/<bucket>/<design>/_view/*",
        "POST /couchBase/<bucket>/_design/*/_spatial/*",
        "POST /couchBase/<bucket>/<design>/_spatial/*",
        // Changes nothing, whatever the fields are.
        "POST /settings/autoReprovision/resetCount", "DELETE /settings/rbac/groups/*",
    ]

    @Test func routesWithoutFieldListRefuseUnknownFieldsUnlessExempt() async throws {
        let changes = Self.routes.filter { $0.method != "GET" && $0.parameters == nil }
        let names = Set(changes.map { "\($0.method) \($0.path)" })
        #expect(Self.others.subtracting(names).sorted() == [], "not a route, or one with a list")
        try await Site.with(views: Self.services) { site in
            try await site.createBucket("b")
            let type = "Content-Type: application/x-www-form-urlencoded"
            for entry in changes where !Self.others.contains("\(entry.method) \(entry.path)") {
                let line = Self.line(entry, query: "")
                let reply = try await site.ask(line, headers: [type], json: "misspelt=1")
                #expect((400..<500).contains(reply.status), "\(line) \(reply.text)")
            }
        }
    }
}
