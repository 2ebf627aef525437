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
    /// Makes a node accept frames without answering, or not even read them.
    private func mute(_ node: PeerNode, takes: Bool) {
        node.transport.register(.control) { _ in
            ClosureHandler { input, _ in
                ReceiveProgress(
                    consumed: takes ? input.count : 0,
                    next: takes ? .receive : .pause
                )
            }
        }
    }

    @Test func connectionToSilentNodeIsClosed() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 50_000_000
        limits.silenceNanoseconds = 200_000_000
        let nodes = try [PeerNode(1, limits: limits), PeerNode(2)]
        defer { for node in nodes { node.stop() } }
        mute(nodes[1], takes: true)
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        // Without an outstanding answer the connection stays open.
        try await Task.sleep(for: .milliseconds(400))
        let early = nodes[0].events.values.contains { event in
            if case .disconnected = event { true } else { false }
        }
        #expect(!early)
        nodes[0].send(2, [1], to: nodes[1])
        let left = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!left.isEmpty)
        let failed = await nodes[0].call(1, [], to: nodes[1], seconds: 15)
        #expect(failed == .failure(.unreachable))
    }

    @Test func connectionToBusyNodeIsKept() async throws {
        var limits = PeerLimits()
        limits.pingNanoseconds = 20_000_000
        limits.silenceNanoseconds = 200_000_000
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

    @Test func fullQueueDropsFramesAndFailsCalls() async throws {
        var limits = PeerLimits()
        limits.queueBytesMax = 4 << 20
        limits.silenceNanoseconds = 60_000_000_000
        let nodes = try [PeerNode(1, limits: limits), PeerNode(2)]
        defer { for node in nodes { node.stop() } }
        mute(nodes[1], takes: false)
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        let large = [UInt8](repeating: 1, count: 1 << 20)
        // The kernel and the connection buffer some frames.
        for _ in 0..<60 { nodes[0].send(2, large, to: nodes[1]) }
        let dropped = await nodes[0].events.wait { event in
            if case .dropped(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!dropped.isEmpty)
        // Until the kernel's buffers are full, the queue empties again.
        let isOverloaded = await eventually {
            for _ in 0..<10 { nodes[0].send(2, large, to: nodes[1]) }
            return await nodes[0].call(1, large, to: nodes[1], seconds: 0.02)
                == .failure(.overloaded)
        }
        #expect(isOverloaded)
    }

    @Test func smallFramesOvertakeLargeFrames() async throws {
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
    @Test func slowLaneLosesNoFrames() async throws {
        var limits = PeerLimits()
        limits.queueBytesMax = 1 << 20
        let nodes = try [PeerNode(1), PeerNode(2, limits: limits)]
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

    @Test func newConnectionOfNodeReplacesOldOne() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let heard = nodes[1].echo()
        #expect(await nodes[0].connected(to: nodes[1]))
        // A second node 1, without the old connection.
        let closed = Signal<Void>()
        nodes[0].transport.open(
            .control,
            to: nodes[1].number,
            connected: { _ in
                ClosureHandler.sink(closed: { closed.send(()) })
            },
            failed: { Issue.record("\($0)") }
        )
        let left = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!left.isEmpty)
        // The link's next connection replaces that one.
        #expect(await closed.wait().count == 1)
        let reached = await eventually {
            nodes[0].send(2, [1], to: nodes[1])
            return !heard.values.isEmpty
        }
        #expect(reached)
    }
}
