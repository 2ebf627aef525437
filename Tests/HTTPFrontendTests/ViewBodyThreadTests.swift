import Bytes
import Foundation
import HTTPFrontend
import Testing

/// Where the parameters of large bodies are parsed.
@Suite struct ViewBodyThreadTests {
    private static let path = "/b/_design/d/_view/v"

    /// The query blocks its thread until the others have ended.
    ///
    /// On an event loop, it would block the loop's other connections. They are more than there are loops, so
    /// that each loop has some.
    @Test func queryWithALargeBodyBlocksNoOtherConnection() async throws {
        try await ViewSite.with { views in
            let gate = DispatchSemaphore(value: 0)
            views.queries.script.withLock { script in
                script = { request in
                    if request.parameters.first?.name == "keys" { gate.wait() }
                    return .rows(ScriptedRows(["{\"rows\":[]}"]))
                }
            }
            let keys = Array(repeating: "1", count: 40_000).joined(separator: ",")
            async let large = views.ask("POST \(Self.path)", json: "{\"keys\":[\(keys)]}")
            let queries = views.queries
            // Without this query, the time limit of its client ends the test.
            for _ in 0..<2_000 where queries.requests.withLock({ $0.isEmpty }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(queries.requests.withLock { $0.count } == 1)
            var statuses: [Int] = []
            var failure: (any Error)?
            let othersCount = 2 * ProcessInfo.processInfo.activeProcessorCount + 2
            for _ in 0..<min(othersCount, 20) {
                do {
                    statuses.append(try await views.ask("GET \(Self.path)").status)
                } catch {
                    // The client's time is over: its connection was blocked.
                    failure = error
                    break
                }
            }
            gate.signal()
            #expect(failure == nil)
            #expect(statuses.allSatisfy { $0 == 200 })
            #expect(try await large.status == 200)
        }
    }
}
