import Bytes
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Loopback, any port.
let anyPort = SocketAddress(host: "127.0.0.1", port: 0)

/// Requests and replies over real sockets.
@Suite struct ReactorTests {
    let trace = RecordingTrace(threshold: .debug)

    func network(
        _ reactors: Int = 2,
        _ limits: ReactorLimits = ReactorLimits()
    ) -> ReactorNetwork {
        ReactorNetwork(reactors: reactors, limits: limits, trace: trace)
    }

    @Test func echoedBytesEqualTheSentOnes() throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        let client = try TestSocket(to: listener.address)
        for text in ["divan", "a second message", String(repeating: "x", count: 100_000)] {
            try client.send(Array(text.utf8))
            #expect(client.mismatch(Array(text.utf8)) == nil)
        }
    }

    @Test func frameIsHandledHoweverItIsSplit() throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler(receive: Frames.echo)
        }
        let client = try TestSocket(to: listener.address)
        let frame = Frames.frame(Array(0..<200))
        for cut in [1, 3, 4, 5, 100, 203] {
            try client.send(Array(frame.prefix(cut)))
            usleepShortly()
            try client.send(Array(frame.dropFirst(cut)))
            #expect(client.mismatch(frame) == nil)
        }
        for byte in frame { try client.send([byte]) }
        #expect(client.mismatch(frame) == nil)
    }

    @Test func messageOf20MiBIsEchoed() throws {
        let network = network()
        defer { network.stop() }
        let calls = Signal<Int>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, output in
                calls.send(input.count)
                return Frames.echo(input, output)
            })
        }
        let client = try TestSocket(to: listener.address)
        var random = SeededRandom(seed: 4)
        var payload = [UInt8](repeating: 0, count: 20 << 20)
        for place in stride(from: 0, to: payload.count, by: 997) {
            payload[place] = UInt8(truncatingIfNeeded: random.next())
        }
        let frame = Frames.frame(payload)
        for _ in 0..<2 {
            try client.send(frame)
            #expect(client.mismatch(frame) == nil)
        }
        // The handler is called once for the length and then for the whole frame, not for each
        // read.
        #expect(calls.values.count <= 8)
        #expect(calls.values.contains(frame.count))
    }

    @Test func pipelinedFramesOfAllSizesAreEchoedInOrder() throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler(receive: Frames.echo)
        }
        let client = try TestSocket(to: listener.address)
        var random = SeededRandom(seed: 11)
        for _ in 0..<20 {
            var pipeline: [UInt8] = []
            while pipeline.count < 1 << 20 {
                let size = 1 << Int.random(in: 0...18, using: &random)
                let length = Int.random(in: 0...size, using: &random)
                let filling = UInt8(truncatingIfNeeded: length)
                pipeline += Frames.frame([UInt8](repeating: filling, count: length))
            }
            let sending = pipeline
            // The echo stops reading while its replies wait, so send and receive concurrently.
            let descriptor = client
            let sender = InBackground { try descriptor.send(sending) }
            #expect(client.mismatch(pipeline) == nil)
            try sender.wait()
        }
    }

    @Test func pipelinedSmallMessagesNeedFewHandlerCalls() throws {
        let network = network(1)
        defer { network.stop() }
        let calls = Signal<Int>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, output in
                calls.send(input.count)
                return Frames.echo(input, output)
            })
        }
        let client = try TestSocket(to: listener.address)
        let pipeline = (0..<2_000).flatMap { Frames.frame([UInt8(truncatingIfNeeded: $0)]) }
        try client.send(pipeline)
        #expect(client.mismatch(pipeline) == nil)
        #expect(calls.values.count < 200)
    }

    @Test func drainingHandlerIsCalledAgainOnceItsRepliesAreSent() throws {
        let network = network()
        defer { network.stop() }
        // Every byte requests 100 000 bytes; one reply a call.
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, output in
                guard input.count > 0 else { return ReceiveProgress(consumed: 0, next: .receive) }
                let reply = output.claim(100_000)
                reply.initializeMemory(as: UInt8.self, repeating: input[0], count: 100_000)
                return ReceiveProgress(consumed: 1, next: input.count > 1 ? .drain : .receive)
            })
        }
        let client = try TestSocket(to: listener.address)
        let asked = (0..<250).map { UInt8($0) }
        try client.send(asked)
        for byte in asked {
            #expect(client.mismatch([UInt8](repeating: byte, count: 100_000)) == nil)
        }
    }

    @Test func floodOnOneConnectionDoesNotStarveAnotherOfItsReactor() throws {
        let network = network(1)
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler(receive: Frames.echo)
        }
        let isOver = Guarded(false)
        let frames = (0..<256).flatMap { _ in Frames.frame([UInt8](repeating: 1, count: 4_000)) }
        let floods = try (0..<3).map { _ in
            let flooder = try TestSocket(to: listener.address)
            let sender = InBackground {
                while !isOver.withLock({ $0 }) { try flooder.send(frames) }
                flooder.endOutput()
            }
            let receiver = InBackground {
                while flooder.receive(frames.count).count == frames.count {}
            }
            return (sender, receiver)
        }
        let other = try TestSocket(to: listener.address)
        let frame = Frames.frame([1, 2, 3])
        for _ in 0..<200 {
            try other.send(frame)
            #expect(other.mismatch(frame) == nil)
        }
        isOver.withLock { $0 = true }
        for (sender, receiver) in floods {
            try sender.wait()
            try receiver.wait()
        }
    }

    @Test func pausedConnectionKeepsItsInputUntilItIsWoken() async throws {
        let network = network()
        defer { network.stop() }
        let paused = Signal<any ConnectionPort>()
        let received = Signal<[UInt8]>()
        let listener = try network.listen(on: anyPort) { port in
            ClosureHandler(
                receive: { input, _ in
                    received.send(input.bytes)
                    paused.send(port)
                    return ReceiveProgress(consumed: 1, next: .pause)
                },
                wake: { input, output in
                    output.append(input)
                    return ReceiveProgress(consumed: input.count, next: .pause)
                }
            )
        }
        let client = try TestSocket(to: listener.address)
        try client.send(Array("abc".utf8))
        let port = try #require(await paused.wait().first)
        try client.send(Array("def".utf8))
        try await Task.sleep(for: .milliseconds(50))
        #expect(received.values.map(\.count).reduce(0, +) == 3)
        port.wake()
        #expect(client.receive(2) == Array("bc".utf8))
        // Paused again: input received meanwhile is neither read nor lost.
        try await Task.sleep(for: .milliseconds(50))
        #expect(received.values.count == 1)
        #expect(port.peer.host == "127.0.0.1")
        #expect(port.local == listener.address)
    }

    @Test func wakesFromManyThreadsAreNotLost() async throws {
        let network = network()
        defer { network.stop() }
        let total = Guarded(0)
        let listener = try network.listen(on: anyPort) { port in
            ClosureHandler(
                receive: { input, _ in
                    // As many lanes as bytes; each adds one and wakes.
                    for _ in 0..<input.count {
                        let lane = ThreadLane("waker")
                        lane.post {
                            for _ in 0..<1_000 {
                                total.withLock { $0 += 1 }
                                port.wake()
                            }
                        }
                        InBackground { lane.stop() }.forget()
                    }
                    return ReceiveProgress(consumed: input.count, next: .pause)
                },
                wake: { _, output in
                    let isDone = total.withLock { $0 == 4_000 }
                    guard isDone else { return ReceiveProgress(consumed: 0, next: .pause) }
                    output.append("done")
                    return ReceiveProgress(consumed: 0, next: .receive)
                }
            )
        }
        let client = try TestSocket(to: listener.address)
        try client.send([1, 2, 3, 4])
        #expect(client.receive(4) == Array("done".utf8))
    }
}
