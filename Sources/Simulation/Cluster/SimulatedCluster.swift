internal import ClusterService
internal import DataService
internal import DivanClient
internal import Engine
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// The nodes of a cluster in one simulated world, and administration requests to them.
final class SimulatedCluster {
    static let user = "Administrator"
    static let password = "simulated"
    static let nodesMax = 16

    let world: SimulatedWorld
    private(set) var nodes: [SimulatedNode] = []
    private var orders: [Order] = []
    /// The settings of users' clients, except the bucket.
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

    /// Ends all processes and breaks their reference cycles.
    func dismantle() {
        for node in nodes {
            node.isWanted = false
            node.crash(isPower: true)
            node.host.onDeath = nil
        }
        world.run(for: 1)
    }

    // MARK: Requests

    private final class Answer<Value>: @unchecked Sendable {  // tidy:allow one thread
        var value: Value?
    }

    /// Calls a node's service and runs the world until the reply.
    ///
    /// - Returns: The reply; nil if the node does not run or the timeout elapsed.
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

    /// Calls a node's service without waiting; the transcript notes the outcome.
    func submit(
        _ node: SimulatedNode,
        _ what: String,
        order: @escaping @Sendable (AdministrationService) async throws -> String
    ) {
        guard let running = node.running, let service = node.service else { return }
        let transcript = Answer<Transcript>()
        transcript.value = world.transcript
        world.transcript.note("\(what), asked of \(node.address)")
        let open = Order(node: node, service: service)
        orders.append(open)
        running.executor.spawn {
            let outcome = await SimulatedCluster.text { try await order(service) }
            transcript.value?.note("\(what): \(outcome)")
            open.isAnswered = true
        }
    }

    /// The text of a request's result, or of its error.
    static func text(_ request: () async throws -> String) async -> String {
        do { return try await request() } catch { return "\(error)" }
    }

    /// A submitted request, with the process that received it.
    private final class Order: @unchecked Sendable {  // tidy:allow one thread
        let node: SimulatedNode
        private(set) weak var service: AdministrationService?
        var isAnswered = false

        init(node: SimulatedNode, service: AdministrationService) {
            self.node = node
            self.service = service
        }

        /// A request to a process that has ended is never answered, so it is not open.
        var isOpen: Bool {
            guard !isAnswered, let service else { return false }
            return node.service === service
        }
    }

    /// Whether a submitted request has no reply yet.
    var hasOpenOrders: Bool {
        orders.removeAll { !$0.isOpen }
        return !orders.isEmpty
    }

    // MARK: Current state

    /// The newest state that any node has applied; nil if no node runs.
    var newestState: ClusterState? {
        newest?.service.state
    }

    /// The age of the newest state.
    var newestAge: ClusterState.Age? { newest?.age }

    private var newest: (service: AdministrationService, age: ClusterState.Age)? {
        var newest: (service: AdministrationService, age: ClusterState.Age)?
        for node in nodes {
            guard let service = node.service, let age = service.cluster.stateAge else { continue }
            if let known = newest?.age, age < known { continue }
            newest = (service, age)
        }
        return newest
    }

    var leader: SimulatedNode? {
        nodes.first {
            $0.isInCluster && $0.service?.cluster.raftStatus.isReadyToLead == true
                && !$0.host.isFrozen
        }
    }

    /// The number of ended processes.
    var restarts: Int { nodes.reduce(0) { $0 + $1.restarts } }

    /// The leader, or any node of the cluster that runs; nil if there is none.
    var reachableNode: SimulatedNode? {
        leader ?? nodes.first { $0.isInCluster && !$0.host.isFrozen }
    }

    func waitUntil(seconds: UInt64, _ isSo: () -> Bool) -> Bool {
        let end = world.now + seconds * 1_000_000_000
        while !isSo() {
            guard world.now < end else { return false }
            world.run(for: 20_000_000)
        }
        return true
    }

