import Bytes
import Foundation
import HTTPFrontend
import Testing

/// What a client can make the view port keep in memory.
@Suite struct ViewBoundsTests {
    private static let path = "/b/_design/d/_view/v"

    @Test(arguments: [("PUT /b/_design/d", 1 << 20), ("POST /b/_design/d/_view/v", 4 << 20)])
    func bodyThatIsDeclaredTooLargeIsRefusedBeforeItIsRead(
        line: String,
        bytesMax: Int
    ) async throws {
        try await ViewSite.with { views in
            let head = views.request(
                line,
                headers: ["Content-Length: \(bytesMax + 1)", "Expect: 100-continue"]
            )
            let port = views.port
            let (reply, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(head)
                return (try client.response(), client.isClosed())
            }
            #expect(reply.status == 413)
            #expect(reply.object["error"] as? String == "too_large")
            #expect(reply.headers["connection"] == "close")
            #expect(isOver)
        }
    }

    @Test func chunkedBodyIsBoundedToo() async throws {
        try await ViewSite.with { views in
            let head = views.request("PUT /b/_design/d", headers: ["Transfer-Encoding: chunked"])
            let chunk = "10000\r\n" + String(repeating: " ", count: 0x10000) + "\r\n"
            let port = views.port
            let status = try await apart {
                let client = try RawClient(port: port)
                try client.send(head)
                // The node may close while the body is on its way.
                for _ in 0..<17 { try? client.send(chunk) }
                return try client.response().status
            }
            #expect(status == 413)
        }
    }

