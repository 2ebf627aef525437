import Bytes
import Seams
import SimulatedPlatform
import Testing

/// Simulated connections on which both sides send much at once.
@Suite struct DuplexTests {
    /// Sends a number of bytes, and counts those that it receives.
    private final class Flood: DuplexHandler, @unchecked Sendable {  // tidy:allow one thread
        private static let piece = [UInt8](repeating: 5, count: 256 << 10)
        private let total: Int
        let isDuplex: Bool
        private(set) var sent = 0
        private(set) var received = 0
        /// Calls of `receiveWhileSending`.
        private(set) var whileSending = 0

        init(_ port: any ConnectionPort, total: Int, isDuplex: Bool) {
            self.total = total
            self.isDuplex = isDuplex
            port.wake()
        }

        func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            received += input.count
            guard sent < total else {
                return ReceiveProgress(consumed: input.count, next: .receive)
            }
            sent += Flood.piece.count
            output.append(Flood.piece)
            return ReceiveProgress(consumed: input.count, next: .drain)
        }

        func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            receive(input, output: output)
        }

        func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            received += input.count
            whileSending += 1
            return ReceiveProgress(consumed: input.count, next: .receive)
        }

        func closed() {}
    }

    /// Two floods that have sent to each other for a while.
    private func floods(total: Int, isDuplex: Bool) throws -> [Flood] {
        let world = SimulatedWorld(seed: 5)
        let environments = ["10.0.0.1", "10.0.0.2"]
            .map { world.addHost($0, reactors: 2).start() }
        let handlers = Guarded<[Flood]>([])
        let make: @Sendable (any ConnectionPort) -> any ConnectionHandler = { port in
            let handler = Flood(port, total: total, isDuplex: isDuplex)
            handlers.withLock { $0.append(handler) }
            return handler
        }
        let address = SocketAddress(host: "0.0.0.0", port: 11_213)
        let listener = try environments[0].network.listen(on: address, for: .nodes, accept: make)
        environments[1].network.connect(
            to: SocketAddress(host: "10.0.0.1", port: 11_213),
            connected: make,
            failed: { Issue.record("\($0)") }
        )
        world.run(for: 60_000_000_000)
        listener.close()
        return handlers.withLock { $0 }
    }

    @Test func handlersThatBothSendMuchFinish() throws {
        let total = 64 << 20
        let both = try floods(total: total, isDuplex: true)
        #expect(both.count == 2)
        #expect(both.allSatisfy { $0.received == total && $0.sent == total })
        #expect(both.contains { $0.whileSending > 0 })
    }

    /// The simulated kernel holds as little as a real one: two other handlers wait for each other.
    @Test func handlersThatOnlySendBlockEachOther() throws {
        let both = try floods(total: 64 << 20, isDuplex: false)
        #expect(both.count == 2 && both.allSatisfy { $0.sent < 64 << 20 && $0.whileSending == 0 })
    }
}
