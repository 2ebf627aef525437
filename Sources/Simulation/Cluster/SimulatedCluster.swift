internal import Bytes
internal import ClusterService
internal import DivanClient
internal import Orchestration
internal import Seams
internal import SimulatedPlatform
internal import Vocabulary

/// Several nodes in one world, and an administrator who asks them things.
final class SimulatedCluster {
    static let user = "Administrator"
    static let password = "simulated"
    static let nodesMax = 16

    let world: SimulatedWorld
    private(set) var nodes: [SimulatedNode] = []
    private var orders: [Order] = []
    /// What users' clients are made with, but for the bucket.
    private(set) var clientSettings = ClientSettings(
        bootstrap: [],
        bucket: "",
        user: user,
        password: password
    )

    init(seed: UInt64, nodes count: Int) {
        world = SimulatedWorld(seed: seed)
        for number in 1...count { nodes.append(SimulatedNode(number, cluster: self)) }
        clientSettings.bootstrap = nodes.map {
            SocketAddress(host: $0.address, port: SimulatedNode.dataPort)
        }
    }

    /// Breaks the circles that processes leave behind.
    func dismantle() {
        for node in nodes {
            node.isWanted = false
            node.crash(isPower: true)
            node.host.died = nil
        }
        world.run(for: 1)
    }

    // MARK: Asking

    private final class Answer<Value>: @unchecked Sendable {  // tidy:allow one thread
        var value: Value?
    }

    /// Has a node do something and lets time pass until it has; nil where it took too long.
    func ask<Value: Sendable>(
        _ node: SimulatedNode,
        seconds: UInt64 = 30,
        _ question: @escaping @Sendable (AdministrationService) async -> Value
    ) -> Value? {
        guard let running = node.running, let service = node.service else { return nil }
        let answer = Answer<Value>()
        running.executor.spawn { answer.value = await question(service) }
        _ = world.run(for: seconds * 1_000_000_000) { answer.value != nil }
        return answer.value
    }

    /// Has a node do something, whenever that may be done.
    func tell(
        _ node: SimulatedNode,
        _ what: String,
        _ order: @escaping @Sendable (AdministrationService) async -> String
    ) {
        guard let running = node.running, let service = node.service else { return }
        let transcript = Answer<Transcript>()
        transcript.value = world.transcript
        world.transcript.note("\(what), asked of \(node.address)")
        let open = Order(node: node, service: service)
        orders.append(open)
        running.executor.spawn {
            let outcome = await order(service)
            transcript.value?.note("\(what): \(outcome)")
            open.isAnswered = true
        }
    }

    /// What a node was told to do, in its life of then.
    private final class Order: @unchecked Sendable {  // tidy:allow one thread
        let node: SimulatedNode
        private(set) weak var service: AdministrationService?
        var isAnswered = false

        init(node: SimulatedNode, service: AdministrationService) {
            self.node = node
            self.service = service
        }

        /// An order to a node that crashed since is never answered.
        var isOpen: Bool {
            guard !isAnswered, let service else { return false }
            return node.service === service
        }
    }

    /// Whether some node has yet to answer what it was told to do.
    var hasOpenOrders: Bool {
        orders.removeAll { !$0.isOpen }
        return !orders.isEmpty
    }

    // MARK: As of now

    /// The newest state that some node has applied.
    var newestState: ClusterState? {
        newest?.service.state
    }

    /// How new that is.
    var newestAge: ClusterState.Age? { newest?.age }

    private var newest: (service: AdministrationService, age: ClusterState.Age)? {
        var newest: (service: AdministrationService, age: ClusterState.Age)?
        for node in nodes {
            guard let service = node.service, let age = service.stateAge else { continue }
            if let known = newest?.age, age < known { continue }
            newest = (service, age)
        }
        return newest
    }

    var leader: SimulatedNode? {
        nodes.first {
            $0.isInCluster && $0.service?.raftStatus.isReadyToLead == true && !$0.host.isFrozen
        }
    }