    // MARK: Building

    /// Starts all nodes and forms a cluster with the workload's buckets.
    ///
    /// - Returns: A sentence on the failure; nil after success.
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
        let set = ask(first) { service in
            var settings = service.state.settings
            settings.autoFailover.timeoutSeconds = failoverSeconds
            settings.autoFailover.countMax = failovers
            // Nothing here depends on how long a guess takes.
            settings.passwords.iterations = UInt32(PasswordSettings.iterationsRange.lowerBound)
            let (new, was) = (settings, service.state.settings)
            return await SimulatedCluster.text {
                try await service.settings.change(settings: new, was: was)
                return "done"
            }
        }
        guard set == "done" else { return "the settings could not be changed" }
        let begun = ask(first) { service in
            await SimulatedCluster.text {
                try await service.settings.initialise(form)
                return "done"
            }
        }
        guard begun == "done" else {
            return "the cluster was not initialised: \(begun ?? "no answer")"
        }
        for bucket in buckets {
            let outcome = ask(first) { await SimulatedCluster.create(bucket, $0) }
            guard outcome == "done" else { return "no bucket: \(outcome ?? "no answer")" }
        }
        for node in nodes.dropFirst() {
            let (name, tokens) = (node.name, tokens)
            let outcome = ask(first) { service in
                await SimulatedCluster.text {
                    _ = try await service.membership.addNode(
                        name,
                        token: tokens[name],
                        services: ["kv"],
                        by: SimulatedCluster.user
                    )
                    return "done"
                }
            }
            guard outcome == "done" else {
                return "\(name) was not added: \(outcome ?? "no answer")"
            }
        }
        return rebalance(seconds: 120)
    }

    /// Creates a bucket by its command, since the form of the admin interface does not allow 16
    /// vBuckets.
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
            switch try await service.cluster.propose(.createBucket(bucket)) {
            case .done: return "done"
            case .refused(let refusal): return "refused: \(refusal)"
            case .failed(let error): return error.description
            }
        } catch {
            return error.description
        }
    }

    /// Rebalances over all nodes and waits for the end.
    ///
    /// - Returns: A sentence on the failure; nil after success.
    func rebalance(seconds: UInt64) -> String? {
        guard let node = self.reachableNode else { return "no node can start a rebalance" }
        let asked = ask(node) { await SimulatedCluster.startRebalance($0) }
        guard case .success(let id)? = asked else {
            return "no rebalance began: \(asked.map { "\($0)" } ?? "no answer")"
        }
        let isOver = waitUntil(seconds: seconds) {
            newestState?.rebalance == nil && newestState?.lastRebalance?.id == id
        }
        guard isOver else { return "the rebalance did not end" }
        guard newestState?.lastRebalance?.ending == .completed else {
            return "the rebalance failed: \(newestState?.lastRebalance?.sentence ?? "")"
        }
        return nil
    }

    static func startRebalance(
        _ service: AdministrationService
    ) async -> Result<String, AdministrationError> {
        let known = service.state.nodes.filter { $0.membership != .joining }.map(\.otpNode)
        return await Result(
            of: try await service.membership.rebalance(
                known: known,
                ejected: [],
                by: SimulatedCluster.user
            )
        )
    }
}

extension SimulatedCluster {
    /// The node that serves a vBucket; nil if its promotion is not confirmed, or its copy not active.
    func owner(of number: Int, _ bucket: String) -> SimulatedNode? {
        guard let state = newestState,
            let placement = state.bucket(named: bucket)?.placements[number],
            placement.isConfirmed, let owner = placement.chain.first,
            let host = state.node(number: owner)?.host,
            let node = nodes.first(where: { $0.address == host }),
            let copies = node.node?.data.bucket(named: bucket)?.engine.all,
            copies[number].withCore({ $0.state == .active && $0.isLoaded })
        else { return nil }
        return node
    }
}
