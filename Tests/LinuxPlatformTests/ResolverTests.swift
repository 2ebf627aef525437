import Bytes
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

    /// Each of the four threads calls `done` after its look-up, and continues after that.
    @Test func lookupsAboveTheBoundAreRefusedAndAllOthersComplete() async throws {
        defer { network.stop() }
        let (begun, found) = (Signal<Bool>(), Signal<Bool>())
        let isReleased = Guarded(false)
        for _ in 0..<4 {
            network.resolve("localhost") { result in
                begun.send(true)
                try? waitUntil("the look-ups continue") { isReleased.withLock { $0 } }
                found.send((try? result.get()) != nil)
            }
        }
        #expect(await begun.wait(4).count == 4)
        let refusals = Signal<String>()
        for _ in 0..<300 {
            network.resolve("localhost") { result in
                switch result {
                case .success: found.send(true)
                case .failure(let error): refusals.send(error.description)
                }
            }
        }
        #expect(refusals.values.count == 300 - 256)
        #expect(refusals.values.allSatisfy { $0.contains("too many look-ups are waiting") })
        #expect(found.values.isEmpty)
        isReleased.withLock { $0 = true }
        let answers = await found.wait(4 + 256)
        #expect(answers.count == 4 + 256 && answers.allSatisfy { $0 })
        #expect(refusals.values.count == 300 - 256)
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
