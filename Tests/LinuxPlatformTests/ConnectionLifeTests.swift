import Bytes
import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Opening, closing and resource bounds of connections.
@Suite struct ConnectionLifeTests {
    let trace = RecordingTrace(threshold: .debug)

    func network(
        _ reactors: Int = 2,
        _ limits: ReactorLimits = ReactorLimits()
    ) -> ReactorNetwork {
        ReactorNetwork(reactors: reactors, limits: limits, trace: trace)
    }

    @Test func readerThatStopsIsBoundedInMemoryAndClosed() async throws {
        var limits = ReactorLimits()
        limits.slowReaderNanoseconds = 500_000_000
        let network = network(2, limits)
        defer { network.stop() }
        let produced = Guarded(0)
        let closed = Signal<Bool>()
        // An endless reply: each call appends another 256 KiB.
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(
                receive: { input, output in
                    output.claim(256 << 10)
                        .initializeMemory(as: UInt8.self, repeating: 1, count: 256 << 10)
                    produced.withLock { $0 += 256 << 10 }
                    return ReceiveProgress(consumed: input.count, next: .drain)
                },
                closed: { closed.send(true) }
            )
        }
        let client = try TestSocket(to: listener.address, receiveBufferBytes: 4_096)
        try client.send([1])
        #expect(await closed.wait() == [true])
        // The content of the two socket buffers, and one call's output.
        #expect(produced.withLock { $0 } < 16 << 20)
        #expect(trace.lines().contains { $0.contains("does not read its replies") })
        #expect(await eventually { network.loads == [0, 0] })
    }

    @Test func slowReaderThatMakesProgressIsKept() throws {
        var limits = ReactorLimits()
        limits.slowReaderNanoseconds = 2_000_000_000
        let network = network(1, limits)
        defer { network.stop() }
        let closed = Signal<Bool>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: Frames.echo, closed: { closed.send(true) })
        }
        let client = try TestSocket(to: listener.address)
        let frame = Frames.frame([UInt8](repeating: 9, count: 20 << 20))
        try client.send(frame)
        // A piece every 100 ms, in total longer than the timeout without progress. Not with
        // Task.sleep: tests that block Swift's few threads would delay this reader too.
        for start in stride(from: 0, to: frame.count, by: 1 << 18) {
            if start < 10 << 20 { usleep(100_000) }
            let piece = Array(frame[start..<min(frame.count, start + 1 << 18)])
            #expect(client.mismatch(piece) == nil)
        }
        #expect(closed.values.isEmpty)
    }

    @Test func connectionClosedFromAnotherThreadEndsOnce() async throws {
        let network = network()
        defer { network.stop() }
        let ports = Signal<any ConnectionPort>()
        let closed = Signal<Bool>()
        let listener = try network.listen(on: anyPort) { port in
            ports.send(port)
            return ClosureHandler(receive: Frames.echo, closed: { closed.send(true) })
        }
        let client = try TestSocket(to: listener.address)
        let port = try #require(await ports.wait().first)
        port.close()
        port.close()
        #expect(client.isClosedByPeer())
        #expect(await closed.wait() == [true])
        port.wake()
        port.close()
        try await Task.sleep(for: .milliseconds(20))
        #expect(closed.values == [true])
    }

    @Test func lastReplyArrivesAlthoughInputIsUnread() throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { _, output in
                output.append("too large")
                return ReceiveProgress(consumed: 0, next: .close)
            })
        }
        for _ in 0..<20 {
            let client = try TestSocket(to: listener.address)
            // Far more than one read: closing at once would send a reset for the rest, which would
            // overtake the reply.
            try client.send([UInt8](repeating: 7, count: 3 << 20))
            #expect(client.receive(9) == Array("too large".utf8))
            client.endOutput()
            #expect(client.isClosedByPeer())
        }
    }

    @Test func peerThatShutsDownItsSideGetsItsReplies() async throws {
        let network = network()
        defer { network.stop() }
        let closed = Signal<Bool>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: Frames.echo, closed: { closed.send(true) })
        }
        let client = try TestSocket(to: listener.address)
        let frame = Frames.frame([UInt8](repeating: 3, count: 8 << 20))
        let sender = InBackground {
            try client.send(frame + [0, 0])
            client.endOutput()
        }
        #expect(client.mismatch(frame) == nil)
        try sender.wait()
        #expect(client.isClosedByPeer())
        #expect(await closed.wait() == [true])
    }

    @Test func resetEndsAPausedConnection() async throws {
        let network = network()
        defer { network.stop() }
        let paused = Signal<Bool>()
        let closed = Signal<Bool>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(
                receive: { _, _ in
                    paused.send(true)
                    return ReceiveProgress(consumed: 0, next: .pause)
                },
                closed: { closed.send(true) }
            )
        }
        do {
            let client = try TestSocket(to: listener.address)
            try client.send([1])
            _ = await paused.wait()
            client.reset()
        }
        #expect(await closed.wait() == [true])
    }

    @Test func frameLargerThanTheLimitEndsTheConnection() async throws {
        var limits = ReactorLimits()
        limits.inputBytesMax = 1 << 20
        let network = network(1, limits)
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, _ in
                // Never consumes, and does not know the frame's length.
                ReceiveProgress(consumed: 0, next: .receive)
            })
        }
        let client = try TestSocket(to: listener.address)
        let megabyte = [UInt8](repeating: 0, count: 1 << 20)
        let sender = InBackground { client.sendUntilRefused(megabyte) }
        #expect(client.isClosedByPeer())
        try sender.wait()
        #expect(
            await eventually {
                trace.lines().contains { $0.contains("larger than the limit") }
            }
        )
    }

    @Test func requestIsServedBesideThousandsOfIdleConnections() async throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        var idle: [TestSocket] = []
        // Both ends are in this process, whose open files may be limited to 1024 or 4096.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let count = min(2_000, (Int(clamping: limit.rlim_cur) - 200) / 2)
        for _ in 0..<count { idle.append(try TestSocket(to: listener.address)) }
        let client = try TestSocket(to: listener.address)
        for round in 0..<100 {
            let bytes = [UInt8](repeating: UInt8(round), count: 1_000)
            try client.send(bytes)
            #expect(client.receive(1_000) == bytes)
        }
        for socket in idle {
            try socket.send([5])
            #expect(socket.receive(1) == [5])
        }
        // Each connection was assigned to the reactor with the fewest, so the loads are equal.
        let loads = network.loads
        #expect(loads.reduce(0, +) == count + 1)
        #expect(abs(loads[0] - loads[1]) <= 1)
        idle.removeAll()
        #expect(await eventually { network.loads.reduce(0, +) == 1 })
    }
}
