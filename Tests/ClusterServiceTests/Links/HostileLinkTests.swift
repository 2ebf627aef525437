import Bytes
import ClusterService
import LinuxPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// A member of the cluster that breaks the protocol of the link: only its link or its stream ends.
@Suite struct HostileLinkTests {
    /// The attacker proves the key of node 1.
    ///
    /// Node 3 is its target, and node 2 still calls that one.
    private struct Scene {
        let nodes: [PeerNode]
        var target: PeerNode { nodes[0] }
        var caller: PeerNode { nodes[1] }

        init(_ reactors: ReactorLimits = ReactorLimits()) async throws {
            nodes = try [PeerNode(3, reactors: reactors), PeerNode(2)]
            let closed = try SilentListener()
            closed.close()
            for node in nodes {
                node.identify()
                node.know(nodes, at: [NodeNumber(1): closed.port])
            }
            _ = nodes[0].echo()
            #expect(await caller.connected(to: target))
        }

        func attacker(_ connection: NodeService.Connection = .main) async throws -> RawPeer {
            let number = NodeNumber(1)
            let peer = try await RawPeer.connect(as: number, to: target, connection, over: caller)
            await peer.established.wait()
            return peer
        }

        /// Whether the call of another node is still answered on the same link.
        func isServing() async -> Bool {
            let answer = await caller.call(1, [5], to: target)
            let isLost = caller.events.values.contains { event in
                if case .disconnected = event { true } else { false }
            }
            return answer == .success([3, 2, 5]) && !isLost
        }

        func stop() { for node in nodes { node.stop() } }
    }

    private static let views = NodeService.views.rawValue
    private static let credit = LinkFrame.Kind.credit
    /// A number that no node has given to a stream.
    private static let unknown: UInt64 = 1_000_000

    private static let openedViews = RawPeer.frame(.open, 1, [views])

    /// Bytes that end the link, each with what is wrong.
    private static let broken: [(String, [UInt8])] = [
        ("kind 0", RawPeer.frame(0, 1)),
        ("kind 99", RawPeer.frame(99, 1, [1, 2])),
        ("largest length", [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1, 3]),
        ("long message", [0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 3]),
        ("open without service", RawPeer.frame(.open, 1)),
        ("open without stream", RawPeer.frame(.open, 0, [views])),
        ("empty part", openedViews + RawPeer.frame(.part, 1)),
        ("short credit", openedViews + RawPeer.frame(credit, 1, [0, 0, 1])),
        ("long reason", openedViews + RawPeer.frame(.end, 1, [UInt8](repeating: 65, count: 257))),
        ("ping with bytes", RawPeer.frame(.ping, 0, [1])),
        ("ping of a stream", RawPeer.frame(.ping, 1)),
        ("number of the other side", RawPeer.frame(.open, unknown, [views])),
        ("number used twice", openedViews + openedViews),
        ("descending number", RawPeer.frame(.open, 3, [views]) + openedViews),
        ("message of no stream", RawPeer.frame(.message, 1, [1])),
        ("message beyond the last stream", openedViews + RawPeer.frame(.message, 3, [1])),
        ("credit of no stream", RawPeer.frame(credit, unknown, [0, 0, 0, 1])),
        ("end of no stream", RawPeer.frame(.end, unknown)),
        ("too much credit", openedViews + RawPeer.frame(credit, 1, [0, 0, 0, 1])),
        ("largest credit", openedViews + RawPeer.frame(credit, 1, [255, 255, 255, 255])),
    ]

