import Bytes
import Foundation
import HTTPFrontend
import Testing

/// The order of responses on one connection, some of which `PromptResponder` writes.
@Suite(.timeLimit(.minutes(2))) struct PromptOrderTests {
    /// A query that has begun and waits until the test ends its wait, or until it is cancelled.
    private final class LongQuery: BegunViewQuery {
        private let gate: Gate

        init(_ gate: Gate) {
            self.gate = gate
        }

        deinit { gate.end() }

        func outcome() async -> ViewQueryOutcome {
            await gate.wait()
            return .rows(ScriptedRows(["long"]))
        }
    }

    private final class Gate: Sendable {
        private struct State {
            var isOpen = false
            var isWaiting = false
            var isCancelled = false
            var endCount = 0
        }

        private let state = Guarded(State())

        /// Long queries that are gone.
        var endCount: Int { state.withLock { $0.endCount } }
        var isWaiting: Bool { state.withLock { $0.isWaiting } }
        var isCancelled: Bool { state.withLock { $0.isCancelled } }

        func open() { state.withLock { $0.isOpen = true } }

        func end() { state.withLock { $0.endCount += 1 } }

        func wait() async {
            state.withLock { $0.isWaiting = true }
            while !state.withLock({ $0.isOpen }) {
                do {
                    try await Task.sleep(for: .milliseconds(5))
                } catch {
                    return state.withLock { $0.isCancelled = true }
                }
            }
        }
    }

    /// Views named `long` begin and wait for the gate; each other one is answered with its name.
    private static func script(_ queries: ScriptedQueries) -> Gate {
        let gate = Gate()
        queries.promptScript.withLock {
            $0 = { request in
                request.view == "long"
                    ? .begun(LongQuery(gate)) : .whole(Array(request.view.utf8))
            }
        }
        queries.script.withLock { $0 = { .whole(Array("awaited \($0.view)".utf8)) } }
        return gate
    }

    /// The bodies of the responses to requests that are sent at once.
    private static func ask(
        _ views: ViewSite,
        _ names: [String],
        _ gate: Gate
    ) async throws -> [String] {
        let text = names.map { views.request("GET /b/_design/d/_view/\($0)") }.joined()
        let port = views.port
        return try await apart {
            let client = try RawClient(port: port)
            try client.send(text)
            // By then, the node has read all of the requests.
            while names.contains("long"), !gate.isWaiting { usleep(1_000) }
            gate.open()
            return try names.map { _ in try client.response().text }
        }
    }

    @Test(arguments: [
        (["one", "two"], ["one", "two"], ["one", "two"]),
        (["one", "long"], ["one", "long"], ["one", "long"]),
        (["long", "one"], ["long", "awaited one"], ["long"]),
        (
            ["one", "long", "two", "three"], ["one", "long", "awaited two", "awaited three"],
            ["one", "long"]
        ),
    ])
    func pipelinedResponsesKeepTheOrderOfTheirRequests(
        names: [String],
        bodies: [String],
        prompt: [String]
    ) async throws {
        try await ViewSite.with { views in
            let gate = Self.script(views.queries)
            let responses = try await Self.ask(views, names, gate)
            #expect(responses == bodies)
            #expect(views.queries.promptViews.withLock { $0 } == prompt)
            #expect(!views.queries.views.contains("long"), "a query that has begun begins once")
        }
    }

    @Test func connectionIsAnsweredPromptlyAgainAfterALongQuery() async throws {
        try await ViewSite.with { views in
            let gate = Self.script(views.queries)
            let texts = ["long", "one"].map { views.request("GET /b/_design/d/_view/\($0)") }
            let port = views.port
            gate.open()
            let bodies = try await apart {
                let client = try RawClient(port: port)
                return try texts.map { text in
                    try client.send(text)
                    return try client.response().text
                }
            }
            #expect(bodies == ["long", "one"])
            #expect(views.queries.promptViews.withLock { $0 } == ["long", "one"])
        }
    }

    /// Else one connection could keep the event loop from all other connections.
    @Test func manyPipelinedQueriesAreAnsweredPromptlyAndByFramework() async throws {
        try await ViewSite.with { views in
            let gate = Self.script(views.queries)
            let names = (0..<20).map { "v\($0)" }
            let bodies = try await Self.ask(views, names, gate)
            #expect(bodies.map { $0.replacing("awaited ", with: "") } == names)
            let prompt = views.queries.promptViews.withLock { $0 }
            #expect(prompt.count >= 8 && !views.queries.views.isEmpty)
            #expect(prompt.count + views.queries.views.count == names.count)
        }
    }

    @Test func requestAfterTheLastOneOfAConnectionIsNotAnswered() async throws {
        try await ViewSite.with { views in
            let gate = Self.script(views.queries)
            gate.open()
            let one = views.request("GET /b/_design/d/_view/one", headers: ["Connection: close"])
            let two = views.request("GET /b/_design/d/_view/two")
            let port = views.port
            let (body, isClosed) = try await apart {
                let client = try RawClient(port: port)
                try client.send(one + two)
                return (try client.response().text, client.isClosed(andEmpty: true))
            }
            #expect(body == "awaited one" && isClosed)
            #expect(views.queries.promptViews.withLock { $0.isEmpty })
        }
    }

    @Test(arguments: [Site.Login.none, .basic("Administrator", "wrong")])
    func queryOfAnUnknownSenderDoesNotBegin(login: Site.Login) async throws {
        try await ViewSite.with { views in
            _ = Self.script(views.queries)
            let response = try await views.ask("GET /b/_design/d/_view/one", login)
            #expect(response.status == 401)
            #expect(response.headers["www-authenticate"] != nil)
            #expect(views.queries.promptViews.withLock { $0.isEmpty })
        }
    }

    @Test(arguments: ["HEAD", "POST"])
    func queryByHeadOrPostIsAnsweredByFramework(method: String) async throws {
        try await ViewSite.with { views in
            _ = Self.script(views.queries)
            let json = method == "POST" ? "{}" : nil
            let response = try await views.ask("\(method) /b/_design/d/_view/one", json: json)
            #expect(response.status == 200)
            #expect(views.queries.promptViews.withLock { $0.isEmpty })
            #expect(views.queries.views == ["one"])
        }
    }

    @Test func closedConnectionEndsAQueryThatHasBegun() async throws {
        try await ViewSite.with { views in
            let gate = Self.script(views.queries)
            let text = views.request("GET /b/_design/d/_view/long")
            let port = views.port
            try await apart {
                let client = try RawClient(port: port)
                client.resetAtClose()
                try client.send(text)
                while !gate.isWaiting { usleep(1_000) }
                withExtendedLifetime(client) {}
            }
            // The time limit of the tests ends a wait in vain.
            while !gate.isCancelled { try await Task.sleep(for: .milliseconds(5)) }
            while gate.endCount == 0 { try await Task.sleep(for: .milliseconds(5)) }
            gate.open()
        }
    }
}
