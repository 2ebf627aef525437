import Bytes
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Connections on which both sides send much at once.
@Suite struct DuplexTests {
    /// Sends a number of bytes, and counts those that it receives.
    private final class Flood: DuplexHandler, Sendable {
        struct State: Sendable {
            var sent = 0
            var received = 0
            /// Calls of `receiveWhileSending`.
            var whileSending = 0
        }

        private static let piece = [UInt8](repeating: 5, count: 256 << 10)
        private let total: Int
        private let state = Guarded(State())

        init(_ port: any ConnectionPort, total: Int) {
            self.total = total
            port.wake()
        }

        var now: State { state.withLock { $0 } }
        var isDuplex: Bool { true }

        func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            let isSending = state.withLock { state in
                state.received += input.count
                guard state.sent < total else { return false }
                state.sent += Flood.piece.count
                return true
            }
            if isSending { output.append(Flood.piece) }
            return ReceiveProgress(consumed: input.count, next: isSending ? .drain : .receive)
        }

        func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            receive(input, output: output)
        }

        func receiveWhileSending(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
            state.withLock { state in
                state.received += input.count
                state.whileSending += 1
            }
            return ReceiveProgress(consumed: input.count, next: .receive)
        }

        func closed() {}
    }

    /// More than the kernel holds of both directions.
    private let total = 64 << 20

    /// A client that waits for its turn among many tests is no slow reader.
    private var limits: ReactorLimits {
        var limits = ReactorLimits()
        limits.slowReaderNanoseconds = 600_000_000_000
        return limits
    }

    @Test(arguments: [1, 2])
    func handlersThatBothSendMuchFinish(_ reactors: Int) async throws {
        let network = ReactorNetwork(
            reactors: reactors,
            limits: limits,
            trace: RecordingTrace(threshold: .debug)
        )
        defer { network.stop() }
        let handlers = Signal<Flood>()
        let total = total
        let listener = try network.listen(on: anyPort, for: .nodes) { port in
            let handler = Flood(port, total: total)
            handlers.send(handler)
            return handler
        }
        network.connect(
            to: listener.address,
            connected: { port in
                let handler = Flood(port, total: total)
                handlers.send(handler)
                return handler
            },
            failed: { Issue.record("\($0)") }
        )
        let both = await handlers.wait(2)
        let isDone = await eventually { both.allSatisfy { $0.now.received == total } }
        #expect(isDone, "\(both.map(\.now))")
        #expect(both.allSatisfy { $0.now.sent == total })
        #expect(both.contains { $0.now.whileSending > 0 })
    }

    /// The bytes that wait go first, and the handler is called again when they are sent.
    @Test func inputWhileOutputWaitsDoesNotOvertakeIt() async throws {
        let network = ReactorNetwork(
            reactors: 1,
            limits: limits,
            trace: RecordingTrace(threshold: .debug)
        )
        defer { network.stop() }
        let handlers = Signal<Flood>()
        let total = 16 << 20
        let listener = try network.listen(on: anyPort, for: .nodes) { port in
            let handler = Flood(port, total: total)
            handlers.send(handler)
            return handler
        }
        let client = try TestSocket(to: listener.address)
        let handler = try #require(await handlers.wait().first)
        // Its output fills what the kernel holds, as the client reads nothing.
        var sent = 0
        let isStuck = await eventually {
            let before = sent
            try? await Task.sleep(for: .milliseconds(100))
            sent = handler.now.sent
            return sent > 0 && sent == before
        }
        #expect(isStuck && sent < total)
        for _ in 0..<100 { try client.send([UInt8](repeating: 1, count: 1_000)) }
        let isRead = await eventually { handler.now.received == 100_000 }
        #expect(isRead)
        #expect(handler.now.sent == sent)
        #expect(client.receive(total) == [UInt8](repeating: 5, count: total))
    }
}
