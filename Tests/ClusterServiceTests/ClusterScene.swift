import Bytes
import ClusterService
import Credentials
import Foundation
import LinuxPlatform
import OpenSSLPlatform
import Orchestration
import Seams
import TestSupport
import Vocabulary

/// The administrator of the scenes' clusters, who orders every change.
let root = "Administrator"

/// Nodes of one cluster in this process, over real sockets and files, with a data plane that stores
/// no documents.
final class ClusterScene: Sendable {
    let members: [SceneMember]
    let probe = SceneProbe()

    init(_ count: Int) throws {
        let probe = probe
        members = (1...count).map { SceneMember(UInt16($0), probe) }
        for member in members { probe.know(member) }
    }

    func stop() { for member in members { member.stop() } }

    subscript(number: Int) -> AdministrationService { members[number - 1].service }

    /// Starts all nodes and makes one cluster of them.
    func build() async throws {
        for member in members { try await member.start() }
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        try await self[1].useLeastRounds()
        guard case .success = await Result(of: try await self[1].settings.initialise(form)) else {
            throw SceneError("initialise")
        }
        for member in members.dropFirst() {
            let outcome = await Result(
                of: try await self[1].membership.addNode(
                    "127.0.0.1:\(member.ports.admin)",
                    token: "",
                    services: ["kv"],
                    by: root
                )
            )
            guard case .success = outcome else { throw SceneError("addNode: \(outcome)") }
        }
        let known = self[1].state.nodes.map(\.otpNode)
        guard
            case .success = await Result(
                of: try await self[1].membership.rebalance(known: known, ejected: [], by: root)
            )
        else { throw SceneError("rebalance") }
        let isBuilt = await eventually {
            members.allSatisfy { member in
                let state = member.service.state
                return state.rebalance == nil && state.activeNodes.count == members.count
            }
        }
        guard isBuilt else { throw SceneError("the nodes do not become active") }
    }

    /// A bucket whose vBuckets are on these nodes.
    func createBucket(_ rows: [NodeChain], replicas: Int = 1) async throws {
        var settings = BucketSettings(name: "b", uuid: "b-uuid", quota: 100 << 20)
        settings.replicas = replicas
        settings.vBuckets = rows.count
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        let outcome = try await self[1].cluster.propose(.createBucket(bucket))
        guard case .done = outcome else { throw SceneError("createBucket: \(outcome)") }
        let isThere = await eventually {
            members.allSatisfy { $0.service.state.bucket(named: "b") != nil }
        }
        guard isThere else { throw SceneError("a node does not know the bucket") }
    }

    /// Disables automatic failover.
    func keepFromFailingOver() async throws {
        var settings = self[1].state.settings
        settings.autoFailover.isEnabled = false
        _ = try await self[1].cluster.propose(.setSettings(settings))
    }

    /// Three nodes, the first two with a bucket; a rebalance waits for the third one's copies.
    ///
    /// The third node never reports a copy, and is not failed over for that.
    static func waitingForTheThird() async throws -> ClusterScene {
        let scene = try ClusterScene(3)
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one], [one, two]])
        scene.members[2].plane?.heardThrough.withLock { $0 = 0 }
        return scene
    }

    func name(_ number: Int) -> String { "n_\(members[number - 1].ports.admin)@127.0.0.1" }

    func chains(at number: Int) -> [NodeChain] {
        self[number].state.bucket(named: "b")?.placements.map(\.chain) ?? []
    }
}

struct SceneError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// One node; it can be stopped and restarted with its files.
final class SceneMember: Sendable {
    private struct Life: Sendable {
        let world: LinuxEnvironment
        let service: AdministrationService
        let plane: RecordingPlane
        let lanes: TappedLanes
    }

    let root: String
    private let life = Guarded<Life?>(nil)
    private let portsBox: Guarded<NodePorts>
    private let probe: SceneProbe
    let views = Guarded(SceneViews())