    @Test func brokenFrameEndsOnlyItsLink() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let accepted = TestStream.serve(.views, of: scene.target)
        for (flaw, bytes) in HostileLinkTests.broken {
            let peer = try await scene.attacker()
            peer.send(bytes)
            #expect(await peer.closes.wait().count == 1, "\(flaw)")
            #expect(await scene.isServing(), "\(flaw)")
        }
        for stream in accepted.values {
            let reason = await stream.closes.wait().first ?? nil
            #expect(reason?.hasPrefix("it sent ") == true, "\(reason ?? "")")
        }
    }

    @Test func messagesBeyondTheWindowEndTheLink() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let accepted = TestStream.serve(.views, of: scene.target, .init(isPaused: true))
        let peer = try await scene.attacker()
        peer.send(HostileLinkTests.openedViews)
        let stream = try #require(await accepted.wait().first)
        let size = 64 << 10
        let message = RawPeer.frame(.message, 1, [UInt8](repeating: 1, count: size))
        for _ in 0..<NodeService.views.row.windowBytes / size { peer.send(message) }
        #expect(await peer.isAnswered())
        peer.send(RawPeer.frame(.message, 1, [1]))
        #expect(await peer.closes.wait().count == 1)
        #expect(await stream.closes.wait() == ["it sent more than stream 1 may send"])
        #expect(await scene.isServing())
    }

    @Test func messageLargerThanItsServiceAllowsEndsTheLink() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let peer = try await scene.attacker()
        peer.send(RawPeer.frame(.open, 1, [NodeService.calls.rawValue]))
        let size = LinkFrame.payloadBytesMax
        let part = RawPeer.frame(.part, 1, [UInt8](repeating: 1, count: size))
        for _ in 0..<NodeService.callBytesMax / size { peer.send(part) }
        #expect(await peer.isAnswered())
        peer.send(RawPeer.frame(.message, 1, [1]))
        #expect(await peer.closes.wait().count == 1)
        #expect(await scene.isServing())
    }

    /// An unknown service may be one of a later release.
    @Test func streamThatIsNotServedEndsAlone() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        scene.target.transport.serve(.views) { _, request in
            request.isEmpty ? nil : TestStream(ClosedPort(), .init(flaw: "nonsense"))
        }
        let peer = try await scene.attacker()
        let cases: [([UInt8], String)] = [
            ([200], "it does not serve the service 200"),
            ([0, 1, 2], "it does not serve the service 0"),
            // Copies have the other connection.
            ([NodeService.copies.rawValue], "it does not serve the service 6"),
            ([HostileLinkTests.views], "it refused the stream"),
        ]
        for (index, (payload, reason)) in cases.enumerated() {
            let number = UInt64(2 * index + 1)
            // What follows was sent before the end arrived.
            peer.send(RawPeer.frame(.open, number, payload) + RawPeer.frame(.message, number, [1]))
            let ends = await peer.frames.wait { $0.kind == .end && $0.stream == number }
            #expect(ends.first?.payload == Array(reason.utf8))
        }
        let number = UInt64(2 * cases.count + 1)
        peer.send(RawPeer.frame(.open, number, [HostileLinkTests.views, 1]))
        peer.send(RawPeer.frame(.message, number, [1]) + RawPeer.frame(.message, number, [2]))
        let ends = await peer.frames.wait { $0.kind == .end && $0.stream == number }
        #expect(ends.first?.payload == Array("it could not read what this node sent".utf8))
        #expect(await peer.isAnswered())
        #expect(await scene.isServing())
    }

    /// The kinds of messages and calls are inside the first bytes of a message.
    @Test func invalidMessagesOfTheClusterServiceEndTheirStream() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let peer = try await scene.attacker()
        let services = [NodeService.messages, .bulkMessages, .calls]
        for (index, service) in services.enumerated() {
            let number = UInt64(2 * index + 1)
            peer.send(RawPeer.frame(.open, number, [service.rawValue, 9, 9]))
            peer.send(RawPeer.frame(.message, number, [1]))
            let ends = await peer.frames.wait { $0.kind == .end && $0.stream == number }
            #expect(ends.count == 1)
        }
        // A call that follows another one on the same stream.
        peer.send(RawPeer.frame(.open, 7, [NodeService.calls.rawValue]))
        peer.send(RawPeer.frame(.message, 7, [0, 77]) + RawPeer.frame(.message, 7, [0, 1]))
        #expect(await peer.frames.wait { $0.kind == .end && $0.stream == 7 }.count == 1)
        #expect(await peer.isAnswered())
        #expect(await scene.isServing())
    }

    @Test func streamsBeyondTheBoundEndTheLink() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let accepted = TestStream.serve(.views, of: scene.target)
        let peer = try await scene.attacker()
        peer.send(
            (0..<10_000).flatMap { RawPeer.frame(.open, 2 * $0 + 1, [HostileLinkTests.views]) }
        )
        #expect(await peer.closes.wait().count == 1)
        let areClosed = await eventually {
            accepted.values.allSatisfy { !$0.closes.values.isEmpty }
        }
        #expect(areClosed)
        #expect(accepted.values.count <= 8_192)
        #expect(await scene.isServing())
    }

    @Test func manyRefusedStreamsAreAnswered() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        let peer = try await scene.attacker()
        peer.send((0..<10_000).flatMap { RawPeer.frame(.open, 2 * $0 + 1, [200]) })
        #expect(await peer.isAnswered())
        #expect(peer.frames.values.count { $0.kind == .end } == 10_000)
        #expect(await scene.isServing())
    }

    /// The peer's socket reads nothing before all its output is sent.
    @Test func pingsOfPeerThatDoesNotReadEndTheLink() async throws {
        var reactors = ReactorLimits()
        reactors.slowReaderNanoseconds = 500_000_000
        let scene = try await Scene(reactors)
        defer { scene.stop() }
        let peer = try await scene.attacker()
        let ping = RawPeer.frame(.ping)
        let pings = [[UInt8]](repeating: ping, count: 1_000).flatMap(\.self)
        peer.send([[UInt8]](repeating: pings, count: 2_000).flatMap(\.self))
        #expect(await peer.closes.wait().count == 1)
        #expect(await scene.isServing())
    }

    @Test func singleCallConnectionHasOneStream() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        scene.target.lane.post { [calls = scene.target.calls] in
            calls.handleStrangers(3) { _, payload, answer in answer(payload) }
        }
        let peer = try await RawPeer.connect(
            as: NodeNumber(9),
            to: scene.target,
            .join,
            over: scene.caller
        )
        await peer.established.wait()
        let open = RawPeer.frame(.open, 1, [NodeService.join.rawValue])
        peer.send(open + RawPeer.frame(.open, 3, [NodeService.join.rawValue]))
        #expect(await peer.closes.wait().count == 1)
        #expect(await scene.isServing())
    }

    @Test func mutatedFramesNeverStopTheNode() async throws {
        let scene = try await Scene()
        defer { scene.stop() }
        _ = TestStream.serve(.views, of: scene.target, .init(isCounting: true))
        var random = SeededRandom(seed: 11)
        for _ in 0..<100 {
            var bytes: [UInt8] = []
            for number in 0..<20 as Range<UInt64> {
                let services = [HostileLinkTests.views, 1, 2, 3, 8, 99]
                let service = services[Int(random.next() % 6)]
                bytes += RawPeer.frame(.open, 2 * number + 1, [service])
                let stream = random.next() % (2 * number + 4)
                let kind = LinkFrame.Kind.allCases[Int(random.next() % 7)]
                let count = kind == credit ? 4 : Int(random.next() % 300)
                let payload = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                bytes += RawPeer.frame(kind, stream, kind.isOfLink ? [] : payload)
            }
            for _ in 0..<random.next() % 3 {
                let place = Int(random.next() % UInt64(bytes.count))
                bytes[place] = UInt8(truncatingIfNeeded: random.next())
            }
            let peer = try await scene.attacker()
            peer.send(bytes)
            _ = await peer.isAnswered()
            peer.close()
        }
        #expect(await scene.isServing())
    }

    private var credit: LinkFrame.Kind { HostileLinkTests.credit }
}

extension LinkFrame.Kind {
    fileprivate var isOfLink: Bool { self == .ping || self == .pong }
}

/// The port of a stream that is not used.
private final class ClosedPort: StreamPort {
    let node = NodeNumber(0)
    let reactor = 0

    func wake() {}
    func end(_ reason: String?) {}
    func release(_ bytes: Int) {}
}
