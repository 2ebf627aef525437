internal import Bytes
internal import ClusterService
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Counts of manual failovers, and of those that cannot have lost a durable write.
struct ManualFailovers: Sendable {
    private var asked = 0
    private var safe = 0

    var areSafe: Bool { asked == safe }

    mutating func recordRequest() { asked += 1 }

    /// Fails a node over, and records the result.
    static func failOver(
        _ name: String,
        by service: AdministrationService,
        recordingIn failovers: Guarded<ManualFailovers>
    ) async throws(AdministrationError) -> String {
        let result = await Result(
            of: try await service.membership.failOver([name], by: SimulatedCluster.user)
        )
        failovers.withLock { $0.record(result) }
        return try result.get()
    }

    private mutating func record(_ result: Result<String, AdministrationError>) {
        switch result {
        // These texts count all losses; any other text reports nodes that could not be queried.
        case .success(let text)
        where [" known to be lost.", " change may be lost.", " changes may be lost."]
            .contains(where: text.hasSuffix):
            safe += 1
        case .failure(.refused): safe += 1
        default: break
        }
    }
}

/// An administrator's actions during faults: one about every ten seconds, drawn from the workload's
/// script.
final class Operator {
    enum Action: String, CaseIterable, Sendable {
        case rebalance, stopRebalance, graceful, failOver, recover
        /// A rebalance that removes a node; adding all missing nodes.
        case takeOut, add
        /// Ejects a node that is not active.
        case eject
        case replicas
        /// Creates or flushes an extra bucket that other checks do not depend on.
        case createBucket, flushBucket
        /// Only in scripts that name it.
        case deleteBucket
        /// Two concurrent requests about memory; only in scripts that name it.
        case raceQuotas

        /// The actions of the standard script.
        static var usual: [Action] {
            allCases.filter { $0 != .deleteBucket && $0 != .raceQuotas }
        }
    }

    private let cluster: SimulatedCluster
    private let verifier: Verifier
    private let script: Workload.Script
    private var random: SeededRandom
    private var isOver = false
    private(set) var counts: [Action: Int] = [:]
    let failovers = Guarded(ManualFailovers())
    private var deleted = 0

    init(_ cluster: SimulatedCluster, _ verifier: Verifier, script: Workload.Script) {
        self.cluster = cluster
        self.verifier = verifier
        self.script = script
        random = cluster.world.random(for: "operator")
    }

    func start() { next() }

    func end() { isOver = true }

    private func next() {
        let range = script.pace.upperBound - script.pace.lowerBound + 1
        cluster.world.after(script.pace.lowerBound + random.next() % range) { [weak self] in
            guard let self, !isOver else { return }
            act()
            next()
        }
    }

    private func draw() -> Action {
        var left = random.next() % script.actions.reduce(0) { $0 + $1.weight }
        for (action, weight) in script.actions {
            if left < weight { return action }
            left -= weight
        }
        return .rebalance
    }

