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
            var asked = ProbeRequest(host: "127.0.0.1", port: site.port, path: "/pools")
            asked.login = ("Administrator", "password")
            let answer = await client.ask(asked)
            guard case .answered(200, let body, "127.0.0.1") = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(String(decoding: body, as: UTF8.self).contains("Couchbase Server"))
            var login = ProbeRequest(host: "localhost", port: site.port, path: "/nodes/self")
            #expect(status(await client.ask(login)) == 401)
            login.login = ("Administrator", "password")
            #expect(status(await client.ask(login)) == 200)
            login.path = "/pools/default"
            login.form = [("clusterName", "r&d = caf\u{e9}")]
            #expect(status(await client.ask(login)) == 200)
            #expect(site.service.state.name == "r&d = caf\u{e9}")
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
