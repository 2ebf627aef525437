import Bytes
import Foundation
import HTTPFrontend
import Testing

/// Clients that disconnect before the first byte of the response to their view query.
@Suite(.timeLimit(.minutes(2))) struct ViewDisconnectTests {
    private static let path = "/b/_design/d/_view/v"

    /// Queries that wait until the test ends their wait, or until they are cancelled.
    private final class Gate: Sendable {
        private let isOpen = Guarded(false)
        private let cancelled = Guarded(0)

        init(_ queries: ScriptedQueries) {
            queries.wait.withLock { $0 = { await self.wait() } }
        }

        var cancelledCount: Int { cancelled.withLock { $0 } }

        func open() { isOpen.withLock { $0 = true } }

        private func wait() async {
            while !isOpen.withLock({ $0 }) {
                do {
                    try await Task.sleep(for: .milliseconds(5))
                } catch {
                    return cancelled.withLock { $0 += 1 }
                }
            }
        }
    }

    /// On the view port and on the admin port, which has the same routes under a prefix.
    @Test(arguments: [false, true], [false, true])
    func closedConnectionCancelsItsQuery(onAdminPort: Bool, byReset: Bool) async throws {
        try await ViewSite.with { views in
            let gate = Gate(views.queries)
            let rows = ScriptedRows(["{}"])
            views.queries.answer(.rows(rows))
            let text = views.request("GET \(onAdminPort ? "/couchBase" : "")\(Self.path)")
            let port = onAdminPort ? views.site.server.port : views.port
            let queries = views.queries
            try await apart {
                let client = try RawClient(port: port)
                if byReset { client.resetAtClose() }
                try client.send(text)
                while queries.requests.withLock({ $0.isEmpty }) { usleep(1_000) }
                withExtendedLifetime(client) {}
            }
            // Without an end of the wait, the time limit of the tests ends it.
            while gate.cancelledCount == 0 { try await Task.sleep(for: .milliseconds(5)) }
            #expect(try await rows.isCancelledOnce())
            gate.open()
            #expect(try await views.ask("GET /").status == 200)
        }
    }

    /// The interim response distinguishes this client from one that closed its connection.
    @Test func clientThatShutsDownItsSideGetsItsAnswer() async throws {
        try await ViewSite.with { views in
            let gate = Gate(views.queries)
            let text = views.request("GET \(Self.path)")
            let port = views.port
            let (interim, response) = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                client.endSending()
                let interim = try client.response()
                gate.open()
                var response = try client.response()
                while response.status == 100 { response = try client.response() }
                return (interim, response)
            }
            #expect(interim.statusLine == "HTTP/1.1 100 Continue")
            #expect(interim.headers.isEmpty)
            #expect(response.status == 200)
            #expect(response.text == "{\"rows\":[]}")
            #expect(gate.cancelledCount == 0)
        }
    }

    @Test func pipelinedQueriesOfAClientThatShutsDownItsSideAreAnswered() async throws {
        try await ViewSite.with { views in
            let text = views.request("GET \(Self.path)")
            let port = views.port
            let statuses = try await apart {
                let client = try RawClient(port: port)
                try client.send(text + text)
                client.endSending()
                return [try client.response().status, try client.response().status]
            }
            #expect(statuses == [200, 200])
        }
    }
}
