import Bytes
import ClusterService
import Credentials
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Messages and calls between nodes in one process, over real sockets.
@Suite struct PeerCallsTests {
    @Test func threeNodesCallEachOtherAndThemselves() async throws {
        let nodes = try await PeerNode.cluster(3)
        defer { for node in nodes { node.stop() } }
        let heard = nodes.map { $0.echo() }
        for (index, node) in nodes.enumerated() {
            for other in nodes {
                let answer = await node.call(1, [9, UInt8(index)], to: other)
                let expected = [
                    UInt8(other.number.value), UInt8(node.number.value), 9, UInt8(index),
                ]
                #expect(try answer.get() == expected)
                node.send(2, [UInt8(index)], to: other)
            }
        }
        for (index, node) in nodes.enumerated() {
            let messages = await heard[index].wait(3)
            #expect(Set(messages.map(\.0)) == Set(nodes.map(\.number)), "\(node.number)")
            #expect(messages.allSatisfy { $1 == [UInt8($0.value) - 1] })
        }
    }

    @Test func callsOfAllSizesGetTheirOwnAnswers() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        _ = nodes[1].echo()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let size = number % 10 == 0 ? 100_000 + number : number
                    let payload = [UInt8](repeating: UInt8(number % 256), count: size)
                    let answer = await nodes[0].call(1, payload, to: nodes[1], seconds: 20)
                    #expect((try? answer.get()) == [2, 1] + payload)
                }
            }
        }
    }

    @Test func unhandledAndUnansweredCallsFail() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        nodes[1].lane.post { nodes[1].calls.handleCalls(5) { _, _, _ in } }
        for target in nodes {
            let refused = await nodes[0].call(77, [], to: target)
            #expect(refused == .failure(.notHandled))
        }
        let silent = await nodes[0].call(5, [], to: nodes[1], seconds: 0.05)
        #expect(silent == .failure(.timedOut))
        // The connection is still good.
        _ = nodes[1].echo()
        #expect(try await nodes[0].call(1, [1], to: nodes[1]).get() == [2, 1, 1])
        let stranger = await nodes[0].calls.call(
            1,
            [],
            to: NodeNumber(9),
            timeoutNanoseconds: 1_000_000_000
        )
        #expect(stranger == .failure(.unreachable))
    }

    /// A change between nodes is one message; a frame of the link is buffered as a whole.
    @Test func largestStoredValueFitsIntoTheBoundsOfServices() {
        let change = Limits.storedValueBytesMax + 255 + DCPEncoder.changeBytesMax
        for service in [NodeService.copies, .feeds, .calls] {
            #expect(service.row.messageBytesMax > change)
        }
        #expect(PeerLimits().contentBytesMax > LinkFrame.headerBytes + LinkFrame.payloadBytesMax)
        #expect(PeerLimits().queueBytesMax >= 2 * NodeService.callBytesMax)
    }

    @Test func callsBeyondThoseThatMayWaitAreOverloaded() async throws {
        var limits = PeerLimits()
        // The stream of messages waits, too.
        limits.waitingMax = 2
        let node = try PeerNode(1, limits: limits)
        defer { node.stop() }
        let silent = try SilentListener()
        defer { silent.close() }
        node.identify()
        node.know([node], at: [NodeNumber(2): silent.port])
        let outcomes = Signal<Result<[UInt8], PeerCallError>>()
        node.lane.post { [calls = node.calls] in
            for _ in 0..<2 {
                calls.call(1, [], to: NodeNumber(2), timeoutNanoseconds: 300_000_000) {
                    outcomes.send($0)
                }
            }
        }
        #expect(await outcomes.wait(2) == [.failure(.overloaded), .failure(.timedOut)])
    }

    /// Another process listens at the old addresses of both nodes and does not answer.
    @Test func movedNodeIsConnectedToAtNewAddressAtOnce() async throws {
        var limits = PeerLimits()
        limits.openNanoseconds = 60_000_000_000
        let nodes = try (1...2).map { try PeerNode($0, limits: limits) }
        defer { for node in nodes { node.stop() } }
        let silent = try SilentListener()
        defer { silent.close() }
        for node in nodes { node.identify() }
        nodes[1].know([nodes[1]], at: [nodes[0].number: silent.port])
        nodes[0].know([nodes[0]], at: [nodes[1].number: silent.port])
        try await Task.sleep(for: .milliseconds(200))
        nodes[0].know(nodes)
        let (calls, number) = (nodes[0].calls, nodes[1].number)
        nodes[0].lane.post { calls.redial(number) }
        #expect(await nodes[0].connected(to: nodes[1]))
    }

    @Test func restartedNodeIsReconnected() async throws {
        let nodes = try await PeerNode.cluster(3)
        defer { for node in nodes.prefix(2) { node.stop() } }
        _ = nodes[2].echo()
        #expect(try await nodes[0].call(1, [], to: nodes[2]).get() == [3, 1])
        nodes[2].stop()
        let lost = await nodes[0].events.wait { event in
            if case .disconnected(NodeNumber(3)) = event { true } else { false }
        }
        #expect(!lost.isEmpty)
        let failed = await nodes[0].call(1, [], to: nodes[2], seconds: 5)
        #expect(failed == .failure(.unreachable))
        nodes[0].send(2, [1], to: nodes[2])
        let dropped = await nodes[0].events.wait { event in
            if case .dropped(NodeNumber(3)) = event { true } else { false }
        }
        #expect(!dropped.isEmpty)

        let back = try PeerNode(3, port: nodes[2].address.port)
        defer { back.stop() }
        let heard = back.echo()
        back.identify()
        back.know(Array(nodes.prefix(2)) + [back])
        // Calls wait for an attempt, which may be refused once or twice.
        let answered = await eventually {
            (try? await nodes[0].call(1, [7], to: nodes[2]).get()) == [3, 1, 7]
        }
        #expect(answered)
        nodes[1].send(2, [4], to: nodes[2])
        let reached = await eventually {
            nodes[1].send(2, [4], to: nodes[2])
            return !heard.values.isEmpty
        }
        #expect(reached)
    }

    @Test func newEpochReplacesConnections() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        for node in nodes { _ = node.echo() }
        #expect(try await nodes[0].call(1, [], to: nodes[1]).get() == [2, 1])
        nodes[0].identify(epoch: 2)
        // Until the other node learns of the epoch, both retry; neither is refused as removed.
        let refused = await nodes[0].events.wait { event in
            if case .failed(_, .refused(.notExpected)) = event { true } else { false }
        }
        #expect(!refused.isEmpty)
        nodes[1].identify(epoch: 2)
        for (one, other) in [(nodes[0], nodes[1]), (nodes[1], nodes[0])] {
            let answered = await eventually {
                (try? await one.call(1, [], to: other).get())?.count == 2
            }
            #expect(answered)
        }
        let removed = (nodes[0].events.values + nodes[1].events.values).contains { event in
            if case .failed(_, .refused(.removed)) = event { true } else { false }
        }
        #expect(!removed)
    }

    @Test func removedNodeIsRefusedAsRemovedAndNewNodeAsNotExpected() async throws {
        let nodes = try (1...4).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        for node in nodes {
            node.identify()
            node.know(node.number.value < 3 ? Array(nodes.prefix(2)) : nodes, highestGiven: 3)
        }
        let removed = await nodes[2].events.wait { event in
            if case .failed(_, .refused(.removed(epoch: 1))) = event { true } else { false }
        }
        #expect(!removed.isEmpty)
        let waiting = await nodes[3].events.wait { event in
            if case .failed(NodeNumber(1), .refused(.notExpected)) = event { true } else { false }
        }
        #expect(!waiting.isEmpty)
    }

    @Test func linkIsClosedWhenNodeLeavesDirectory() async throws {
        let nodes = try await PeerNode.cluster(3)
        defer { for node in nodes { node.stop() } }
        _ = nodes[2].echo()
        #expect(try await nodes[0].call(1, [], to: nodes[2]).get() == [3, 1])
        nodes[0].know(Array(nodes.prefix(2)))
        #expect(await nodes[0].call(1, [], to: nodes[2]) == .failure(.unreachable))
        let gone = await eventually {
            // That of node 2; node 3's attempts to connect to node 1 are refused.
            let counts = nodes[2].transport.counts
            return counts.all - counts.halfOpen == 1
        }
        #expect(gone)
    }

    @Test func nodeWithAnotherKeyIsRefused() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        _ = nodes[1].echo()
        nodes[0].identify(keys: PeerNode.keys(NodeNumber(4)))
        nodes[1].identify()
        for node in nodes { node.know(nodes) }
        let refused = await nodes[0].events.wait { event in
            if case .failed(_, .refused(.keyRefused)) = event { true } else { false }
        }
        #expect(!refused.isEmpty)
        let failed = await nodes[0].call(1, [], to: nodes[1], seconds: 2)
        #expect(failed == .failure(.untrusted))
    }

    @Test func callToUnauthenticatedNodeSucceedsIfItsKeyMatches() async throws {
        let nodes = try (1...2).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        for node in nodes { node.identify() }
        nodes[1].lane.post {
            nodes[1].calls.handleStrangers(3) { _, payload, answer in
                // A node whose identity changes during the call still answers.
                nodes[1].calls.setIdentity(PeerNode.identity(NodeNumber(2), epoch: 2))
                answer(payload.reversed())
            }
            nodes[1].calls.handleCalls(4) { _, _, answer in answer([]) }
        }
        let own = PeerNode.keys(NodeNumber(2)).publicKey
        let address = PeerAddress(host: "localhost", port: nodes[1].address.port, key: nil)
        for (kind, expected) in [
            (UInt16(3), Result<[UInt8], PeerCallError>.success([3, 2, 1])),
            // Strangers may not make members' calls.
            (4, .failure(.notHandled)),
        ] {
            let heard = Signal<Result<[UInt8], PeerCallError>>()
            nodes[0].lane.post {
                nodes[0].calls.callStranger(
                    at: address,
                    kind,
                    { $0.identity.key == own ? [1, 2, 3] : nil },
                    timeoutNanoseconds: 5_000_000_000
                ) { heard.send($0) }
            }
            #expect(await heard.wait().first == expected)
        }
        // Neither a key that the caller does not trust nor one that it does not expect gets a call.
        let other = PeerNode.keys(NodeNumber(3)).publicKey
        for (key, payload) in [(nil, nil), (other, [UInt8(1)])] {
            let heard = Signal<Result<[UInt8], PeerCallError>>()
            let address = PeerAddress(host: "localhost", port: nodes[1].address.port, key: key)
            nodes[0].lane.post {
                nodes[0].calls.callStranger(
                    at: address,
                    3,
                    { _ in payload },
                    timeoutNanoseconds: 5_000_000_000
                ) { heard.send($0) }
            }
            #expect(await heard.wait().first == .failure(.untrusted))
        }
        let nowhere = Signal<Result<[UInt8], PeerCallError>>()
        nodes[0].lane.post {
            nodes[0].calls.callStranger(
                at: PeerAddress(host: "no-such-host.invalid", port: 1, key: nil),
                3,
                { _ in [] },
                timeoutNanoseconds: 30_000_000_000
            ) { nowhere.send($0) }
        }
        #expect(await nowhere.wait().first == .failure(.unreachable))
    }
}
