import Bytes
import ClusterService
import Credentials
import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Strangers that send garbage, nothing, or an incomplete greeting.
@Suite struct PeerStrangerTests {
    private struct Guest: Sendable {
        let heard = Signal<[UInt8]>()
        let closed = Signal<Void>()
    }

    /// Connects without a handshake and sends `words`.
    private func visit(_ node: PeerNode, from visitor: PeerNode, _ words: [UInt8]) -> Guest {
        let guest = Guest()
        visitor.world.environment.network.connect(
            to: node.address,
            connected: { port in
                port.wake()
                return ClosureHandler(
                    receive: { input, _ in
                        guest.heard.send(input.bytes)
                        return ReceiveProgress(consumed: input.count, next: .receive)
                    },
                    wake: { _, output in
                        output.append(words)
                        return ReceiveProgress(consumed: 0, next: .receive)
                    },
                    closed: { guest.closed.send(()) }
                )
            },
            failed: { Issue.record("\($0)") }
        )
        return guest
    }

    @Test func connectionWithGarbageIsClosed() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        var random = SeededRandom(seed: 5)
        let hello = Array("DVNP".utf8)
        for round in 0..<50 {
            let count = 32 + Int(random.next() % 3_000)
            var words = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            if round % 2 == 0 { words = hello + [1, 0, 1, 0, 40] + words }
            let guest = visit(nodes[0], from: nodes[1], words)
            #expect(await guest.closed.wait().count == 1, "\(round)")
        }
        let text = visit(nodes[0], from: nodes[1], Array("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(await text.closed.wait().count == 1)
        // At most a TLS alert.
        #expect(text.heard.values.flatMap { $0 }.count <= 7)
        // Members can still connect.
        _ = nodes[0].echo()
        #expect(try await nodes[1].call(1, [], to: nodes[0]).get() == [1, 2])
    }

    @Test func silentConnectionsTimeOutAndAreBounded() async throws {
        var limits = PeerLimits()
        limits.handshakeNanoseconds = 1_500_000_000
        limits.halfOpenMax = 8
        let nodes = try [PeerNode(1, limits: limits), PeerNode(2)]
        defer { for node in nodes { node.stop() } }
        _ = nodes[0].echo()
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        #expect(try await nodes[1].call(1, [], to: nodes[0]).get() == [1, 2])
        let words: [UInt8] = [22, 3, 1, 2, 0]
        let guests = (0..<40).map { index in
            visit(nodes[0], from: nodes[1], Array(words.prefix(index % 5)))
        }
        // The oldest are closed at once, the others after the timeout.
        let isCrowded = await eventually {
            guests.count { !$0.closed.values.isEmpty } >= 32
        }
        #expect(isCrowded)
        #expect(nodes[0].transport.counts.halfOpen <= 8)
        #expect(try await nodes[1].call(1, [], to: nodes[0]).get() == [1, 2])
        let areGone = await eventually { guests.allSatisfy { !$0.closed.values.isEmpty } }
        #expect(areGone)
        let isEmpty = await eventually { nodes[0].transport.counts.halfOpen == 0 }
        #expect(isEmpty)
    }

    @Test func halfOpenConnectionsOfOtherAddressesDoNotCloseThoseOfMembers() async throws {
        var limits = PeerLimits()
        limits.halfOpenMax = 4
        let nodes = try await PeerNode.cluster(2, limits: limits)
        defer { for node in nodes { node.stop() } }
        // Its address is that of node 2 in the directory, and it is the oldest.
        let member = try SilentSocket(from: "127.0.0.1", to: nodes[0].address.port)
        let isIn = await eventually { nodes[0].transport.counts.halfOpen >= 1 }
        #expect(isIn)
        let strangers = try (0..<24).map { _ in
            try SilentSocket(from: "127.0.0.2", to: nodes[0].address.port)
        }
        let areBounded = await eventually { strangers.count { $0.isClosed } >= 20 }
        #expect(areBounded)
        #expect(!member.isClosed)
    }

    /// Strangers may have any key for `join`, so their connections are few.
    @Test func unauthenticatedPeerConnectionsAreBoundedInNumber() async throws {
        var limits = PeerLimits()
        limits.strangersMax = 4
        let strangers = try await Strangers(limits)
        defer { strangers.stop() }
        for count in 1...12 {
            strangers.call()
            #expect(await strangers.called.wait(count).count == count)
        }
        let outcomes = await strangers.ended.wait(8)
        #expect(outcomes.count == 8 && outcomes.allSatisfy { $0 == .failure(.unreachable) })
        #expect(strangers.nodes[0].transport.counts.all <= 4)
    }

    /// The limit of time includes the handshake, so on a slow machine the call need not arrive.
    @Test func unauthenticatedPeerConnectionsAreBoundedInTime() async throws {
        var limits = PeerLimits()
        limits.strangerNanoseconds = 300_000_000
        let strangers = try await Strangers(limits)
        defer { strangers.stop() }
        strangers.call()
        #expect(await strangers.ended.wait().first == .failure(.unreachable))
        let isGone = await eventually { strangers.nodes[0].transport.counts.all == 0 }
        #expect(isGone)
    }

    /// A node that never answers `join`, so the connection stays, and one that calls it.
    private struct Strangers {
        let nodes: [PeerNode]
        let called = Signal<Void>()
        let ended = Signal<Result<[UInt8], PeerCallError>>()

        /// Returns once the called node has its identity: before, it refuses a connection.
        init(_ limits: PeerLimits) async throws {
            nodes = try [PeerNode(1, limits: limits), PeerNode(2)]
            for node in nodes { node.identify() }
            let isReady = Signal<Void>()
            nodes[0].lane.post { [calls = nodes[0].calls, called] in
                calls.handleStrangers(3) { _, _, _ in called.send(()) }
                isReady.send(())
            }
            #expect(await isReady.wait().count == 1)
        }

        func call() {
            let address = PeerAddress(host: "127.0.0.1", port: nodes[0].address.port, key: nil)
            nodes[1].lane.post { [calls = nodes[1].calls, ended] in
                let payload: PeerCalls.StrangerPayload = { port in
                    #expect(!port.identity.isProved)
                    return []
                }
                calls.callStranger(
                    at: address,
                    3,
                    payload,
                    timeoutNanoseconds: 60_000_000_000
                ) { ended.send($0) }
            }
        }

        func stop() { for node in nodes { node.stop() } }
    }

    /// A listener that never answers the greeting.
    @Test func connectingToNodeWithoutGreetingTimesOut() async throws {
        var limits = PeerLimits()
        limits.handshakeNanoseconds = 200_000_000
        let nodes = try [PeerNode(1, limits: limits), PeerNode(2)]
        defer { for node in nodes { node.stop() } }
        nodes[0].identify()
        let mute = try nodes[1].world.environment.network.listen(
            on: SocketAddress(host: "127.0.0.1", port: 0)
        ) { _ in
            ClosureHandler.sink()
        }
        let address = PeerAddress(
            host: "127.0.0.1",
            port: mute.address.port,
            key: PeerNode.keys(NodeNumber(2)).publicKey
        )
        nodes[0].lane.post { [calls = nodes[0].calls] in
            calls.setDirectory(PeerDirectory([NodeNumber(2): address]))
        }
        let failed = await nodes[0].events.wait { event in
            if case .failed(NodeNumber(2), .timedOut) = event { true } else { false }
        }
        #expect(!failed.isEmpty)
    }
}

/// A connected socket that sends nothing.
private final class SilentSocket {
    private let descriptor: Int32

    /// Connects from the IPv4 address `host` to a port of 127.0.0.1.
    init(from host: String, to port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        func address(_ host: String, _ port: UInt16) -> sockaddr_in {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr(host)
            address.sin_port = port.bigEndian
            return address
        }
        func attempt(
            _ address: sockaddr_in,
            _ call: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
        ) throws {
            let status = withUnsafePointer(to: address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            try #require(status == 0, "errno \(errno)")
        }
        try attempt(address(host, 0)) { bind($0, $1, $2) }
        try attempt(address("127.0.0.1", port)) { connect($0, $1, $2) }
    }

    deinit { close(descriptor) }

    /// Whether the other side has closed the connection.
    var isClosed: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT))
        return count == 0 || (count < 0 && errno == ECONNRESET)
    }
}
