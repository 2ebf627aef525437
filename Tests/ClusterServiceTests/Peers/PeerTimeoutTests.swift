import Bytes
import ClusterService
import Credentials
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Connections to slow or silent nodes, and full queues.
@Suite struct PeerTimeoutTests {
    /// A node that calls a raw one, which is in its directory as node 2.
    private func caller(
        _ limits: PeerLimits,
        isReading: Bool
    ) async throws -> (nodes: [PeerNode], accepted: Signal<RawPeer>) {
        let nodes = try [PeerNode(1, limits: limits), PeerNode(3)]
        let mute = try RawPeer.listen(as: NodeNumber(2), isReading: isReading, over: nodes[1])
        nodes[0].identify()
        nodes[0].know([nodes[0]], at: [NodeNumber(2): mute.port])
        let isConnected = await nodes[0].events.wait { event in
            if case .connected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!isConnected.isEmpty)
        return (nodes, mute.accepted)
    }

    /// It proves its key and answers no ping, whether or not it reads them.
    @Test(arguments: [true, false])
    func linkToSilentNodeIsClosed(_ isReading: Bool) async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 50_000_000
        let (nodes, accepted) = try await caller(limits, isReading: isReading)
        defer { for node in nodes { node.stop() } }
        let stream = try await TestStream.open(.views, from: nodes[0], to: NodeNumber(2))
        #expect(await stream.closes.wait() == ["it did not answer"])
        let left = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!left.isEmpty)
        if isReading {
            #expect(accepted.values.first?.frames.values.contains { $0.kind == .ping } == true)
        }
        let failed = await nodes[0].calls.call(
            1,
            [],
            to: NodeNumber(2),
            timeoutNanoseconds: 15_000_000_000
        )
        #expect(failed == .failure(.unreachable))
    }

    @Test func linkOfNodeThatAnswersPingsIsKept() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 20_000_000
        limits.silentTicksMax = 10
        let nodes = try await PeerNode.cluster(2, limits: limits)
        defer { for node in nodes { node.stop() } }
        try await Task.sleep(for: .milliseconds(600))
        #expect(nodes.allSatisfy { $0.transport.counts.all == 1 })
        let left = nodes[0].events.values.contains { event in
            if case .disconnected = event { true } else { false }
        }
        #expect(!left)
    }

    /// The pings of a node that sends much wait behind its bytes, so it must hear the other one.
    @Test func nodeThatOnlyReceivesStillPings() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 50_000_000
        limits.silentTicksMax = 100
        let (nodes, accepted) = try await caller(limits, isReading: true)
        defer { for node in nodes { node.stop() } }
        let peer = try #require(await accepted.wait().first)
        let hasPinged = await eventually {
            peer.send(RawPeer.frame(.pong))
            return peer.frames.values.count { $0.kind == .ping } >= 3
        }
        #expect(hasPinged)
    }

    @Test func bulkConnectionWithoutStreamsIsClosed() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 20_000_000
        limits.silentTicksMax = 50
        limits.idleTicksMax = 10
        let nodes = try await PeerNode.cluster(2, limits: limits)
        defer { for node in nodes { node.stop() } }
        _ = TestStream.serve(.copies, of: nodes[1])
        let stream = try await TestStream.open(.copies, from: nodes[0], to: nodes[1].number)
        try await Task.sleep(for: .milliseconds(500))
        #expect(stream.closes.values.isEmpty)
        #expect(nodes.allSatisfy { $0.transport.counts.all == 2 })
        stream.port.end(nil)
        let isGone = await eventually { nodes.allSatisfy { $0.transport.counts.all == 1 } }
        #expect(isGone)
    }

    @Test func connectionToBusyNodeIsKept() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 20_000_000
        limits.silentTicksMax = 10
        let nodes = try await PeerNode.cluster(2, limits: limits)
        defer { for node in nodes { node.stop() } }
        let lane = nodes[1].lane
        lane.post {
            nodes[1].calls.handleCalls(1) { _, payload, answer in
                lane.post(after: 700_000_000) { answer(payload) }
            }
        }
        #expect(try await nodes[0].call(1, [8], to: nodes[1]).get() == [8])
        let left = nodes[0].events.values.contains { event in
            if case .disconnected = event { true } else { false }
        }
        #expect(!left)
    }

    @Test func fullQueueDropsMessages() async throws {
        var limits = PeerLimits()
        limits.queueBytesMax = 4 << 20
        limits.silentTicksMax = 1_000
        let (nodes, _) = try await caller(limits, isReading: true)
        defer { for node in nodes { node.stop() } }
        let large = [UInt8](repeating: 1, count: 1 << 20)
        // The raw node lets it send no more than a window.
        nodes[0].lane.post { [calls = nodes[0].calls] in
            for _ in 0..<10 { calls.send(2, large, to: NodeNumber(2)) }
        }
        let dropped = await nodes[0].events.wait(3) { event in
            if case .dropped(NodeNumber(2)) = event { true } else { false }
        }
        #expect(dropped.count >= 3 && dropped.count <= 6)
    }

    @Test func smallMessagesOvertakeLargeOnes() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let heard = Signal<Int>()
        nodes[1].lane.post {
            nodes[1].calls.handleMessages(2) { heard.send($1.count) }
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        let large = [UInt8](repeating: 1, count: 2 << 20)
        let target = nodes[1].number
        nodes[0].lane.post { [calls = nodes[0].calls] in
            for _ in 0..<10 { calls.send(2, large, to: target) }
            calls.send(2, [1], to: target)
            // Sent as bulk although it is small.
            calls.send(2, [1, 2], to: target, isBulk: true)
        }
        let sizes = await heard.wait(12)
        #expect(sizes.count == 12 && sizes.last == 2)
        let place = sizes.firstIndex(of: 1) ?? 12
        #expect(place < 10)
    }

    /// A slow lane holds the sender back, without loss.
    @Test func slowLaneLosesNoMessages() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        let heard = nodes[1].echo()
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        let gate = Signal<Void>()
        nodes[1].lane.post {
            // The lane is busy with other work for a while.
            for _ in 0..<2_000 where gate.values.isEmpty { usleepShortly() }
        }
        let payload = [UInt8](repeating: 1, count: 200_000)
        for _ in 0..<60 { nodes[0].send(2, payload, to: nodes[1]) }
        try await Task.sleep(for: .milliseconds(200))
        gate.send(())
        #expect(await heard.wait(60).count == 60)
    }
}
