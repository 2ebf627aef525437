internal import ClusterService
internal import DataService
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// A machine that runs the shipped `Node` without HTTP, and restarts it whenever it ends.
///
/// - The start is the product's: claim, read the state, open, listen, announce.
/// - A start that fails because of its disk is retried, as an operator would do.
final class SimulatedNode: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    /// One process.
    final class Running: @unchecked Sendable {  // tidy:allow one thread, and a check for it
        let environment: Environment
        /// Runs administrators' requests, as HTTP's threads do in the product.
        let executor: LaneExecutor
        let lane: any Lane
        var node: Node?
        var isServing = false
        var isStopping = false

        init(_ environment: Environment) {
            self.environment = environment
            lane = environment.lanes.makeLane("admin")
            executor = LaneExecutor(lane)
        }
    }

    static let adminPort: UInt16 = 8_091
    static let dataPort: UInt16 = 11_210
    static let peerPort: UInt16 = 8_099
    /// Announced only: no module of the simulator has the HTTP port of views.
    private static let viewsPort: UInt16 = 8_092
    private static let memory: UInt64 = 4 << 30

    let host: SimulatedHost
    private(set) var running: Running?
    private let world: SimulatedWorld
    private let probe: SimulatedProbe
    /// The node is started again after it ends.
    var isWanted = true
    /// Called once at the instant when this process ends.
    var beforeRestart: (() -> Void)?
    /// Nanoseconds until the next restart; nil for a random delay.
    var restartDelay: UInt64?
    /// Whether the node has views; else it opens no port for them and starts no script process.
    var hasViews = false
    /// The highest feature level that the process announces, or the next one will.
    var level = FeatureLevel.current
    /// The number of ended processes.
    private(set) var restarts = 0

    init(_ number: Int, cluster: SimulatedCluster) {
        world = cluster.world
        host = world.addHost(SimulatedNode.address(number), reactors: 1)
        probe = SimulatedProbe(cluster, from: host.address)
        host.onDeath = { [weak self] in self?.ended() }
    }

    static func address(_ number: Int) -> String { "10.0.0.\(number)" }

    var address: String { host.address }
    var name: String { "\(host.address):\(SimulatedNode.adminPort)" }
    var service: AdministrationService? { host.isRunning ? running?.node?.administration : nil }
    var node: Node? { host.isRunning ? running?.node : nil }
    /// The node has left the network and persists its changes.
    var isStopping: Bool { running?.isStopping == true }
    /// The node serves and its cluster is provisioned.
    var isInCluster: Bool { isServing && service?.state.isProvisioned == true }
    var isServing: Bool { host.isRunning && running?.isServing == true }

    // MARK: Starting

    func start() {
        guard !host.isRunning, isWanted else { return }
        let running = Running(host.start(tracing: .warning))
        self.running = running
        running.lane.post { [self] in begin(running) }
    }

    private func begin(_ running: Running) {
        var settings = NodeSettings(memoryTotal: SimulatedNode.memory)
        settings.directory = "/data"
        settings.host = host.address
        settings.kvPort = SimulatedNode.dataPort
        settings.adminPort = SimulatedNode.adminPort
        settings.peerPort = SimulatedNode.peerPort
        settings.viewsPort = hasViews ? SimulatedNode.viewsPort : nil
        settings.memoryQuota = 512 << 20
        settings.featureLevel = level
        do throws(NodeError) {
            let node = try Node(
                settings,
                environment: running.environment,
                version: Release.couchbaseVersion,
                probe: probe
            )
            running.node = node
            let addresses = try node.serve()
            running.executor.spawn { [self] in await announce(node, addresses, running: running) }
        } catch {
            failStart(running, error)
        }
    }

    private func announce(_ node: Node, _ addresses: Node.Addresses, running: Running) async {
        do throws(NodeError) {
            var ports = Node.HTTPPorts(admin: SimulatedNode.adminPort)
            ports.views = node.viewsPort
            try await node.announce(addresses, ports)
            running.isServing = true
        } catch {
            failStart(running, error)
        }
    }

    private func failStart(_ running: Running, _ error: NodeError) {
        running.environment.trace.warning("node", "cannot start: \(error)")
        world.after(0) { [weak self] in
            guard let self, self.running === running else { return }
            host.crash()
            ended()
        }
    }

    // MARK: Ending

    func crash(isPower: Bool) {
        guard host.isRunning else { return }
        if isPower { host.cutPower() } else { host.crash() }
        ended()
    }

    /// Stops the node cleanly, as SIGTERM does; after eight seconds it is killed.
    func stop() {
        guard let running, let node = running.node, isServing else { return }
        running.isServing = false
        running.executor.spawn { [self] in
            node.beginStop()
            guard self.running === running else { return }
            running.isStopping = true
            host.leaveNetwork()
            await node.stop()
            world.after(0) { [self] in
                guard self.running === running, host.isRunning else { return }
                host.exit()
                ended()
            }
        }
        world.after(8_000_000_000) { [weak self] in
            guard let self, self.running === running, host.isRunning else { return }
            world.transcript.note("\(address) did not stop and is killed")
            crash(isPower: false)
        }
    }

    /// Records the end of the process and schedules its restart.
    private func ended() {
        let before = running
        running = nil
        restarts += 1
        level = .current
        let callback = beforeRestart
        beforeRestart = nil
        callback?()
        world.after(0) { before?.node?.data.abandon() }
        var dice = world.random(for: "restart \(address) \(world.now)")
        let delay = restartDelay ?? 200_000_000 + dice.next() % 4_000_000_000
        restartDelay = nil
        world.after(delay) { [weak self] in self?.start() }
    }
}

/// Requests to another node's admin port before it joins: the replies that HTTP would carry, made
/// from the other node's administration service.
struct SimulatedProbe: NodeProbe, @unchecked Sendable {  // tidy:allow one thread
    private weak let cluster: SimulatedCluster?
    private let from: String

    init(_ cluster: SimulatedCluster, from: String) {
        self.cluster = cluster
        self.from = from
    }

    func ask(_ request: ProbeRequest) async -> ProbeAnswer {
        // The round trip; a process that ends meanwhile never receives the reply.
        await withUnsafeContinuation { waiter in
            cluster?.world.after(1_500_000) { waiter.resume() }
        }
        let other = cluster?.nodes.first { $0.address == request.host }
        guard let other, !other.host.isFrozen, other.isServing, let service = other.service else {
            return .unreachable("connection refused")
        }
        switch request.path {
        case "/pools":
            let pools = service.state.isProvisioned ? #"[{"name":"default"}]"# : "[]"
            return answered(#"{"divanVersion":"\#(Release.version)","pools":\#(pools)}"#)
        case "/nodes/self/peer":
            let port = service.state.node(number: service.thisNode)?.ports.peer ?? 0
            return port == 0
                ? .answered(status: 503, body: [], localHost: from)
                : answered(#"{"port":\#(port)}"#)
        default: return .answered(status: 404, body: [], localHost: from)
        }
    }

    private func answered(_ json: String) -> ProbeAnswer {
        .answered(status: 200, body: Array(json.utf8), localHost: from)
    }
}
