import Foundation
import HTTPFrontend
import Testing

/// Fields of a request's head of which one counts, on every HTTP port and before every handler.
@Suite struct RequestFieldTests {
    /// A request line with the fields that it needs beside those of the test.
    private struct Target: Sendable {
        let line: String
        var fields: [String] = []
        var body = ""
    }

    /// A route of each way to a handler: the framework's with and without a body, and the prompt one.
    private static let adminTargets = [
        Target(line: "GET /pools"), Target(line: "HEAD /pools"), Target(line: "GET /absent"),
        Target(line: "POST /uilogin", fields: ["Content-Length: 1"], body: "a"),
    ]
    private static let viewTargets = [
        Target(line: "GET /"), Target(line: "GET /b/_design/d/_view/v?stale=ok"),
        Target(line: "HEAD /b/_design/d/_view/v"),
        Target(line: "PUT /b/_design/d", fields: ["Content-Length: 2"], body: "{}"),
    ]

    /// Each port with its targets.
    private static func ports(of views: ViewSite) -> [(UInt16, [Target])] {
        [(views.site.port, adminTargets), (views.port, viewTargets)]
    }

    /// The response, and whether the server closes the connection after it.
    private static func ask(
        _ port: UInt16,
        _ target: Target,
        version: String = "HTTP/1.1",
        _ fields: [String]
    ) async throws -> (RawClient.Response, isClosed: Bool) {
        let lines = ["\(target.line) \(version)"] + target.fields + fields
        let text = lines.joined(separator: "\r\n") + "\r\n\r\n" + target.body
        return try await apart {
            let client = try RawClient(port: port, timeoutSeconds: 3)
            try client.send(text)
            let response = try client.response(toHead: target.line.hasPrefix("HEAD"))
            let closes = response.headers["connection"] == "close"
            return (response, closes && client.isClosed(andEmpty: true))
        }
    }

    private static func value(of field: RequestField) -> String {
        switch field {
        case .authorization: "Basic " + Data("Administrator:password".utf8).base64EncodedString()
        case .contentType: "application/json"
        case .host: "127.0.0.1"
        case .origin: "http://127.0.0.1"
        case .secFetchSite: "same-origin"
        default: "a"
        }
    }

    /// One field of each name, so that the request is complete.
    private static let single = RequestField.allCases.map { "\($0.name): \(value(of: $0))" }

    @Test func repeatedSingleValuedFieldIsRefusedOnEveryPort() async throws {
        try await ViewSite.with { views in
            for (port, targets) in Self.ports(of: views) {
                for target in targets {
                    let (once, _) = try await Self.ask(port, target, Self.single)
                    #expect(!once.text.contains("more than one"), "\(target.line) \(once.text)")
                    // A login without a name, and a change with two preconditions.
                    let isWrongOtherwise =
                        target.line.contains("uilogin")
                        || once.text.contains("Only one of the two can be sent")
                    #expect(once.status != 400 || isWrongOtherwise, "\(target.line)")
                    for field in RequestField.allCases where !field.isList {
                        let second = "\(field.name.uppercased()): \(Self.value(of: field))"
                        let (reply, isClosed) = try await Self.ask(
                            port,
                            target,
                            Self.single + [second]
                        )
                        #expect(reply.status == 400 && isClosed, "\(target.line) \(field)")
                        guard !target.line.hasPrefix("HEAD") else { continue }
                        #expect(
                            reply.text.contains(" \(field.name),"),
                            "\(target.line) \(reply.text)"
                        )
                        #expect(reply.text.contains("Send one."), "\(target.line)")
                    }
                }
            }
        }
    }

    @Test func repeatedListFieldsAreJoined() async throws {
        try await ViewSite.with { views in
            // Only the second of the proxies' hosts is the page's, and the last one is neither.
            let fields = [
                "Host: inner", "Origin: http://page.example", "Content-Type: text/plain",
                "X-Forwarded-Host: outer", "X-Forwarded-Host: page.example",
                "X-Forwarded-Host: other",
            ]
            let target = Target(line: "POST /uilogin", fields: ["Content-Length: 1"], body: "a")
            let (reply, _) = try await Self.ask(views.site.port, target, fields)
            #expect(reply.status == 400 && !reply.text.contains("another site"), "\(reply.text)")
        }
    }

    @Test func missingHostIsRefusedInHTTP11Only() async throws {
        try await ViewSite.with { views in
            let others = Self.single.filter { !$0.hasPrefix("Host") }
            for (port, targets) in Self.ports(of: views) {
                for target in targets {
                    let (reply, isClosed) = try await Self.ask(port, target, others)
                    #expect(reply.status == 400 && isClosed, "\(target.line)")
                    #expect(
                        target.line.hasPrefix("HEAD") || reply.text.contains("no field Host"),
                        "\(target.line) \(reply.text)"
                    )
                    let old = try await Self.ask(port, target, version: "HTTP/1.0", others).0
                    #expect(!old.text.contains("no field Host"), "\(target.line)")
                }
            }
        }
    }

    /// The parser refuses what would make the length of a body ambiguous.
    @Test(
        arguments: [
            ["Content-Length: 1", "Content-Length: 1"], ["Content-Length: 1", "Content-Length: 2"],
            ["Content-Length: 1, 1"], ["Content-Length: 1", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: chunked", "Content-Length: 1"],
            ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding: identity"],
        ]
    )
    func ambiguousLengthOfABodyIsRefused(fields: [String]) async throws {
        try await ViewSite.with { views in
            for (port, line) in [
                (views.site.port, "POST /uilogin"), (views.port, "PUT /b/_design/d"),
            ] {
                let target = Target(line: line, body: "1\r\na\r\n0\r\n\r\n")
                let (reply, isClosed) = try await Self.ask(port, target, Self.single + fields)
                #expect(reply.status == 400 && isClosed, "\(line) \(fields) \(reply.text)")
                #expect(
                    reply.text.contains("not valid HTTP/1.1"),
                    "\(line) \(fields) \(reply.text)"
                )
            }
        }
    }

    /// The refusal follows the responses to earlier requests, and what follows it is not carried out.
    @Test func refusedHeadBetweenOthersEndsTheConnectionInOrder() async throws {
        try await ViewSite.with { views in
            let good =
                "GET /whoami HTTP/1.1\r\nHost: x\r\n\(Site.Login.administrator.headers[0])\r\n\r\n"
            let bad = "GET /pools HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"
            let port = views.site.port
            let (statuses, isClosed) = try await apart {
                let client = try RawClient(port: port, timeoutSeconds: 3)
                try client.send(good + good + bad + good)
                let statuses = try (0..<3).map { _ in try client.response().status }
                return (statuses, client.isClosed(andEmpty: true))
            }
            #expect(statuses == [200, 200, 400] && isClosed)
        }
    }
}
