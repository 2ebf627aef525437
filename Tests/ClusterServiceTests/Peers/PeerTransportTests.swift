import Bytes
import ClusterService
import Credentials
import LinuxPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Streams over encrypted connections, and nodes to which none can be opened.
@Suite struct PeerTransportTests {
    /// Two nodes and a pump at each end of a stream of copies.
    private func pumps(
        _ nodes: [PeerNode],
        total: Int,
        isHeld: Bool = false
    ) async throws -> (caller: Pump, called: Pump) {
        let heard = Signal<Pump>()
        nodes[1].transport.serve(.copies) { port, _ in
            #expect(port.node == nodes[0].number)
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
            .copies,
            to: nodes[1].number,
            request: [],
            opened: { port in
                #expect(port.node == nodes[1].number)
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

    @Test func slowReaderBlocksSender() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        let total = 100 << 20
        let (caller, called) = try await pumps(nodes, total: total, isHeld: true)
        var sent = 0
        let isStill = await eventually {
            let before = sent
            try? await Task.sleep(for: .milliseconds(500))
            sent = caller.state.withLock { $0.sent }
            return sent > 0 && sent == before
        }
        #expect(isStill)
        // One turn begins within the window; its last message may be the largest.
        let most = NodeService.copies.row.windowBytes + NodeStreamLimits.turnBytes
        #expect(sent <= most + Pump.sizes[7], "\(sent)")
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
            (closes == 0 ? caller : called).port.end(nil)
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

    /// A stream that cannot be opened fails with a sentence's end for an operator.
    @Test func streamThatCannotBeOpenedFailsWithReason() async throws {
        let node = try PeerNode(1)
        defer { node.stop() }
        func failure(_ number: UInt16) async -> String? {
            await TestStream.failure(.copies, from: node, to: NodeNumber(number))
        }
        #expect(await failure(2) == PeerFailure.noIdentity.description)
        node.transport.setIdentity(PeerNode.identity(NodeNumber(1)))
        #expect(await failure(2) == "there is no node n2")
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
        let refused = await failure(2) ?? ""
        #expect(refused.contains("\(free.address)") && !refused.hasSuffix("."))
        let unknown = await failure(3) ?? ""
        #expect(unknown.contains("no-such-host.invalid"), "\(unknown)")
        #expect(await failure(4) == PeerRefusal.wrongKey.description)
    }
}
