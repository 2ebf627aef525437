import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Host names, and listening on all addresses.
@Suite struct ResolverTests {
    let network = ReactorNetwork(reactors: 1, limits: ReactorLimits(), trace: RecordingTrace())

    private func resolve(_ host: String) async -> Result<[String], NetworkError>? {
        let signal = Signal<Result<[String], NetworkError>>()
        network.resolve(host) { signal.send($0) }
        return await signal.wait().first
    }

    @Test func ipAddressIsResolvedAtOnce() {
        defer { network.stop() }
        for host in ["127.0.0.1", "0.0.0.0", "::1", "fe80::1"] {
            let signal = Signal<[String]>()
            network.resolve(host) { result in
                if case .success(let hosts) = result { signal.send(hosts) }
            }
            #expect(signal.values == [[host]])
        }
    }

    @Test func localhostIsResolvedToLoopbackAddresses() async throws {
        defer { network.stop() }
        let hosts = try #require(await resolve("localhost")).get()
        #expect(!hosts.isEmpty && Set(hosts).count == hosts.count)
        for host in hosts { #expect(SocketAddress(host: host, port: 1).isLoopback) }
    }

    @Test func invalidOrUnknownHostNameFails() async {
        defer { network.stop() }
        let hosts = [
            "", " ", "a b", "x\n", "a/b", "no such host.invalid", "-\u{0}", "\u{e4}",
            String(repeating: "a", count: 254), "no-such-host.invalid",
        ]
        for host in hosts {
            guard case .failure(let error) = await resolve(host) else {
                Issue.record("\(host) was found")
                continue
            }
            #expect(error.code == .unknownHost)
            #expect(error.description.contains("check the name"))
        }
    }

    /// Look-ups are bounded, and each completes or is refused.
    @Test func concurrentLookupsAllComplete() async {
        defer { network.stop() }
        let signal = Signal<Bool>()
        for _ in 0..<500 {
            network.resolve("localhost") { result in
                if case .success = result { signal.send(true) } else { signal.send(false) }
            }
        }
        let answers = await signal.wait(500)
        #expect(answers.count == 500 && answers.contains(true))
    }

    @Test func listenerOnAllAddressesIsReachedOverLoopback() throws {
        defer { network.stop() }
        let all = try network.listen(on: SocketAddress(host: "0.0.0.0", port: 0)) { _ in
            ClosureHandler.echo()
        }
        let client = try TestSocket(
            to: SocketAddress(host: "127.0.0.1", port: all.address.port)
        )
        try client.send([1, 2])
        #expect(client.receive(2) == [1, 2])
        // If the machine has IPv6, the same port can be claimed for both versions.
        let six = try? network.listen(on: SocketAddress(host: "::", port: all.address.port)) { _ in
            ClosureHandler.echo()
        }
        if let six { #expect(six.address == SocketAddress(host: "::", port: all.address.port)) }
    }
}
