import ClusterService
import HTTPFrontend
import Orchestration
import Testing

/// Requests to another node's admin port.
@Suite struct ClientTests {
    private func status(_ answer: ProbeAnswer) -> Int? {
        if case .answered(let status, _, _) = answer { return status }
        return nil
    }

    private func reason(_ answer: ProbeAnswer) -> String {
        if case .unreachable(let reason) = answer { return reason }
        return ""
    }

    @Test func probeReturnsTheReplyOfTheOtherNode() async throws {
        try await Site.with { site in
            let client = AdminClient()
            // What needs no login; everything else is refused, whatever the node's settings.
            let open = ProbeRequest(host: "127.0.0.1", port: site.port, path: "/nodes/self/peer")
            guard case .answered(200, let body, "127.0.0.1") = await client.ask(open) else {
                Issue.record("the node introduces itself to everybody")
                return
            }
            let text = String(decoding: body, as: UTF8.self)
            #expect(text.contains(site.service.cluster.fingerprint) && text.contains("\"port\""))
            let closed = ProbeRequest(host: "localhost", port: site.port, path: "/nodes/self")
            #expect(status(await client.ask(closed)) == 401)
        }
    }

    @Test func probeOfAnUnreachableNodeReturnsTheReason() async throws {
        let client = AdminClient()
        var port: UInt16 = 0
        try await Site.with { port = $0.port }
        let closed = await client.ask(ProbeRequest(host: "127.0.0.1", port: port, path: "/"))
        #expect(reason(closed).contains("refused"))
        let nowhere = await client.ask(ProbeRequest(host: "no.such.invalid", port: 1, path: "/"))
        #expect(reason(nowhere) == "the name no.such.invalid cannot be resolved")
    }
}
