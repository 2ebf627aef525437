import Bytes
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Claimed and closed ports, outgoing connections, and the reactors' lanes.
@Suite struct NetworkTests {
    let trace = RecordingTrace(threshold: .debug)

    func network(_ reactors: Int = 2) -> ReactorNetwork {
        ReactorNetwork(reactors: reactors, limits: ReactorLimits(), trace: trace)
    }

    @Test func secondListenerOfAPortFailsWithTheAddress() throws {
        let first = network()
        let second = network()
        defer {
            first.stop()
            second.stop()
        }
        let listener = try first.listen(on: anyPort) { _ in ClosureHandler.echo() }
        #expect(listener.address.port != 0)
        for network in [first, second] {
            let error = #expect(throws: NetworkError.self) {
                try network.listen(on: listener.address) { _ in ClosureHandler.echo() }
            }
            #expect(error?.code == .addressInUse)
            let text = error?.description ?? ""
            #expect(text.contains("\(listener.address)") && text.contains("choose another port"))
        }
    }

    @Test func listenOnAnUnavailableAddressFailsWithTheCause() throws {
        let network = network(1)
        defer { network.stop() }
        let foreign = #expect(throws: NetworkError.self) {
            try network.listen(on: SocketAddress(host: "192.0.2.1", port: 0)) { _ in
                ClosureHandler.echo()
            }
        }
        #expect(foreign?.code == .addressNotAvailable)
        let name = #expect(throws: NetworkError.self) {
            try network.listen(on: SocketAddress(host: "localhost", port: 0)) { _ in
                ClosureHandler.echo()
            }
        }
        #expect(name?.description.contains("not an IP address in digits") == true)
    }

    @Test func closedListenerFreesThePortAndEndsItsConnections() throws {
        let network = network()
        defer { network.stop() }
        let other = try network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        let unaffected = try TestSocket(to: other.address)
        // An address of its own: at another one, a test beside this one may take the port between two rounds.
        var address = SocketAddress(host: "127.0.0.51", port: 0)
        for _ in 0..<5 {
            let listener = try network.listen(on: address) { _ in ClosureHandler.echo() }
            address = listener.address
            let clients = try (0..<10).map { _ in try TestSocket(to: address) }
            for client in clients {
                try client.send([1])
                #expect(client.receive(1) == [1])
            }
            listener.close()
            for client in clients { #expect(client.isClosedByPeer()) }
        }
        try unaffected.send([2])
        #expect(unaffected.receive(1) == [2])
    }

    @Test func outgoingConnectionsAreServedByTheReactors() async throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        let answers = Signal<String>()
        for client in 0..<20 {
            network.connect(
                to: listener.address,
                connected: { port in
                    port.wake()
                    return ClosureHandler(
                        receive: { input, _ in
                            answers.send(input.text)
                            return ReceiveProgress(consumed: input.count, next: .close)
                        },
                        wake: { _, output in
                            output.append(text: "client \(client)")
                            return ReceiveProgress(consumed: 0, next: .receive)
                        }
                    )
                },
                failed: { answers.send($0.description) }
            )
        }
        let expected = Set((0..<20).map { "client \($0)" })
        #expect(Set(await answers.wait(20)) == expected)
    }

    @Test func failedConnectionReportsItsCause() async throws {
        let network = network()
        defer { network.stop() }
        let listener = try network.listen(on: anyPort) { _ in ClosureHandler.echo() }
        listener.close()
        let failures = Signal<NetworkError>()
        let unwanted = Signal<Bool>()
        let targets = [listener.address, SocketAddress(host: "nowhere", port: 1)]
        for target in targets {
            network.connect(
                to: target,
                connected: { _ in
                    unwanted.send(true)
                    return ClosureHandler.echo()
                },
                failed: { failures.send($0) }
            )
        }
        let codes = await failures.wait(2).map(\.code)
        #expect(Set(codes) == [.refused, .addressNotAvailable])
        #expect(unwanted.values.isEmpty)
        #expect(network.loads == [0, 0])
    }

    @Test func connectionOverIPv6IsServed() async throws {
        let network = network()
        defer { network.stop() }
        // A machine may not support IPv6.
        guard try LinuxDisk().read("/proc/net/if_inet6")?.isEmpty == false else { return }
        let peers = Signal<SocketAddress>()
        let listener = try network.listen(on: SocketAddress(host: "::1", port: 0)) { port in
            peers.send(port.peer)
            return ClosureHandler.echo()
        }
        let answers = Signal<String>()
        network.connect(
            to: listener.address,
            connected: { port in
                answers.send(port.peer.description)
                return ClosureHandler.echo()
            },
            failed: { answers.send($0.description) }
        )
        #expect(await answers.wait() == ["[::1]:\(listener.address.port)"])
        #expect(await peers.wait().first?.host == "::1")
    }

    @Test func laneOfAReactorRunsWorkAndTimersInOrder() async throws {
        let network = network(1)
        defer { network.stop() }
        let lane = network.lane(ofReactor: 0)
        let events = Signal<Int>()
        // A busy machine may stop this thread between two calls, but not for so long.
        lane.post(after: 1_500_000_000) { events.send(60) }
        lane.post(after: 500_000_000) { events.send(20) }
        let cancelled = lane.post(after: 1_000_000_000) { events.send(40) }
        cancelled.cancel()
        for number in 0..<10 { lane.post { events.send(number) } }
        #expect(await events.wait(12) == Array(0..<10) + [20, 60])
    }

    @Test func quiescenceIsPastASnapshotOnlyAfterTheRunningTurnsEnded() async throws {
        let network = network(2)
        defer { network.stop() }
        let quiescence = network.quiescence
        // Whether or not a reactor sleeps, every running turn ends.
        let atRest = quiescence.snapshot()
        let isPast = Signal<Bool>()
        let entered = Signal<[UInt64]>()
        network.lane(ofReactor: 1).post {
            // A snapshot during this turn is not past before the turn ends.
            let during = quiescence.snapshot()
            isPast.send(quiescence.isPast(during))
            entered.send(during)
        }
        let during = try #require(await entered.wait().first)
        #expect(isPast.values == [false])
        for snapshot in [atRest, during] {
            var isOver = false
            for _ in 0..<3_000 where !isOver {
                isOver = quiescence.isPast(snapshot)
                try await Task.sleep(for: .milliseconds(1))
            }
            #expect(isOver)
        }
    }

    @Test func stoppedNetworkIsDeallocated() async throws {
        weak var stopped: ReactorNetwork?
        weak var lane: (any Lane)?
        weak var connection: (any ConnectionPort)?
        do {
            let network = network(1)
            stopped = network
            lane = network.lane(ofReactor: 0)
            let ports = Signal<any ConnectionPort>()
            // An unread reply, a lingering end, and a pause: the states that a reactor has lists
            // for.
            let listener = try network.listen(on: anyPort) { port in
                ports.send(port)
                return ClosureHandler(receive: { input, output in
                    _ = output.claim(16 << 20)
                    switch input[0] {
                    case 1: return ReceiveProgress(consumed: 1, next: .receive)
                    case 2: return ReceiveProgress(consumed: 1, next: .close)
                    default: return ReceiveProgress(consumed: 1, next: .pause)
                    }
                })
            }
            let clients = try (1...3).map { _ in try TestSocket(to: listener.address) }
            for (index, client) in clients.enumerated() {
                try client.send([UInt8(index + 1)])
                #expect(client.receive(1_000).count == 1_000)
            }
            connection = await ports.wait(3).first
            network.stop()
        }
        #expect(stopped == nil)
        #expect(lane == nil)
        #expect(connection == nil)
    }

    @Test func stoppedNetworkRunsNoWorkAndHasClosedItsConnections() async throws {
        let network = network()
        let closed = Signal<Bool>()
        let listener = try network.listen(on: anyPort) { _ in
            ClosureHandler(receive: Frames.echo, closed: { closed.send(true) })
        }
        let client = try TestSocket(to: listener.address)
        try client.send(Frames.frame([1]))
        #expect(client.receive(5).count == 5)
        network.stop()
        #expect(closed.values == [true])
        #expect(client.isClosedByPeer())
        let late = Signal<Bool>()
        network.lane(ofReactor: 0).post { late.send(true) }
        let failures = Signal<NetworkError>()
        network.connect(
            to: listener.address,
            connected: { _ in ClosureHandler.echo() },
            failed: { failures.send($0) }
        )
        #expect(await failures.wait().count == 1)
        listener.close()
        network.stop()
        #expect(late.values.isEmpty)
    }
}
