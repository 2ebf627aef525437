import Bytes
import ClusterService
import Credentials
import LinuxPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Handlers over encrypted connections, and connections that cannot be opened.
@Suite struct PeerTransportTests {
    /// Two nodes and a pump at each end of a connection for changes.
    private func pumps(
        _ nodes: [PeerNode],
        total: Int,
        isHeld: Bool = false
    ) async throws -> (caller: Pump, called: Pump) {
        let heard = Signal<Pump>()
        nodes[1].transport.register(.changes) { port in
            #expect(port.identity.node == nodes[0].number && port.identity.isProved)
            let pump = Pump(port, sendsAfter: total, total: total, isHeld: isHeld)
            heard.send(pump)
            return pump
        }
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        let dialed = Signal<Pump>()
        nodes[0].transport.open(
            .changes,
            to: nodes[1].number,
            connected: { port in
                #expect(port.identity.nodeUUID == "uuid-of-n2")
                let pump = Pump(port, sendsAfter: 0, total: total)
                dialed.send(pump)
                return pump
            },
            failed: { Issue.record("\($0)") }
        )
        let caller = try #require(await dialed.wait().first)
        let called = try #require(await heard.wait().first)
        return (caller, called)
    }

    @Test func hundredMegabytesAreSentInBothDirections() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        let total = 100 << 20
        let (caller, called) = try await pumps(nodes, total: total)
        let isDone = await eventually { caller.state.withLock { $0.received } >= total }
        #expect(isDone)
        for pump in [caller, called] {
            let state = pump.state.withLock { $0 }
            #expect(state.received == total && state.sent == total && state.mistakes == 0)
        }
    }

    @Test func slowReaderHoldsSenderBack() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        let total = 100 << 20
        let (caller, called) = try await pumps(nodes, total: total, isHeld: true)
        // The sender has filled what the kernel holds once it sends no more for half a second.
        var sent = 0
        let isStill = await eventually {
            let before = sent
            try? await Task.sleep(for: .milliseconds(500))
            sent = caller.state.withLock { $0.sent }
            return sent > 0 && sent == before
        }
        #expect(isStill)
        // What the kernel buffers between two sockets, plus the output of one call.
        #expect(sent > 0 && sent < 30 << 20, "\(sent)")
        #expect(called.state.withLock { $0.received } == 0)
        called.release()
        let isDone = await eventually { caller.state.withLock { $0.received } >= total }
        #expect(isDone)
        #expect(called.state.withLock { $0.received == total && $0.mistakes == 0 })
    }

    @Test func bothHandlersAreClosedAtTheEnd() async throws {
        for closes in [0, 1] {
            let nodes = try (1...2).map { try PeerNode($0) }
            defer { for node in nodes { node.stop() } }
            let (caller, called) = try await pumps(nodes, total: 1)
            (closes == 0 ? caller : called).port.close()
            let isOver = await eventually {
                caller.state.withLock { $0.isClosed } && called.state.withLock { $0.isClosed }
            }
            #expect(isOver)
        }
    }

    /// A node that says another's number, and one that answers at another's address.
    @Test func nodeWithoutTheKeyOfItsNumberIsRefusedByBothSides() async throws {
        let nodes = try (1...3).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        // The third node says that it is the second, which it cannot prove.
        let (one, second, impostor) = (nodes[0], nodes[1], nodes[2])
        for node in [one, second] {
            node.identify()
            node.know([one, second])
        }
        #expect(await one.connected(to: second))
        var claim = PeerNode.identity(second.number)
        claim.keys = PeerNode.keys(impostor.number)
        impostor.lane.post { [calls = impostor.calls, claim] in calls.setIdentity(claim) }
        impostor.know([one, second])
        let refused = await one.events.wait { event in
            if case .refused(_, .wrongKey) = event { true } else { false }
        }
        #expect(!refused.isEmpty)
        // The first node is led to its address, and sends it no hello.
        one.lane.post { [calls = one.calls, port = impostor.address.port] in
            let key = PeerNode.keys(NodeNumber(2)).publicKey
            calls.setDirectory(
                PeerDirectory([
                    NodeNumber(2): PeerAddress(host: "127.0.0.1", port: port, key: key)
                ])
            )
            calls.redial(NodeNumber(2))
        }
        second.stop()
        let failed = await one.events.wait { event in
            if case .failed(NodeNumber(2), .refused(.wrongKey)) = event { true } else { false }
        }
        #expect(!failed.isEmpty)
        #expect(
            !impostor.events.values.contains { if case .connected = $0 { true } else { false } }
        )
    }

    /// The entry of a node stays, and its key becomes another one.
    @Test func connectionEndsIfTheDirectoryHasAnotherKey() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        nodes[0].lane.post { [calls = nodes[0].calls, port = nodes[1].address.port] in
            let key = PeerNode.keys(NodeNumber(9)).publicKey
            calls.setDirectory(
                PeerDirectory([
                    NodeNumber(2): PeerAddress(host: "127.0.0.1", port: port, key: key)
                ])
            )
        }
        let ended = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!ended.isEmpty)
        let failed = await nodes[0].events.wait { event in
            if case .failed(NodeNumber(2), .refused(.wrongKey)) = event { true } else { false }
        }
        #expect(!failed.isEmpty)
    }

    /// The last bytes of a handler arrive, and input that it refuses ends the connection.
    @Test func handlerThatClosesSendsItsLastBytes() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        nodes[1].transport.register(.changes) { _ in
            ClosureHandler { input, output in
                if input.isEmpty { return ReceiveProgress(consumed: 0, next: .receive) }
                output.append([UInt8](repeating: 6, count: 1 << 20))
                return ReceiveProgress(consumed: input.count, next: .close)
            }
        }
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        let count = Guarded(0)
        let closed = Signal<Void>()
        nodes[0].transport.open(
            .changes,
            to: nodes[1].number,
            connected: { port in
                port.wake()
                return ClosureHandler(
                    receive: { input, _ in
                        count.withLock { $0 += input.count }
                        return ReceiveProgress(consumed: input.count, next: .receive)
                    },
                    wake: { _, output in
                        output.append([1])
                        return ReceiveProgress(consumed: 0, next: .receive)
                    },
                    closed: { closed.send(()) }
                )
            },
            failed: { Issue.record("\($0)") }
        )
        await closed.wait()
        #expect(count.withLock { $0 } == 1 << 20)
    }

    @Test func connectionThatCannotBeOpenedFailsWithReason() async throws {
        let node = try PeerNode(1)
        defer { node.stop() }
        let heard = Signal<PeerFailure>()
        func open(_ number: UInt16) {
            node.transport.open(
                .changes,
                to: NodeNumber(number),
                connected: { _ in preconditionFailure("the address has no listener") },
                failed: { heard.send($0) }
            )
        }
        open(2)
        #expect(heard.values == [.noIdentity])
        node.transport.setIdentity(PeerNode.identity(NodeNumber(1)))
        open(2)
        #expect(heard.values.last == .unknownNode(NodeNumber(2)))
        let free = try node.world.environment.network.listen(
            on: SocketAddress(host: "127.0.0.1", port: 0)
        ) { _ in ClosureHandler { _, _ in ReceiveProgress(consumed: 0, next: .close) } }
        free.close()
        let key = PeerNode.keys(NodeNumber(4)).publicKey
        node.transport.setDirectory(
            PeerDirectory([
                NodeNumber(2): PeerAddress(host: "127.0.0.1", port: free.address.port, key: key),
                NodeNumber(3): PeerAddress(host: "no-such-host.invalid", port: 1, key: key),
                // Its own address, under another node's number.
                NodeNumber(4): PeerAddress(host: "127.0.0.1", port: node.address.port, key: key),
            ])
        )
        open(2)
        guard case .unreachable(let error) = await heard.wait(3).last else {
            Issue.record("connected to a port without a listener")
            return
        }
        #expect(error.code == .refused)
        open(3)
        guard case .unreachable(let unknown) = await heard.wait(4).last else {
            Issue.record("connected to an unknown host")
            return
        }
        #expect(unknown.code == .unknownHost)
        open(4)
        #expect(await heard.wait(5).last == .refused(.wrongKey))
    }
}
