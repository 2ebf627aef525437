import Bytes
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Bounded memory for the large frames of many clients, over real sockets.
@Suite struct ClientMemoryTests {
    let trace = RecordingTrace(threshold: .debug)

    private static let frameBytes = 8 << 20

    /// Limits with memory for two frames.
    private func limits(stalledMilliseconds: UInt64 = 30_000) -> ReactorLimits {
        var limits = ReactorLimits()
        limits.inputBytesMax = 10 << 20
        limits.clientInputBytesMax = 20 << 20
        limits.stalledSenderNanoseconds = stalledMilliseconds * 1_000_000
        return limits
    }

    private func network(_ limits: ReactorLimits) -> ReactorNetwork {
        ReactorNetwork(reactors: 2, limits: limits, trace: trace)
    }

    private func listen(_ network: ReactorNetwork) throws -> any Listener {
        try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, output in
                let progress = Frames.echo(input, output)
                // Replies are short, so their memory does not matter.
                let count = output.count
                output.removeAll()
                if count > 0 { output.append(Frames.short(count)) }
                return progress
            })
        }
    }

    /// Whether a condition becomes true within a generous time.
    ///
    /// It blocks: after an `await` other tests may run for longer than the node's timeout of a
    /// client.
    private func soon(_ condition: () -> Bool) -> Bool {
        for _ in 0..<15_000 {
            if condition() { return true }
            usleepShortly()
        }
        return condition()
    }

    private var frame: [UInt8] {
        Frames.frame([UInt8](repeating: 7, count: ClientMemoryTests.frameBytes))
    }

    @Test func stalledSendersUseAtMostTheBoundAndSmallRequestsAreServed() async throws {
        let network = network(limits())
        defer { network.stop() }
        let listener = try listen(network)
        let frame = frame
        let stalled = try (0..<12).map { _ in try TestSocket(to: listener.address) }
        for socket in stalled {
            InBackground { socket.offer(Array(frame.dropLast())) }.forget()
        }
        #expect(soon { network.memory.usage.waitingCount == 10 })
        let usage = network.memory.usage
        #expect(usage.receivedBytes <= usage.receiveBytesMax)
        // A client with small requests is not affected.
        let other = try TestSocket(to: listener.address)
        for _ in 0..<100 {
            try other.send(Frames.frame([1, 2, 3]))
            #expect(other.mismatch(Frames.short(7)) == nil)
        }
        network.stop()
        #expect(network.memory.usage.receivedBytes == 0)
        #expect(network.memory.usage.waitingCount == 0)
    }

    @Test func framesThatExceedTheMemoryTogetherAreAllHandled() async throws {
        let network = network(limits(stalledMilliseconds: 2_000))
        defer { network.stop() }
        let listener = try listen(network)
        let frame = frame
        let clients = try (0..<20).map { _ in try TestSocket(to: listener.address) }
        let senders = clients.map { socket in
            InBackground {
                for _ in 0..<2 {
                    try socket.send(frame)
                    #expect(socket.mismatch(Frames.short(frame.count)) == nil)
                }
            }
        }
        for sender in senders { try sender.wait() }
        #expect(soon { network.memory.usage.receivedBytes == 0 })
        #expect(!trace.lines().contains { $0.contains("closed") })
    }

    @Test func stalledSenderIsClosedAndItsMemoryIsGrantedToTheNext() throws {
        let network = network(limits(stalledMilliseconds: 2_000))
        defer { network.stop() }
        let listener = try listen(network)
        let frame = frame
        let stalled = try (0..<3).map { _ in try TestSocket(to: listener.address) }
        for socket in stalled {
            InBackground { socket.offer(Array(frame.dropLast(9))) }.forget()
        }
        #expect(soon { network.memory.usage.waitingCount >= 1 })
        // A sender that waits for memory is not closed, and its frame is handled later.
        let waiting = try TestSocket(to: listener.address)
        let sender = InBackground { try waiting.send(frame) }
        #expect(waiting.mismatch(Frames.short(frame.count)) == nil)
        try sender.wait()
        for socket in stalled { #expect(socket.isClosedByPeer()) }
        #expect(trace.lines().contains { $0.contains("in the middle of a large frame") })
        #expect(soon { network.loads.reduce(0, +) == 1 })
    }

    @Test func senderWithinItsOwnBytesNeverTimesOut() async throws {
        let network = network(limits(stalledMilliseconds: 100))
        defer { network.stop() }
        let listener = try listen(network)
        let small = try TestSocket(to: listener.address)
        let frame = Frames.frame([UInt8](repeating: 7, count: 60_000))
        try small.send(Array(frame.dropLast()))
        let begun = try TestSocket(to: listener.address)
        let large = self.frame
        try begun.send(Array(large.prefix(10_000)))
        try await Task.sleep(for: .milliseconds(600))
        try small.send([7])
        #expect(small.mismatch(Frames.short(frame.count)) == nil)
        try begun.send(Array(large.dropFirst(10_000)))
        #expect(begun.mismatch(Frames.short(large.count)) == nil)
    }

    @Test func slowSenderThatMakesProgressIsKept() throws {
        let network = network(limits(stalledMilliseconds: 1_000))
        defer { network.stop() }
        let listener = try listen(network)
        let slow = try TestSocket(to: listener.address)
        let frame = Frames.frame([UInt8](repeating: 7, count: 1 << 20))
        for start in stride(from: 0, to: frame.count, by: 1 << 16) {
            try slow.send(Array(frame[start..<min(frame.count, start + 1 << 16)]))
            usleepLong()
        }
        #expect(slow.mismatch(Frames.short(frame.count)) == nil)
    }

    /// Input that a paused handler does not consume is counted, and its sender is not closed.
    @Test func inputOfAPausedHandlerIsCountedAndKept() async throws {
        let network = network(limits(stalledMilliseconds: 100))
        defer { network.stop() }
        let ports = Signal<any ConnectionPort>()
        let listener = try network.listen(on: anyPort) { port in
            ports.send(port)
            return ClosureHandler(
                receive: { input, _ in
                    guard input.count >= 1 << 20 else {
                        return ReceiveProgress(consumed: 0, next: .receive, needed: 1 << 20)
                    }
                    return ReceiveProgress(consumed: 0, next: .pause)
                },
                wake: { input, output in
                    output.append("done")
                    return ReceiveProgress(consumed: input.count, next: .receive)
                }
            )
        }
        let client = try TestSocket(to: listener.address)
        try client.send([UInt8](repeating: 1, count: 1 << 20))
        let own = ReactorLimits().ownInputBytes
        #expect(soon { network.memory.usage.receivedBytes == 1 << 20 - own })
        try await Task.sleep(for: .milliseconds(600))
        #expect(network.memory.usage.receivedBytes == 1 << 20 - own)
        ports.values.first?.wake()
        #expect(client.mismatch(Array("done".utf8)) == nil)
        #expect(soon { network.memory.usage.receivedBytes == 0 })
    }

    @Test func connectionsOfNodesAreExemptFromTheMemoryBound() async throws {
        let network = network(limits())
        defer { network.stop() }
        let listener = try network.listen(on: anyPort, for: .nodes) { _ in
            ClosureHandler(receive: Frames.echo)
        }
        let frame = frame
        let stalled = try (0..<4).map { _ in try TestSocket(to: listener.address) }
        for socket in stalled {
            let sender = InBackground { try socket.send(Array(frame.dropLast())) }
            try sender.wait()
        }
        #expect(network.memory.usage.receivedBytes == 0)
        #expect(network.memory.usage.waitingCount == 0)
    }

    @Test func unreadRepliesAreCountedUntilTheyAreReadOrTheirConnectionEnds() async throws {
        let network = network(limits())
        defer { network.stop() }
        let reply = 20 << 20
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: { input, output in
                output.claim(reply).initializeMemory(as: UInt8.self, repeating: 1, count: reply)
                return ReceiveProgress(consumed: input.count, next: .receive)
            })
        }
        let reader = try TestSocket(to: listener.address, receiveBufferBytes: 4_096)
        let other = try TestSocket(to: listener.address, receiveBufferBytes: 4_096)
        try reader.send([1])
        try other.send([1])
        #expect(soon { network.memory.usage.replyBytes >= 2 * reply - 128 << 10 })
        #expect(!network.memory.isFullOfReplies)
        #expect(reader.receive(reply).count == reply)
        other.reset()
        withExtendedLifetime(other) {}
        #expect(soon { network.memory.usage.replyBytes <= reply << 1 })
        network.stop()
        #expect(network.memory.usage.replyBytes == 0)
    }
}