    private func act() {
        let able = cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }
        guard !able.isEmpty else { return }
        let asked = able[Int(random.next() % UInt64(able.count))]
        let target = cluster.nodes[Int(random.next() % UInt64(cluster.nodes.count))]
        let dice = random.next()
        let drawn = draw()
        let isMade = asked.service?.state.bucket(named: SimulationRun.extraName) != nil
        // The extra bucket is created if it does not exist, and flushed if it does.
        let ofExtra: Action = isMade ? .flushBucket : .createBucket
        let action = drawn == .flushBucket || drawn == .createBucket ? ofExtra : drawn
        counts[action, default: 0] += 1
        let what = "\(action.rawValue) (\(target.address))"
        switch action {
        case .createBucket:
            let settings = SimulationRun.extraBucket(replicas: Int(dice % 3), after: deleted)
            cluster.submit(asked, what) { await SimulatedCluster.create(settings, $0) }
        case .flushBucket: flush(asked, what)
        case .deleteBucket: delete(asked, what)
        case .raceQuotas: raceQuotas(able, dice)
        case .failOver:
            let (host, failovers) = (target.address, failovers)
            cluster.submit(asked, what) { service in
                guard let node = service.state.nodes.first(where: { $0.host == host }) else {
                    return "no such node"
                }
                // A failover without a reply counts as unsafe.
                failovers.withLock { $0.recordRequest() }
                return try await ManualFailovers.failOver(
                    node.otpNode,
                    by: service,
                    recordingIn: failovers
                )
            }
        default:
            let (host, tokens) = (target.address, cluster.tokens)
            cluster.submit(asked, what) { service in
                if action == .add { return await Operator.addAll(service, tokens) }
                return try await Operator.perform(action, host, dice: dice, service: service)
            }
        }
    }

    private func flush(_ asked: SimulatedNode, _ what: String) {
        let (name, verifier) = (SimulationRun.extraName, verifier)
        guard asked.service?.state.bucket(named: name) != nil else { return }
        let began = cluster.world.now
        cluster.submit(asked, what) { service in
            try await service.buckets.flush(name)
            verifier.flushed(name, began: began)
            return "done"
        }
    }

    private func delete(_ asked: SimulatedNode, _ what: String) {
        let (name, verifier) = (SimulationRun.extraName, verifier)
        guard asked.service?.state.bucket(named: name) != nil else { return }
        let began = cluster.world.now
        deleted += 1
        cluster.submit(asked, what) { service in
            try await service.buckets.delete(name)
            verifier.flushed(name, began: began)
            return "done"
        }
    }

    /// Sends two requests about memory at one instant, to one node or to two.
    private func raceQuotas(_ able: [SimulatedNode], _ dice: UInt64) {
        var dice = dice
        func pick(_ count: Int) -> Int {
            defer { dice /= UInt64(count) }
            return Int(dice % UInt64(count))
        }
        guard let state = able[0].service?.state else { return }
        for request in QuotaRequest.rivals(in: state, pick) {
            cluster.submit(able[pick(able.count)], "\(request)") { try await request.make(of: $0) }
        }
    }

    // MARK: Requests to a node

    private static func perform(
        _ action: Action,
        _ host: String,
        dice: UInt64,
        service: AdministrationService
    ) async throws(AdministrationError) -> String {
        let name = service.state.nodes.first { $0.host == host }?.otpNode
        switch action {
        case .rebalance: return "\(await SimulatedCluster.startRebalance(service))"
        case .stopRebalance:
            try await service.membership.stopRebalance()
            return "done"
        case .recover: return await recover(service, dice & 1 == 0 ? .full : .delta)
        case .replicas: return await setReplicas(Int(dice % 3), service)
        case .eject:
            let idle = service.state.nodes.filter { $0.membership != .active }
            guard let node = idle.first else { return "all nodes are active" }
            try await service.membership.eject(node.otpNode, by: SimulatedCluster.user)
            return "done"
        default: break
        }
        guard let name else { return "no such node" }
        switch action {
        case .graceful:
            try await service.membership.startGracefulFailover([name], by: SimulatedCluster.user)
            return "done"
        default: return try await takeOut(name, service)
        }
    }

    private static func takeOut(
        _ name: String,
        _ service: AdministrationService
    ) async throws(AdministrationError) -> String {
        // At least two nodes remain.
        guard service.state.activeNodes.count > 2 else { return "too few nodes would remain" }
        let known = service.state.nodes.filter { $0.membership != .joining }.map(\.otpNode)
        return try await service.membership.rebalance(
            known: known,
            ejected: [name],
            by: SimulatedCluster.user
        )
    }

    private static func setReplicas(_ count: Int, _ service: AdministrationService) async -> String
    {
        guard let bucket = service.state.buckets.first else { return "no bucket" }
        var settings = bucket.settings
        settings.replicas = count
        let change = BucketChange(settings: settings, options: bucket.options)
        do throws(ClusterError) {
            return "\(try await service.cluster.propose(.changeBucket(change))), \(count) replicas"
        } catch {
            return error.description
        }
    }

    /// Adds all initial nodes of the cluster that are not members.
    static func addAll(
        _ service: AdministrationService,
        _ tokens: SimulatedTokens
    ) async -> String {
        var outcomes: [String] = []
        for number in 1...SimulatedCluster.nodesMax {
            let host = SimulatedNode.address(number)
            guard !service.state.nodes.contains(where: { $0.host == host }) else { continue }
            let name = "\(host):\(SimulatedNode.adminPort)"
            let outcome = await Result(
                of: try await service.membership.addNode(
                    name,
                    token: tokens[name],
                    services: ["kv"],
                    by: SimulatedCluster.user
                )
            )
            if case .failure(.refused(let text)) = outcome, text.contains("reach") { continue }
            outcomes.append("\(outcome)")
        }
        return outcomes.isEmpty ? "no node to add" : outcomes.joined(separator: "; ")
    }

    /// Recovers all failed-over nodes and starts a rebalance.
    static func recover(_ service: AdministrationService, _ type: RecoveryType) async -> String {
        for node in service.state.nodes where node.membership == .inactiveFailed {
            do throws(AdministrationError) {
                try await service.membership.setRecovery(
                    node.otpNode,
                    type,
                    by: SimulatedCluster.user
                )
            } catch {
                return error.description
            }
        }
        return "\(type.name): \(await SimulatedCluster.startRebalance(service))"
    }
}