    init(_ number: UInt16, _ probe: SceneProbe) {
        root = FileManager.default.temporaryDirectory.path + "/divan-scene-\(UUID().uuidString)"
        // No listener on the data port: other nodes use the peer port only.
        portsBox = Guarded(NodePorts(admin: 40_000 + number, data: 41_000 + number))
        self.probe = probe
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    var ports: NodePorts { portsBox.withLock { $0 } }
    var isRunning: Bool { life.withLock { $0 != nil } }

    var service: AdministrationService {
        guard let service = life.withLock({ $0?.service }) else {
            preconditionFailure("the node does not run")
        }
        return service
    }

    /// Its data plane, with the calls that it received.
    var plane: RecordingPlane? { life.withLock { $0?.plane } }

    /// Holds its disk's lane until `releaseDisk`, so that it stores no decision.
    func holdDisk() { life.withLock { $0?.lanes }?.hold("control-disk") }

    func releaseDisk() { life.withLock { $0?.lanes }?.releaseAll() }

    /// Orders about views that it received, and whether it has the indexes.
    struct SceneViews: Sendable {
        var orders: [ViewCompactionOrder] = []
        var hasIndexes = true
        /// How many orders it receives until its indexes are open.
        var ordersUntilOpen = 0
    }

    /// Has its next start announce this port for views; 0 for none.
    func setViewsPort(_ port: UInt16) { portsBox.withLock { $0.views = port } }

    /// Has its next start listen for other nodes on another port.
    func forgetPeerPort() { portsBox.withLock { $0.peer = 0 } }

    /// Starts the node.
    ///
    /// With `place`, it announces that port to other nodes without listening there.
    ///
    /// `memoryTotal`: the machine's memory in bytes. `level`: the highest that the node announces.
    func start(
        sayingPeerPort place: UInt16? = nil,
        memoryTotal: UInt64 = 8_192 << 20,
        level: FeatureLevel = .current
    ) async throws {
        let world = LinuxEnvironment.make(
            reactors: 1,
            trace: RecordingTrace(threshold: .fault),
            security: OpenSSLSecurity()
        )
        let lanes = TappedLanes(over: world.environment.lanes)
        let plane = RecordingPlane()
        var settings = Cluster.Settings(
            directory: root,
            memoryQuota: 1_000 << 20,
            memoryTotal: memoryTotal
        )
        settings.level = level
        settings.compactViews = { [views] order in
            views.withLock { views in
                views.orders.append(order)
                guard views.ordersUntilOpen == 0 else {
                    views.ordersUntilOpen -= 1
                    return false
                }
                return views.hasIndexes
            }
        }
        let service = try AdministrationService(
            settings: settings,
            environment: world.environment.with(lanes: lanes),
            dataPlane: plane,
            passwords: PasswordVerifier(secret: [UInt8](repeating: 7, count: 32)),
            probe: probe
        )
        service.applier.openBuckets()
        let address = SocketAddress(host: "127.0.0.1", port: ports.peer)
        let port = try service.listenForPeers(on: address)
        portsBox.withLock { $0.peer = port }
        life.withLock { $0 = Life(world: world, service: service, plane: plane, lanes: lanes) }
        var said = ports
        if let place { said.peer = place }
        try await service.start(host: "127.0.0.1", ports: said)
    }

    func stop() {
        let ending = life.withLock { life in
            defer { life = nil }
            return life
        }
        guard let ending else { return }
        ending.lanes.releaseAll()
        ending.service.stop()
        ending.world.stop()
    }
}

/// The admin ports of all nodes, without HTTP.
final class SceneProbe: NodeProbe {
    private let members = Guarded<[SceneMember]>([])

    func know(_ member: SceneMember) { members.withLock { $0.append(member) } }

    func ask(_ request: ProbeRequest) async -> ProbeAnswer {
        let member = members.withLock { members in
            members.first { $0.ports.admin == request.port }
        }
        guard let member, member.isRunning else { return .unreachable("refused") }
        let service = member.service
        if request.path == "/pools" {
            let pools = service.state.isProvisioned ? #"[{"name":"default"}]"# : "[]"
            return answered(#"{"divanVersion":"\#(Release.version)","pools":\#(pools)}"#)
        }
        guard let own = service.state.node(number: service.thisNode) else {
            return .answered(status: 503, body: [], localHost: "127.0.0.1")
        }
        return answered(#"{"port":\#(own.ports.peer)}"#)
    }

    private func answered(_ json: String) -> ProbeAnswer {
        .answered(status: 200, body: Array(json.utf8), localHost: "127.0.0.1")
    }
}

extension Result {
    var isDone: Bool { if case .success = self { true } else { false } }
}