    /// On the view port and on the admin port, which has the same routes under a prefix.
    @Test(arguments: [false, true], [1, 201])
    func headThatIsTooLargeIsRefusedWithTheRemedy(
        onAdminPort: Bool,
        fieldCount: Int
    ) async throws {
        try await ViewSite.with { views in
            let path = "\(onAdminPort ? "/couchBase" : "")\(Self.path)"
            let keys = String(repeating: "1%2C", count: fieldCount == 1 ? 10_000 : 1)
            let fields = (0..<fieldCount).map { "X-Field-\($0): 1" }
            let text = views.request("GET \(path)?keys=%5B\(keys)1%5D", headers: fields)
            let port = onAdminPort ? views.site.server.port : views.port
            let (reply, isOver) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return (try client.response(), client.isClosed(andEmpty: true))
            }
            #expect(reply.status == 400)
            #expect(reply.headers["connection"] == "close")
            #expect(isOver)
            if onAdminPort {
                #expect(reply.headers["content-type"] == "text/plain")
                #expect(reply.text.contains("in the body of a POST"), "\(reply.text)")
            } else {
                #expect(reply.object["error"] as? String == "bad_request")
                let reason = try #require(reply.object["reason"] as? String)
                #expect(reason.contains("32768 bytes") && reason.contains("POST"), "\(reason)")
            }
            #expect(views.queries.requests.withLock { $0.isEmpty })
        }
    }

    @Test func refusalOfALargeHeadFollowsTheResponsesBeforeIt() async throws {
        try await ViewSite.with { views in
            let first = views.request("GET \(Self.path)")
            let second = views.request("GET /" + String(repeating: "a", count: 40_000))
            let port = views.port
            let replies = try await apart {
                let client = try RawClient(port: port)
                try client.send(first + second)
                return [try client.response(), try client.response()]
            }
            #expect(replies.map(\.status) == [200, 400])
            #expect(replies[0].text == "{\"rows\":[]}")
            #expect(replies[1].object["error"] as? String == "bad_request")
        }
    }

    @Test func largestBodiesAreAccepted() async throws {
        try await ViewSite.with { views in
            let document = DesignDocumentTests.body
            let padded = document + String(repeating: " ", count: (1 << 20) - document.utf8.count)
            #expect(try await views.ask("PUT /b/_design/d", json: padded).status == 201)
            let keys = Array(repeating: "\"0123456789\"", count: 300_000).joined(separator: ",")
            let query = try await views.ask("POST \(Self.path)", json: "{\"keys\":[\(keys)]}")
            #expect(query.status == 200)
            let parameter = views.queries.requests.withLock { $0.last?.parameters.first }
            #expect(parameter?.value == .json(Array("[\(keys)]".utf8)))
        }
    }

    /// Without backpressure the parts would be requested as fast as memory grows.
    ///
    /// How much the kernel buffers for a connection is the machine's setting, up to tens of megabytes,
    /// so the response is far larger than any such setting.
    @Test func slowReaderStopsTheRequestForParts() async throws {
        try await ViewSite.with { views in
            let part = [UInt8](repeating: UInt8(ascii: " "), count: 64 << 10)
            let partCount = 4_096
            let rows = ScriptedRows { number in
                number < partCount ? .bytes(part) : .end(isPartial: false)
            }
            views.queries.answer(.rows(rows))
            let (port, text) = (views.port, views.request("GET \(Self.path)"))
            let (unread, later, count) = try await apart {
                let client = try RawClient(port: port, receiveBytes: 64 << 10)
                try client.send(text)
                _ = try client.head()
                var before = -1
                // Until the kernel's buffers are full.
                for _ in 0..<50 where rows.requestedCount != before {
                    before = rows.requestedCount
                    Thread.sleep(forTimeInterval: 0.2)
                }
                let later = rows.requestedCount
                return (before, later, try Self.countRest(client))
            }
            #expect(unread == later)
            #expect(unread < partCount / 2)
            // The reader gets everything in the end.
            #expect(count == partCount * part.count)
            #expect(try await rows.isCancelledOnce())
        }
    }

    /// On the view port and on the admin port, which has the same routes under a prefix.
    @Test(arguments: [false, true])
    func clientThatReadsNothingIsClosed(onAdminPort: Bool) async throws {
        try await ViewSite.with(stallTimeout: .milliseconds(500)) { views in
            let part = [UInt8](repeating: UInt8(ascii: " "), count: 64 << 10)
            let rows = ScriptedRows { _ in .bytes(part) }
            views.queries.answer(.rows(rows))
            let port = onAdminPort ? views.site.server.port : views.port
            let text = views.request("GET \(onAdminPort ? "/couchBase" : "")\(Self.path)")
            let isCutOff = try await apart {
                let client = try RawClient(port: port, receiveBytes: 64 << 10)
                try client.send(text)
                for _ in 0..<100 where !rows.isCancelled { Thread.sleep(forTimeInterval: 0.1) }
                guard rows.isCancelled else { return false }
                // What was sent before is followed by the close, not by the end of the body.
                _ = try client.head()
                return (try? Self.countRest(client)) == nil
            }
            #expect(isCutOff)
            #expect(try await rows.isCancelledOnce())
        }
    }

    /// The end of the response is queued long before the client has read the rest.
    ///
    /// On the view port and on the admin port, which has no `stallTimeout`.
    @Test(arguments: [false, true])
    func lastResponseIsReadWholeAlsoSlowly(onAdminPort: Bool) async throws {
        try await ViewSite.with { views in
            let part = [UInt8](repeating: UInt8(ascii: " "), count: 64 << 10)
            let sent = ScriptedRows { number in
                number < 256 ? .bytes(part) : .end(isPartial: false)
            }
            views.queries.answer(.rows(sent))
            let path = "\(onAdminPort ? "/couchBase" : "")\(Self.path)"
            let text = views.request("GET \(path)", headers: ["Connection: close"])
            let port = onAdminPort ? views.site.server.port : views.port
            let count = try await apart {
                let client = try RawClient(port: port, receiveBytes: 64 << 10)
                try client.send(text)
                _ = try client.head()
                var count = 0
                while sent.requestedCount < 257 {
                    // A client as fast as the server reads the end here.
                    guard let chunk = try client.chunk() else { return count }
                    count += chunk.count
                }
                // Longer than a connection stays open after its last response was read.
                Thread.sleep(forTimeInterval: 3)
                return count + (try Self.countRest(client))
            }
            #expect(count == 256 * part.count)
        }
    }

    /// The bytes of the rest of a chunked body.
    private static func countRest(_ client: RawClient) throws -> Int {
        var count = 0
        while let chunk = try client.chunk() { count += chunk.count }
        return count
    }
}