    /// How often processes ended.
    var restarts: Int { nodes.reduce(0) { $0 + $1.restarts } }

    /// A node that can be asked.
    var anybody: SimulatedNode? { leader ?? nodes.first { $0.isInCluster && !$0.host.isFrozen } }

    func waitUntil(seconds: UInt64, _ isSo: () -> Bool) -> Bool {
        let end = world.now + seconds * 1_000_000_000
        while !isSo() {
            guard world.now < end else { return false }
            world.run(for: 20_000_000)
        }
        return true
    }

    // MARK: Building

    /// Starts all nodes and makes one cluster of them, with the buckets of the workload on it.
    ///
    /// - Returns: What went wrong, in a sentence; nil where all is well.
    func build(_ buckets: [BucketSettings], failoverSeconds: UInt16, failovers: UInt16) -> String? {
        for node in nodes { node.start() }
        guard waitUntil(seconds: 30, { nodes.allSatisfy(\.isServing) }) else {
            return "the nodes did not start"
        }
        let first = nodes[0]
        let form = FormParameters([
            ("username", SimulatedCluster.user), ("password", SimulatedCluster.password),
            ("port", "SAME"), ("services", "kv"), ("memoryQuota", "512"),
        ])
        let begun = ask(first) { await $0.initialise(form) }
        guard case .done? = begun else {
            return "the cluster was not initialised: \(begun.map { "\($0)" } ?? "no answer")"
        }
        for bucket in buckets {
            let outcome = ask(first) { await SimulatedCluster.create(bucket, $0) }
            guard outcome == "done" else { return "no bucket: \(outcome ?? "no answer")" }
        }
        for node in nodes.dropFirst() {
            let name = node.name
            let outcome = ask(first) {
                await $0.addNode(name, login: ("", ""), services: ["kv"])
            }
            guard case .done? = outcome else {
                return "\(name) was not added: \(outcome.map { "\($0)" } ?? "no answer")"
            }
        }
        let set = ask(first) { service in
            var settings = service.state.settings
            settings.autoFailover.timeoutSeconds = failoverSeconds
            settings.autoFailover.countMax = failovers
            return await service.change(settings: settings, was: service.state.settings)
        }
        guard case .done? = set else { return "automatic failover could not be set" }
        return rebalance(seconds: 120)
    }

    /// 16 vBuckets are legal inside only, so the form is not asked.
    static func create(
        _ settings: BucketSettings,
        _ service: AdministrationService
    ) async -> String {
        let state = service.state
        let rows = InitialPlacement.rows(
            vBuckets: settings.vBuckets,
            nodes: state.activeNodes.map { PlacementNode($0.number, group: $0.group) },
            copies: settings.replicas + 1
        ).map { NodeChain($0) ?? NodeChain() }
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        do throws(ClusterError) {
            switch try await service.propose(.createBucket(bucket)) {
            case .done: return "done"
            case .refused(let refusal): return "refused: \(refusal)"
            case .failed(let error): return error.description
            }
        } catch {
            return error.description
        }
    }

    /// Deals everything out over all nodes and waits for it; why that did not come to its end.
    func rebalance(seconds: UInt64) -> String? {
        guard let node = anybody else { return "there is nobody to ask for a rebalance" }
        let asked = ask(node) { await SimulatedCluster.startRebalance($0) }
        guard case .running(let id)? = asked else {
            return "no rebalance began: \(asked.map { "\($0)" } ?? "no answer")"
        }
        let isOver = waitUntil(seconds: seconds) {
            newestState?.rebalance == nil && newestState?.lastRebalance?.id == id
        }
        guard isOver else { return "the rebalance did not end" }
        guard newestState?.lastRebalance?.verdict == .completed else {
            return "the rebalance failed: \(newestState?.lastRebalance?.sentence ?? "")"
        }
        return nil
    }

    static func startRebalance(_ service: AdministrationService) async -> RebalanceRequestOutcome {
        let known = service.state.nodes.filter { $0.membership != .joining }.map(\.otpNode)
        return await service.rebalance(known: known, ejected: [])
    }
}
