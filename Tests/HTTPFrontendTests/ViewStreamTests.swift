import Foundation
import HTTPFrontend
import Testing

/// The responses of view queries: chunks, their end, and their failures.
@Suite struct ViewStreamTests {
    private static let path = "/b/_design/d/_view/v"
    private static let texts = ["{\"total_rows\":2,\"rows\":[\r\n", "1,\r\n2", "\r\n]\r\n}"]

    @Test func partsAreSentAsChunksAndTheConnectionStaysOpen() async throws {
        try await ViewSite.with { views in
            let rows = ScriptedRows(Self.texts)
            views.queries.answer(.rows(rows))
            let port = views.port
            let text = views.request("GET \(Self.path)")
            let next = views.request("GET /")
            let (head, chunks, trailer, status) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                let head = try client.head()
                var chunks: [String] = []
                while let chunk = try client.chunk() {
                    chunks.append(String(decoding: chunk, as: UTF8.self))
                }
                try client.send(next)
                return (head, chunks, client.trailer, try client.response().status)
            }
            #expect(head.statusLine == "HTTP/1.1 200 OK")
            #expect(head.headers["transfer-encoding"] == "chunked")
            #expect(head.headers["content-type"] == "application/json")
            #expect(head.headers["cache-control"] == "must-revalidate")
            #expect(head.headers["connection"] == nil)
            #expect(chunks == Self.texts)
            #expect(trailer.isEmpty)
            #expect(status == 200)
            #expect(try await rows.isCancelledOnce())
        }
    }

    @Test func wholeResponseHasALengthAndTheConnectionStaysOpen() async throws {
        try await ViewSite.with { views in
            let whole = Self.texts.joined()
            views.queries.answer(.whole(Array(whole.utf8)))
            let port = views.port
            let texts = [views.request("GET \(Self.path)"), views.request("GET \(Self.path)")]
            let (head, bodies) = try await apart {
                let client = try RawClient(port: port)
                try client.send(texts[0])
                let head = try client.head()
                let first = try client.bytes(through: "]\r\n}")
                try client.send(texts[1])
                return (head, [first, try client.response().body])
            }
            #expect(head.statusLine == "HTTP/1.1 200 OK")
            #expect(head.headers["transfer-encoding"] == nil)
            #expect(head.headers["content-length"] == "\(whole.utf8.count)")
            #expect(head.headers["content-type"] == "application/json")
            #expect(head.headers["cache-control"] == "must-revalidate")
            #expect(String(decoding: bodies[0], as: UTF8.self) + "]\r\n}" == whole)
            #expect(String(decoding: bodies[1], as: UTF8.self) == whole)
        }
    }

    @Test func partialResponseHasTheTrailer() async throws {
        try await ViewSite.with { views in
            views.queries.answer(.rows(ScriptedRows(Self.texts, isPartial: true)))
            let port = views.port
            let text = views.request("GET \(Self.path)")
            let trailer = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                _ = try client.response()
                return client.trailer
            }
            #expect(trailer == ["X-View-Partial: 1"])
        }
    }

    @Test func largePartIsSentInPieces() async throws {
        try await ViewSite.with { views in
            let value = String(repeating: "x", count: 1_000_000)
            views.queries.answer(.rows(ScriptedRows([value, "", "end"])))
            let reply = try await views.ask("GET \(Self.path)")
            #expect(reply.text == value + "end")
        }
    }

    @Test(arguments: [nil, "keep-alive"])
    func responseToHTTP10HasNoChunksAndEndsWithTheConnection(connection: String?) async throws {
        try await ViewSite.with { views in
            views.queries.answer(.rows(ScriptedRows(Self.texts, isPartial: true)))
            let headers = connection.map { ["Connection: \($0)"] } ?? []
            let text = views.request("GET \(Self.path)", version: "HTTP/1.0", headers: headers)
            let port = views.port
            let whole = Self.texts.joined()
            let (head, body, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                let head = try client.head()
                let body = try client.bytes(through: "]\r\n}")
                return (head, body, client.isClosed(andEmpty: true))
            }
            #expect(head.statusLine == "HTTP/1.0 200 OK")
            #expect(head.headers["transfer-encoding"] == nil)
            #expect(head.headers["connection"] == "close")
            #expect(String(decoding: body, as: UTF8.self) + "]\r\n}" == whole)
            #expect(isOver)
        }
    }

    @Test func connectionOfHTTP10StaysOpenAfterARefusalIfTheClientAsks() async throws {
        try await ViewSite.with { views in
            let text = views.request(
                "GET /b/_design/absent",
                version: "HTTP/1.0",
                headers: ["Connection: keep-alive"]
            )
            let port = views.port
            let lines = try await apart {
                let client = try RawClient(port: port)
                try client.send(text + text)
                return try (0..<2).map { _ in try client.response().statusLine }
            }
            #expect(lines == Array(repeating: "HTTP/1.0 404 Object Not Found", count: 2))
        }
    }

    @Test func headOfAQuerySendsNoBodyAndReleasesTheRows() async throws {
        try await ViewSite.with { views in
            let rows = ScriptedRows(Self.texts)
            views.queries.answer(.rows(rows))
            let reply = try await views.ask("HEAD \(Self.path)")
            #expect(reply.statusLine == "HTTP/1.1 200 OK")
            #expect(try await rows.isCancelledOnce())
            #expect(rows.requestedCount == 0)
        }
    }

    @Test func failureAfterTheFirstByteTruncatesTheBody() async throws {
        try await ViewSite.with { views in
            let rows = ScriptedRows { number in
                guard number == 0 else { throw ScriptedRows.Failure() }
                return .bytes(Array("{\"rows\":[".utf8))
            }
            views.queries.answer(.rows(rows))
            let text = views.request("GET \(Self.path)")
            let port = views.port
            let (chunk, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                _ = try client.head()
                let chunk = try client.chunk()
                // Not even the last chunk's zero comes.
                return (chunk, client.isClosed(andEmpty: true))
            }
            #expect(chunk == Array("{\"rows\":[".utf8))
            #expect(isOver)
            #expect(try await rows.isCancelledOnce())
            #expect(try await views.ask("GET /").status == 200)
        }
    }

    @Test func clientThatDisconnectsEndsItsQuery() async throws {
        try await ViewSite.with { views in
            let part = [UInt8](repeating: UInt8(ascii: " "), count: 32 << 10)
            let rows = ScriptedRows { _ in .bytes(part) }
            views.queries.answer(.rows(rows))
            let text = views.request("GET \(Self.path)")
            let port = views.port
            try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                _ = try client.head()
                _ = try client.chunk()
            }
            #expect(try await rows.isCancelledOnce())
        }
    }

    @Test func serverStopTruncatesAndCancelsPendingQuery() async throws {
        try await ViewSite.with { views in
            let rows = ScriptedRows { number in
                if number == 0 { return .bytes(Array("{".utf8)) }
                try await Task.sleep(for: .seconds(60))
                return .end(isPartial: false)
            }
            views.queries.answer(.rows(rows))
            let client = try RawClient(port: views.port)
            try client.send(views.request("GET \(Self.path)"))
            _ = try client.head()
            _ = try client.chunk()
            let clock = ContinuousClock()
            let began = clock.now
            await views.server.stop()
            #expect(clock.now - began < .seconds(3))
            #expect(client.isClosed(andEmpty: true))
            #expect(try await rows.isCancelledOnce())
        }
    }
}
