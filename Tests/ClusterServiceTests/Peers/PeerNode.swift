import Bytes
import ClusterService
import Credentials
import Glibc
import LinuxPlatform
import OpenSSLPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Sleeps for two milliseconds on the test's thread.
func usleepShortly() { usleep(2_000) }

/// One node's connections to other nodes, over real sockets and its own reactors.
final class PeerNode: Sendable {
    let number: NodeNumber
    let world: LinuxEnvironment
    let transport: PeerTransport
    let lane: any Lane
    let calls: PeerCalls
    let address: SocketAddress
    let events = Signal<PeerEvent>()

    init(
        _ number: UInt16,
        port: UInt16 = 0,
        limits: PeerLimits = PeerLimits(),
        reactors: ReactorLimits = ReactorLimits()
    ) throws {
        self.number = NodeNumber(number)
        world = LinuxEnvironment.make(
            reactors: 2,
            trace: RecordingTrace(threshold: .fault),
            limits: reactors,
            security: OpenSSLSecurity()
        )
        transport = PeerTransport(environment: world.environment, limits: limits)
        lane = world.environment.lanes.makeLane("control")
        calls = PeerCalls(over: transport, lane: lane)
        address = try transport.listen(on: SocketAddress(host: "127.0.0.1", port: port))
        let events = events
        calls.observe { events.send($0) }
    }

    func stop() {
        lane.post { [calls] in calls.stop() }
        lane.stop()
        transport.stop()
        world.stop()
    }

    static func keys(_ number: NodeNumber) -> KeyPair {
        let secrets = NodeSecrets(seed: [UInt8](repeating: UInt8(number.value), count: 32))
        return KeyPair(publicKey: secrets.publicKeys.identity, privateKey: secrets.seed)
    }

    static func identity(_ number: NodeNumber, epoch: UInt64 = 1) -> PeerIdentityProof {
        PeerIdentityProof(
            claim: PeerClaim(
                node: number,
                nodeUUID: "uuid-of-\(number)",
                clusterUUID: "cluster",
                group: 40 + epoch,
                epoch: epoch
            ),
            keys: keys(number)
        )
    }

    /// - Parameters:
    ///   - epoch: The epoch of its cluster.
    ///   - keys: Its key pair; nil for that of its number.
    ///   - level: The feature level that it announces.
    func identify(epoch: UInt64 = 1, keys: KeyPair? = nil, level: FeatureLevel = .current) {
        var identity = PeerNode.identity(number, epoch: epoch)
        identity.claim.level = level
        if let keys { identity.keys = keys }
        lane.post { [calls, identity] in calls.setIdentity(identity) }
    }

    /// - Parameters:
    ///   - nodes: The nodes in its directory.
    ///   - elsewhere: Ports of further nodes, where no node listens.
    ///   - highestGiven: The highest number that was given to a node.
    ///   - level: The cluster's feature level.
    func know(
        _ nodes: [PeerNode],
        at elsewhere: [NodeNumber: UInt16] = [:],
        highestGiven: UInt16 = 0,
        level: FeatureLevel = .lowest
    ) {
        var directory = PeerDirectory(highestGiven: NodeNumber(highestGiven), level: level)
        for node in nodes {
            directory.nodes[node.number] = PeerAddress(
                host: node.address.host,
                port: node.address.port,
                key: PeerNode.keys(node.number).publicKey
            )
        }
        for (node, port) in elsewhere {
            directory.nodes[node] = PeerAddress(
                host: "127.0.0.1",
                port: port,
                key: PeerNode.keys(node).publicKey
            )
        }
        lane.post { [calls, directory] in calls.setDirectory(directory) }
    }

    func call(
        _ kind: UInt16,
        _ payload: [UInt8],
        to node: PeerNode,
        seconds: Double = 10
    ) async -> Result<[UInt8], PeerCallError> {
        await calls.call(
            kind,
            payload,
            to: node.number,
            timeoutNanoseconds: UInt64(seconds * 1_000_000_000)
        )
    }

    func send(_ kind: UInt16, _ payload: [UInt8], to node: PeerNode, isBulk: Bool? = nil) {
        let number = node.number
        lane.post { [calls] in calls.send(kind, payload, to: number, isBulk: isBulk) }
    }

    /// Answers calls of kind 1 with its own number and the payload; records messages of kind 2.
    func echo() -> Signal<(NodeNumber, [UInt8])> {
        let heard = Signal<(NodeNumber, [UInt8])>()
        let own = UInt8(number.value)
        lane.post { [calls] in
            calls.handleCalls(1) { from, payload, answer in
                answer([own, UInt8(from.value)] + payload)
            }
            calls.handleMessages(2) { heard.send(($0, $1)) }
        }
        return heard
    }

    /// Nodes 1 to `count` of one cluster, each with all others in its directory.
    static func cluster(
        _ count: UInt16,
        limits: PeerLimits = PeerLimits()
    ) async throws -> [PeerNode] {
        let nodes = try (1...count).map { try PeerNode($0, limits: limits) }
        for node in nodes {
            node.identify()
            node.know(nodes)
        }
        // Attempts may fail until the other node has its identity.
        for (one, other) in nodes.flatMap({ one in nodes.map { (one, $0) } })
        where one.number != other.number {
            #expect(await one.connected(to: other))
        }
        return nodes
    }

    func connected(to node: PeerNode) async -> Bool {
        let number = node.number
        return await events.wait { event in
            if case .connected(number) = event { true } else { false }
        }.count > 0
    }
}

/// A port of 127.0.0.1 where connections are accepted and not answered.
struct SilentListener {
    let port: UInt16
    private let descriptor: Int32

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, size) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, pointer, &size) == 0
            }
        }
        try #require(isBound)
        self.descriptor = descriptor
        port = UInt16(bigEndian: address.sin_port)
    }

    func close() { _ = Glibc.close(descriptor) }
}
