import Bytes
import LinuxPlatform
import Seams
import Testing

/// Loopback, any port.
let anyPort = SocketAddress(host: "127.0.0.1", port: 0)

@Suite struct ReactorTests {
    let trace = TestTrace()

    func network(
        _ reactors: Int = 2,
        _ limits: ReactorLimits = ReactorLimits()
    ) -> ReactorNetwork {
        ReactorNetwork(reactors: reactors, limits: limits, trace: trace)
    }

    @Test func bytesComeBack() throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in EchoHandler() }
        let client = try TestSocket(to: listener.address)
        for text in ["divan", "a second time", String(repeating: "x", count: 100_000)] {
            try client.send(Array(text.utf8))
            #expect(client.receive(text.utf8.count) == Array(text.utf8))
        }
    }
}
