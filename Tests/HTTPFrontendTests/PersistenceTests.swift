import Foundation
import Testing

/// Which connections stay open after a response (RFC 9112, 9.3).
@Suite struct PersistenceTests {
    private static let path = "/pools"

    /// The response to a raw request, and whether the server then closes the connection.
    private struct Outcome: Sendable {
        var response: RawClient.Response
        var version: String
        /// Closed within two seconds of the response.
        var isClosed: Bool
    }

    private func ask(
        _ site: Site,
        _ version: String,
        connection: String? = nil,
        path: String = Self.path
    ) async throws -> Outcome {
        let login = Site.Login.administrator.headers[0]
        var lines = ["GET \(path) \(version)", "Host: x", login]
        if let connection { lines.append("Connection: \(connection)") }
        let text = lines.joined(separator: "\r\n") + "\r\n\r\n"
        let port = site.port
        return try await apart {
            let client = try RawClient(port: port, timeoutSeconds: 2)
            try client.send(text)
            let response = try client.response()
            return Outcome(
                response: response,
                version: response.version,
                isClosed: client.isClosed()
            )
        }
    }

    @Test(
        arguments: [
            ("HTTP/1.0", nil, true), ("HTTP/1.0", "close", true), ("HTTP/1.0", "keep-alive", false),
            ("HTTP/1.0", "Keep-Alive", false), ("HTTP/1.0", "TE, keep-alive", false),
            ("HTTP/1.0", "keep-alive, close", true), ("HTTP/1.1", nil, false),
            ("HTTP/1.1", "keep-alive", false), ("HTTP/1.1", "close", true),
            ("HTTP/1.1", "Close", true), ("HTTP/1.1", "TE, close", true),
        ] as [(String, String?, Bool)]
    )
    func responseDeclaresWhetherTheConnectionStaysOpen(
        version: String,
        connection: String?,
        closes: Bool
    ) async throws {
        try await Site.with { site in
            let outcome = try await ask(site, version, connection: connection)
            #expect(outcome.response.status == 200)
            #expect(outcome.response.object["isAdminCreds"] as? Bool == true)
            #expect(outcome.version == version)
            #expect(outcome.isClosed == closes)
            let field = outcome.response.headers["connection"]
            #expect(field == (closes ? "close" : version == "HTTP/1.0" ? "keep-alive" : nil))
        }
    }

    @Test func connectionOfHTTP10ThatStaysOpenServesTheNextRequest() async throws {
        try await Site.with { site in
            let login = Site.Login.administrator.headers[0]
            let head = "\r\nHost: x\r\n\(login)\r\nConnection: "
            let text =
                "GET /pools HTTP/1.0\(head)keep-alive\r\n\r\n"
                + "GET /whoami HTTP/1.0\(head)close\r\n\r\n"
                // A request after the last one is not answered.
                + "GET /pools HTTP/1.0\(head)close\r\n\r\n"
            let port = site.port
            let (statuses, isClosed) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                let statuses = try (0..<2).map { _ in try client.response().status }
                return (statuses, client.isClosed(andEmpty: true))
            }
            #expect(statuses == [200, 200])
            #expect(isClosed)
        }
    }

    @Test(arguments: [nil, "keep-alive"])
    func streamToHTTP10HasNoChunksAndEndsWithTheConnection(connection: String?) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let login = Site.Login.administrator.headers[0]
            var lines = ["GET /pools/default/bs/b HTTP/1.0", "Host: x", login]
            if let connection { lines.append("Connection: \(connection)") }
            let text = lines.joined(separator: "\r\n") + "\r\n\r\n"
            let port = site.port
            let (head, first) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return (try client.head(), try client.bytes(through: "\n\n\n\n"))
            }
            #expect(head.status == 200)
            #expect(head.headers["transfer-encoding"] == nil)
            #expect(head.headers["content-length"] == nil)
            #expect(head.headers["connection"] == "close")
            let json = try JSONSerialization.jsonObject(with: Data(first))
            #expect((json as? [String: Any])?["name"] as? String == "b")
        }
    }

    @Test func clientOfHTTP10ThatShutsDownItsSideGetsTheResponse() async throws {
        try await Site.with { site in
            let login = Site.Login.administrator.headers[0]
            let text = "GET /pools/default HTTP/1.0\r\nHost: x\r\n\(login)\r\n\r\n"
            let port = site.port
            for _ in 0..<20 {
                let (response, isClosed) = try await apart {
                    let client = try RawClient(port: port)
                    try client.send(text)
                    client.endSending()
                    return (try client.response(), client.isClosed())
                }
                #expect(response.object["name"] as? String == "default")
                #expect(isClosed)
            }
        }
    }

    @Test func refusalAndErrorCloseAConnectionOfHTTP10() async throws {
        try await Site.with { site in
            for path in ["/nothing", "/pools/default?uuid=0"] {
                let outcome = try await ask(site, "HTTP/1.0", path: path)
                #expect(outcome.response.status == 404)
                #expect(outcome.isClosed)
            }
        }
    }

    @Test func http10RequestGetsNoInterimResponse() async throws {
        try await Site.with { site in
            let form = "clusterName=later"
            let login = Site.Login.administrator.headers[0]
            let text =
                "POST /pools/default HTTP/1.0\r\nHost: x\r\n\(login)\r\nExpect: 100-continue\r\n"
                + "Content-Length: \(form.utf8.count)\r\n\r\n\(form)"
            let port = site.port
            let status = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return try client.response().status
            }
            #expect(status == 200)
        }
    }
}
