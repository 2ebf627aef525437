import Bytes
import ClusterService
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Streams over the links of nodes in one process, over real sockets.
@Suite struct NodeLinkTests {
    @Test(arguments: [NodeService.copies, .views])
    func messagesOfAllSizesArriveWholeAndInOrder(_ service: NodeService) async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let accepted = TestStream.serve(service, of: nodes[1])
        let frame = LinkFrame.payloadBytesMax
        let sizes = [1, frame, frame + 1, 20 << 20, 2 * frame, 5]
        let messages = sizes.enumerated().map { index, size in
            var message = [UInt8](repeating: UInt8(index), count: size)
            for place in stride(from: 0, to: size, by: 1_021) {
                message[place] = UInt8(truncatingIfNeeded: place >> 8)
            }
            return message
        }
        let near = try await TestStream.open(
            service,
            from: nodes[0],
            to: nodes[1].number,
            request: [4, 2]
        )
        near.send(messages)
        let far = try #require(await accepted.wait().first)
        #expect(far.request == [4, 2] && far.port.node == nodes[0].number)
        // A failure would otherwise print all their bytes.
        var areWhole = await far.messages.wait(sizes.count) == messages
        try #require(areWhole)
        // And in the other direction, with the end of the stream.
        far.change { state in
            state.outbox += messages
            state.isFinishing = true
        }
        areWhole = await near.messages.wait(sizes.count) == messages
        try #require(areWhole)
        #expect(await near.closes.wait() == [nil])
        #expect(await far.closes.wait() == [nil])
    }

    /// Copies flow and the stream of a query pauses; calls and messages have their turn.
    @Test func pausedStreamAndFloodDoNotStopOtherStreams() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let heard = nodes[1].echo()
        let copies = TestStream.serve(.copies, of: nodes[1], .init(isCounting: true))
        let views = TestStream.serve(.views, of: nodes[1], .init(isPaused: true, isCounting: true))
        let flood = TestStream.State(floodBytes: 32 << 10)
        let flooding = try await TestStream.open(
            .copies,
            from: nodes[0],
            to: nodes[1].number,
            flood
        )
        let held = try await TestStream.open(.views, from: nodes[0], to: nodes[1].number, flood)
        let copy = try #require(await copies.wait().first)
        let view = try #require(await views.wait().first)
        for number in 0..<50 as Range<UInt8> {
            #expect(try await nodes[0].call(1, [number], to: nodes[1]).get() == [2, 1, number])
            nodes[0].send(2, [number], to: nodes[1])
        }
        #expect(await heard.wait(50).map(\.1) == (0..<50).map { [$0] })
        let windowBytes = NodeService.views.row.windowBytes
        #expect(held.now.sentBytes >= windowBytes && held.now.sentBytes <= windowBytes + 64 << 10)
        #expect(view.now.receivedBytes == 0)
        let isFlowing = await eventually {
            copy.now.receivedBytes > 4 * NodeService.copies.row.windowBytes
        }
        try #require(isFlowing)
        view.change { $0.isPaused = false }
        let hasResumed = await eventually { view.now.receivedBytes > 4 * windowBytes }
        try #require(hasResumed)
        for stream in [flooding, held] { stream.port.end(nil) }
    }

    /// The last part of such a message is short: the window must hold back the others.
    @Test func pausedStreamBlocksMessagesLargerThanFrames() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let accepted = TestStream.serve(
            .views,
            of: nodes[1],
            .init(isPaused: true, isCounting: true)
        )
        let size = LinkFrame.payloadBytesMax + 1
        let near = try await TestStream.open(
            .views,
            from: nodes[0],
            to: nodes[1].number,
            .init(floodBytes: size)
        )
        let far = try #require(await accepted.wait().first)
        let most = NodeService.views.row.windowBytes + 2 * size
        var sent = 0
        let isStill = await eventually {
            let before = sent
            try? await Task.sleep(for: .milliseconds(200))
            sent = near.now.sentBytes
            return sent > most || (sent > 0 && sent == before)
        }
        try #require(isStill)
        try #require(sent <= most, "\(sent)")
        far.change { $0.isPaused = false }
        let hasResumed = await eventually { far.now.receivedBytes > 8 << 20 }
        try #require(hasResumed)
    }

    /// Together they have more than the bound of each: neither ends the link for the other's.
    @Test func bothNodesHaveTheirOwnBoundOfStreams() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        _ = nodes[1].echo()
        let accepted = nodes.map { TestStream.serve(.views, of: $0) }
        let opened = Signal<TestStream>()
        for _ in 0..<4_100 {
            for (from, to) in [(0, 1), (1, 0)] {
                nodes[from].transport.open(
                    .views,
                    to: nodes[to].number,
                    request: [],
                    opened: { port in
                        let stream = TestStream(port)
                        opened.send(stream)
                        return stream
                    },
                    failed: { Issue.record("\($0)") }
                )
            }
        }
        let near = await opened.wait(8_200)
        for accepted in accepted { await accepted.wait(4_100) }
        #expect(try await nodes[0].call(1, [1], to: nodes[1]).get() == [2, 1, 1])
        #expect(near.count == 8_200 && near.allSatisfy { $0.closes.values.isEmpty })
    }

    /// Together the windows exceed what two sockets hold: each node has to read while it sends.
    @Test func bothNodesSendMuchAtOnce() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let (near, far) = (Signal<Pump>(), Signal<Pump>())
        let (streams, total) = (8, 25 << 20)
        nodes[1].transport.serve(.copies) { port, _ in
            let pump = Pump(port, sendsAfter: 0, total: total)
            far.send(pump)
            return pump
        }
        for _ in 0..<streams {
            nodes[0].transport.open(
                .copies,
                to: nodes[1].number,
                request: [],
                opened: { port in
                    let pump = Pump(port, sendsAfter: 0, total: total)
                    near.send(pump)
                    return pump
                },
                failed: { Issue.record("\($0)") }
            )
        }
        let pumps = await near.wait(streams) + far.wait(streams)
        #expect(pumps.count == 2 * streams)
        for pump in pumps {
            let isDone = await eventually { pump.state.withLock { $0.received } >= total }
            try #require(isDone)
            #expect(pump.state.withLock { $0.received == total && $0.mistakes == 0 })
        }
    }

    @Test func unreleasedMessagesBlockSenderUntilTheirRelease() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let accepted = TestStream.serve(
            .views,
            of: nodes[1],
            .init(keepsMessages: true, isCounting: true)
        )
        let near = try await TestStream.open(
            .views,
            from: nodes[0],
            to: nodes[1].number,
            .init(floodBytes: 32 << 10)
        )
        let far = try #require(await accepted.wait().first)
        let windowBytes = NodeService.views.row.windowBytes
        for round in 1...5 {
            let isFull = await eventually { far.now.receivedBytes >= round * windowBytes }
            try #require(isFull, "\(round)")
            try await Task.sleep(for: .milliseconds(50))
            #expect(near.now.sentBytes <= round * windowBytes + 64 << 10)
            far.port.release(windowBytes)
        }
    }

    @Test(arguments: [String?.some("it is shut down"), nil])
    func endedStreamIsClosedWithItsReasonOnBothSides(_ reason: String?) async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let accepted = TestStream.serve(.views, of: nodes[1])
        for isFar in [false, true] {
            let near = try await TestStream.open(.views, from: nodes[0], to: nodes[1].number)
            let far = try #require(await accepted.wait(isFar ? 2 : 1).last)
            (isFar ? far : near).port.end(reason)
            #expect(await near.closes.wait() == [reason])
            #expect(await far.closes.wait() == [reason])
        }
    }

    /// What was sent before the end is delivered, also to a handler that pauses.
    @Test func messagesBeforeTheEndReachPausedHandler() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let accepted = TestStream.serve(.views, of: nodes[1], .init(isPaused: true))
        let near = try await TestStream.open(
            .views,
            from: nodes[0],
            to: nodes[1].number,
            .init(outbox: [[1], [2, 3]], isFinishing: true)
        )
        #expect(await near.closes.wait() == [nil])
        let far = try #require(await accepted.wait().first)
        #expect(await nodes[0].call(77, [], to: nodes[1]) == .failure(.notHandled))
        #expect(far.closes.values.isEmpty)
        far.change { $0.isPaused = false }
        #expect(await far.closes.wait() == [nil])
        #expect(far.messages.values == [[1], [2, 3]])
    }

    @Test func refusedStreamsAreClosedWithTheCause() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let unserved = try await TestStream.open(.views, from: nodes[0], to: nodes[1].number)
        #expect(await unserved.closes.wait() == ["it does not serve the service 7"])
        nodes[1].transport.serve(.views) { _, _ in nil }
        let refused = try await TestStream.open(.views, from: nodes[0], to: nodes[1].number)
        #expect(await refused.closes.wait() == ["it refused the stream"])
        _ = TestStream.serve(.views, of: nodes[1], .init(flaw: "an unknown question"))
        let invalid = try await TestStream.open(.views, from: nodes[0], to: nodes[1].number)
        invalid.send([[1]])
        #expect(await invalid.closes.wait() == ["it could not read what this node sent"])
        // The link is still good.
        _ = nodes[1].echo()
        #expect(try await nodes[0].call(1, [1], to: nodes[1]).get() == [2, 1, 1])
    }

    // MARK: This node

    @Test func streamToOwnNodeHasPauseReleaseAndEnd() async throws {
        let node = try PeerNode(1)
        defer { node.stop() }
        node.transport.setIdentity(PeerNode.identity(node.number))
        let accepted = TestStream.serve(
            .views,
            of: node,
            .init(isPaused: true, keepsMessages: true)
        )
        let near = try await TestStream.open(
            .views,
            from: node,
            to: node.number,
            request: [8],
            .init(outbox: [[1], [UInt8](repeating: 2, count: 3 << 20)])
        )
        let far = try #require(await accepted.wait().first)
        #expect(far.request == [8] && far.port.node == node.number)
        let isSent = await eventually { near.now.outbox.isEmpty }
        try #require(isSent)
        #expect(far.messages.values.isEmpty)
        far.change { $0.isPaused = false }
        #expect(await far.messages.wait(2).map(\.count) == [1, 3 << 20])
        // The window is used up until the kept messages are released.
        near.send([[3]])
        try await Task.sleep(for: .milliseconds(50))
        #expect(near.now.outbox == [[3]])
        far.port.release((3 << 20) + 1)
        #expect(await far.messages.wait(3).last == [3])
        far.change { state in
            state.outbox = [[4], [5]]
            state.isFinishing = true
        }
        #expect(await near.closes.wait() == [nil])
        #expect(await far.closes.wait() == [nil])
        #expect(near.messages.values == [[4], [5]])
        node.transport.serve(.views) { _, _ in nil }
        let refused = try await TestStream.open(.views, from: node, to: node.number)
        #expect(await refused.closes.wait() == ["it does not serve the stream"])
    }

    // MARK: Links

    @Test func nodesThatCallEachOtherAtOnceHaveOneConnection() async throws {
        for round in 0..<5 {
            let nodes = try (1...8).map { try PeerNode($0) }
            for node in nodes { node.identify() }
            for node in nodes { node.know(nodes) }
            let isSettled = await eventually {
                nodes.allSatisfy { $0.transport.counts == (all: 7, halfOpen: 0) }
            }
            try #require(isSettled, "\(round): \(nodes.map(\.transport.counts))")
            for node in nodes { _ = node.echo() }
            for (one, other) in nodes.flatMap({ one in nodes.map { (one, $0) } }) {
                let expected = [UInt8(other.number.value), UInt8(one.number.value)]
                #expect(try await one.call(1, [], to: other).get() == expected)
            }
            #expect(nodes.allSatisfy { $0.transport.counts.all == 7 })
            for node in nodes { node.stop() }
        }
    }

    /// The bulk connection of a pair is opened with its first stream, by either side.
    @Test func allStreamsOfTwoNodesShareTwoConnections() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let isSettled = await eventually { nodes.allSatisfy { $0.transport.counts.all == 1 } }
        #expect(isSettled)
        let accepted = nodes.map { node in
            [NodeService.copies, .views].map { TestStream.serve($0, of: node) }
        }
        for _ in 0..<20 {
            for (near, far) in [(0, 1), (1, 0)] {
                for service in [NodeService.copies, .views] {
                    _ = try await TestStream.open(service, from: nodes[near], to: nodes[far].number)
                }
            }
        }
        for streams in accepted.joined() { #expect(await streams.wait(20).count == 20) }
        #expect(nodes.allSatisfy { $0.transport.counts == (all: 2, halfOpen: 0) })
    }

    /// The link of the lower node is the one that stays, so two calls cannot replace each other for ever.
    @Test func secondConnectionOfHigherNodeIsRefused() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let second = try await RawPeer.connect(as: NodeNumber(2), to: nodes[0], over: nodes[1])
        #expect(await second.refusals.wait().first == .connected)
        let isLost = nodes[0].events.values.contains { event in
            if case .disconnected = event { true } else { false }
        }
        #expect(!isLost)
    }

    @Test func connectionOfLowerNodeReplacesItsEarlierOne() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let heard = nodes[1].echo()
        let second = try await RawPeer.connect(as: NodeNumber(1), to: nodes[1], over: nodes[0])
        await second.established.wait()
        let left = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(2)) = event { true } else { false }
        }
        #expect(!left.isEmpty)
        // The next link of node 1 replaces that one.
        #expect(await second.closes.wait().count == 1)
        let isReached = await eventually {
            nodes[0].send(2, [1], to: nodes[1])
            return !heard.values.isEmpty
        }
        #expect(isReached)
    }

    @Test func lostLinkClosesItsStreamsAndLaterOnesOpenAnother() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { nodes[0].stop() }
        var accepted = TestStream.serve(.copies, of: nodes[1])
        let streams = try await [
            TestStream.open(.copies, from: nodes[0], to: nodes[1].number),
            TestStream.open(.copies, from: nodes[0], to: nodes[1].number),
        ]
        let far = await accepted.wait(2)
        nodes[1].stop()
        for stream in streams {
            let reason = await stream.closes.wait().first ?? nil
            try #require(reason == "it ended the connection")
        }
        for stream in far { #expect(await stream.closes.wait().count == 1) }
        // The main connection ends by itself.
        let areGone = await eventually {
            nodes[0].transport.counts.all - nodes[0].transport.counts.halfOpen == 0
        }
        #expect(areGone)

        let back = try PeerNode(2, port: nodes[1].address.port)
        defer { back.stop() }
        accepted = TestStream.serve(.copies, of: back)
        back.identify()
        back.know([nodes[0], back])
        #expect(await back.connected(to: nodes[0]))
        let later = try await TestStream.open(.copies, from: nodes[0], to: back.number)
        later.send([[6]])
        #expect(await accepted.wait().first?.messages.wait() == [[6]])
    }

    @Test func waitingStreamsFailIfNodeCannotBeReached() async throws {
        var limits = PeerLimits()
        limits.openNanoseconds = 300_000_000
        let node = try PeerNode(1, limits: limits)
        defer { node.stop() }
        let silent = try SilentListener()
        defer { silent.close() }
        let closed = try SilentListener()
        closed.close()
        node.transport.setIdentity(PeerNode.identity(node.number))
        let ports = [NodeNumber(2): silent.port, NodeNumber(3): closed.port]
        node.transport.setDirectory(
            PeerDirectory(
                ports.reduce(into: [:]) { nodes, entry in
                    let key = PeerNode.keys(entry.key).publicKey
                    nodes[entry.key] = PeerAddress(host: "127.0.0.1", port: entry.value, key: key)
                }
            )
        )
        async let first = TestStream.failure(.copies, from: node, to: NodeNumber(2))
        async let second = TestStream.failure(.copies, from: node, to: NodeNumber(2))
        for reason in await [first, second] { #expect(reason == PeerFailure.timedOut.description) }
        let refused = await TestStream.failure(.views, from: node, to: NodeNumber(3))
        #expect(refused?.contains("127.0.0.1:\(closed.port)") == true, "\(refused ?? "")")
    }

    @Test func stopFailsStreamsThatWait() async throws {
        let node = try PeerNode(1)
        let silent = try SilentListener()
        defer { silent.close() }
        node.identify()
        node.know([node], at: [NodeNumber(2): silent.port])
        let isKnown = await eventually { node.transport.counts.halfOpen > 0 }
        #expect(isKnown)
        async let failure = TestStream.failure(.copies, from: node, to: NodeNumber(2))
        try await Task.sleep(for: .milliseconds(50))
        node.stop()
        #expect(await failure == PeerFailure.closed.description)
    }
}
