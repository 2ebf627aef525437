import ClusterService
import Orchestration
import Testing

/// Requests while the server stops.
@Suite struct StopTests {
    private static let form = "name=late&ramQuotaMB=100&numVBuckets=64"

    /// A connection that has sent a form except its last bytes.
    private func begin(on site: Site) async throws -> RawClient {
        let request = site.request(
            "POST /pools/default/buckets",
            .administrator,
            body: Self.form
        )
        let client = try RawClient(port: site.port)
        try client.send(String(request.dropLast(4)))
        // The head must arrive before the stop begins; otherwise no request is pending.
        try await Task.sleep(for: .milliseconds(200))
        return client
    }

    @Test func pendingRequestIsAnsweredWhenTheServerStops() async throws {
        try await Site.with { site in
            let client = try await begin(on: site)
            async let stopped: Void = site.stopServer()
            try await Task.sleep(for: .milliseconds(200))
            try client.send(String(Self.form.suffix(4)))
            #expect(try client.response().status == 202)
            #expect(client.isClosed())
            await stopped
            #expect(site.service.state.buckets.count == 1)
        }
    }

    @Test func unfinishedRequestIsCancelledWithinTwoSecondsOfTheStop() async throws {
        try await Site.with { site in
            let client = try await begin(on: site)
            let clock = ContinuousClock()
            let began = clock.now
            await site.stopServer()
            #expect(clock.now - began < .seconds(3))
            #expect(client.isClosed())
            #expect(site.service.state.buckets.isEmpty)
        }
    }

    @Test func stoppedServerRefusesConnections() async throws {
        try await Site.with { site in
            await site.stopServer()
            #expect(throws: RawClient.Failure.self) { try RawClient(port: site.port) }
        }
    }
}
