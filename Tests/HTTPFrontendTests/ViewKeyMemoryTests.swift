import Foundation
import HTTPFrontend
import Indexing
import Server
import Testing
import ViewService

/// The memory of the keys of clients' queries, on a whole node.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ViewKeyMemoryTests {
    private static let design = """
        {"views": {"v": {"map": "function (doc) { emit(doc.n, doc.text); }"}}}
        """

    /// Four rows of 10 000 bytes, of which some thousand exceed what sockets buffer; and a short one.
    private static let documents = (0..<5).map { number in
        let text = String(repeating: "x", count: number == 4 ? 1 : 10_000)
        return (id: "doc\(number)", json: "{\"n\":\(number),\"text\":\"\(text)\"}")
    }

    /// Each of four keys a thousand times: some 900 KiB of memory, and 40 MB of rows.
    private static let keys =
        "[" + Array(repeating: "0,1,2,3", count: 1_000).joined(separator: ",") + "]"

    private func request(_ keys: String) -> ViewRequest {
        let parameters = [
            ViewParameter(name: "stale", value: .text("false")),
            ViewParameter(name: "keys", value: .json(Array(keys.utf8))),
        ]
        return ViewRequest(bucket: "b", designDocument: "d", view: "v", parameters: parameters)
    }

    private func waitUntilFree(_ memory: KeyMemory) async throws {
        // Without an end, the time limit of the tests ends it.
        while memory.usedBytes > 0 { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test func queryBeyondTheMemoryOfKeysIsRefusedUntilAnotherEnds() async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            #expect(try await node.put("d", Self.design).status == 201)
            let memory = KeyMemory(KeyBudget(bytesMax: 1 << 20))
            let queries = IndexQueries(
                node.node.administration,
                IndexQueries.Node(
                    indexes: { node.node.views?.indexes },
                    dependencies: {
                        var dependencies = node.node.views?.dependencies
                        dependencies?.keys = memory
                        return dependencies
                    },
                    obstacle: { nil }
                )
            )
            do {
                guard case .rows(let rows) = await queries.begin(request(Self.keys)) else {
                    Issue.record("the first query was not answered in parts")
                    return
                }
                #expect(memory.usedBytes > 512 << 10)
                guard case .refused(let refusal) = await queries.begin(request(Self.keys)) else {
                    Issue.record("the second query was not refused")
                    return
                }
                #expect(refusal.status == 503 && refusal.error == "service_unavailable")
                #expect(refusal.retryAfterSeconds == 1)
                #expect(refusal.reason.contains("several requests"), "\(refusal.reason)")
                // Queries with few keys are answered meanwhile, also entirely.
                guard case .whole(let text) = await queries.begin(request("[4]")) else {
                    Issue.record("the query of one key was not answered at once")
                    return
                }
                #expect(String(decoding: text, as: UTF8.self).contains("\"doc4\""))
                rows.cancel()
            }
            try await waitUntilFree(memory)
            let again = await queries.begin(request(Self.keys))
            guard case .rows(let rows) = again else {
                Issue.record("the query after the end of the first was not answered: \(again)")
                return
            }
            rows.cancel()
        }
    }

    @Test(arguments: [("1", 200), ("-1", 400)])
    func queryThatEndsAtOnceReleasesItsMemory(limit: String, status: Int) async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            #expect(try await node.put("d", Self.design).status == 201)
            let memory = try #require(node.node.views?.dependencies?.keys)
            let body = "{\"keys\":\(Self.keys)}"
            let reply = try await node.query("stale=false&limit=\(limit)", keys: body)
            #expect(reply.status == status, "\(reply.text)")
            try await waitUntilFree(memory)
        }
    }

    @Test func clientThatClosesItsConnectionReleasesTheMemoryOfItsKeys() async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            #expect(try await node.put("d", Self.design).status == 201)
            let memory = try #require(node.node.views?.dependencies?.keys)
            let body = "{\"keys\":\(Self.keys)}"
            let port = node.views.port
            let lines =
                ["POST /b/_design/d/_view/v?stale=false HTTP/1.1", "Host: 127.0.0.1:\(port)"]
                + Site.Login.administrator.headers
                + ["Content-Type: application/json", "Content-Length: \(body.utf8.count)"]
            let text = lines.joined(separator: "\r\n") + "\r\n\r\n" + body
            let used = try await apart {
                let client = try RawClient(port: port, timeoutSeconds: 60, receiveBytes: 64 << 10)
                try client.send(text)
                _ = try client.head()
                let used = memory.usedBytes
                withExtendedLifetime(client) {}
                return used
            }
            #expect(used > 512 << 10)
            try await waitUntilFree(memory)
        }
    }
}
