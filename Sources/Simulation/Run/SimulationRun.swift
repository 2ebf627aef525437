internal import Bytes
internal import DataService
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// One simulation: builds a cluster, uses it, injects faults, ends them, and checks the result.
///
/// - Each phase (building, faults, recovery, end) has a deadline, so that every run ends.
package final class SimulationRun {
    static let second: UInt64 = 1_000_000_000

    /// A bucket that the administrator creates and flushes.
    static let extraName = "extra"
    private static let extraClients = 2

    let plan: SimulationPlan
    private let workload: Workload
    let cluster: SimulatedCluster
    private let chaos: Chaos
    let verifier: Verifier
    private let watch: Watch
    /// Nil if the workload has no actions of an administrator.
    let administrator: Operator?
    private let extras: Extras
    private let failoverSeconds: UInt16
    /// The buckets from the beginning on, without the one of `extraName`.
    let buckets: [BucketSettings]
    private(set) var clients: [WorkloadClient] = []

    /// Workloads and checkers that only some seeds have.
    private struct Extras {
        let feeds: FeedWatch?
        let author: DesignAuthor?
        let views: ViewWatch?
        let consumers: ConsumerWatch?
        let attributes: AttributeWatch?
        let intruder: Intruder?
    }

    /// - Returns: Nil if the plan names an unknown workload or fault.
    package init?(_ plan: SimulationPlan) {
        guard let workload = Workload(plan.workload) else { return nil }
        self.plan = plan
        self.workload = workload
        var dice = SeededRandom(seed: plan.seed ^ 0x73_696d_756c_6174)
        let drawn = workload.nodes.lowerBound + Int(dice.next() % UInt64(workload.nodes.count))
        cluster = SimulatedCluster(seed: plan.seed, nodes: plan.nodes ?? drawn)
        ReleaseMix.apply(seed: plan.seed, to: cluster.nodes)
        let isGentle = dice.next() % 8 == 0 && plan.faults == "swarm"
        let faults = workload.faults ?? (isGentle ? "harmless" : plan.faults)
        guard let chaos = Chaos(cluster, faults: faults) else { return nil }
        self.chaos = chaos
        let replicas =
            workload.replicas.lowerBound + Int(dice.next() % UInt64(workload.replicas.count))
        var known = SimulationRun.buckets(replicas: replicas, workload)
        // If memory is short, half of the seeds eject whole documents, the others only values.
        if chaos.kinds.contains(.tinyQuota), plan.seed & 1 == 0 {
            known[0].evictionPolicy = .fullEviction
        }
        buckets = known
        failoverSeconds = UInt16(1 + dice.next() % 5)
        var script = workload.script
        let isLossless = chaos.isHarmless && plan.workload != "failover-storm"
        let isCareful = dice.next() % 4 == 0 && plan.workload == "standard"
        if isLossless || isCareful, let asked = script {
            script?.actions = asked.actions.filter { $0.action != .failOver }
        }
        verifier = Verifier(
            cluster.world,
            isLossless: isLossless,
            isBeyondAssumptions: chaos.isBeyondAssumptions
        )
        watch = Watch(cluster, verifier)
        chaos.isWhole = { [watch] in watch.exposure.losses == 0 }
        chaos.isOnDisk = { [watch] in watch.disks.givenUp == 0 }
        chaos.beforeEnd = { [watch] in watch.checkMomentaryState() }
        chaos.onDeferredOutput = { [verifier] in verifier.checkDeferredOutput($0) }
        administrator = script.map { [cluster, verifier] in Operator(cluster, verifier, script: $0)
        }
        extras = Extras(
            feeds: FeedWatch(cluster, verifier, plan: plan),
            author: DesignAuthor(cluster, workload: plan.workload, seed: plan.seed),
            views: ViewWatch(cluster, verifier, plan: plan, all: known),
            consumers: ConsumerWatch(cluster, verifier, plan: plan, all: known),
            attributes: AttributeWatch(
                cluster,
                verifier,
                plan: plan,
                buckets: known,
                namesHistories: chaos.setsClocksBack && !isLossless
            ),
            intruder: Intruder(cluster, verifier, plan: plan)
        )
    }

    // MARK: Running

    /// Runs the simulation, once.
    package func run() -> SimulationOutcome {
        watch.start()
        let flaw = cluster.build(
            buckets,
            failoverSeconds: failoverSeconds,
            failovers: workload.failoversMax
        )
        if let flaw {
            verifier.reportFlaw("Live: \(flaw)")
        } else {
            note("built: \(cluster.nodes.count) nodes, faults \(chaos.names)")
            use()
        }
        if let fault = cluster.world.transcript.fault { verifier.reportFlaw("Fault: \(fault)") }
        let outcome = outcome()
        cluster.dismantle()
        return outcome
    }

    private func use() {
        let host = cluster.world.addHost("10.0.1.1", reactors: 1)
        let environment = host.start(tracing: .warning)
        for number in 0..<workload.clients {
            let bucket = buckets[number % buckets.count]
            start(
                number / buckets.count,
                of: workload.clients / buckets.count,
                bucket: bucket,
                environment: environment
            )
        }
        if administrator != nil {
            let count = SimulationRun.extraClients
            for number in 0..<count {
                start(
                    number,
                    of: count,
                    bucket: SimulationRun.extraBucket(replicas: 0),
                    environment: environment
                )
            }
        }
        extras.feeds?.start()
        extras.views?.start()
        extras.consumers?.start(environment)
        extras.attributes?.start(environment)
        cluster.world.run(for: 2 * SimulationRun.second)
        chaos.start(for: workload.faultSeconds * SimulationRun.second)
        administrator?.start()
        extras.author?.start()
        extras.intruder?.start()
        extras.views?.startFaults()
        let length = workload.faultSeconds * SimulationRun.second
        guard !cluster.world.run(for: length, until: { verifier.hasFatalFlaw }) else { return }
        chaos.end()
        administrator?.end()
        extras.author?.end()
        extras.intruder?.end()
        extras.views?.endFaults()
        note("the faults are over")
        let quietUntil = cluster.world.now + workload.quietSeconds * SimulationRun.second
        awaitConvergence()
        let left = quietUntil - min(quietUntil, cluster.world.now)
        guard !cluster.world.run(for: left, until: { verifier.hasFatalFlaw }) else { return }
        extras.views?.end()
        extras.consumers?.end()
        extras.attributes?.end()
        for client in clients { client.stop() }
        if !cluster.waitUntil(seconds: 15, { clients.allSatisfy(\.isIdle) }) {
            let busy = clients.filter { !$0.isIdle }.map { "\($0.bucket.name) \($0.number)" }
            verifier.reportFlaw("Live: no node answers clients \(busy.joined(separator: ", "))")
        }
        if let attributes = extras.attributes {
            _ = cluster.waitUntil(seconds: 15) { attributes.isIdle }
        }
        readEverything()
        compare()
        extras.attributes?.conclude()
        extras.views?.checkFinalViews()
        extras.views?.conclude()
        extras.consumers?.conclude()
        extras.feeds?.conclude()
        extras.intruder?.conclude()
        conclude()
    }

    private func start(
        _ number: Int,
        of count: Int,
        bucket: BucketSettings,
        environment: Environment
    ) {
        var workload = workload
        if bucket.name == SimulationRun.extraName { workload.keysOfClient = 8 }
        let client = WorkloadClient(
            number,
            of: count,
            bucket: bucket,
            workload: workload,
            cluster: cluster,
            environment: environment,
            verifier: verifier
        )
        clients.append(client)
        client.start()
    }

    // MARK: The end

    private func readEverything() {
        for client in clients {
            let answer = Guarded<Int?>(nil)
            client.readAll { read in answer.withLock { $0 = read } }
            if !cluster.waitUntil(seconds: 10, { answer.withLock { $0 } != nil }) {
                let name = "\(client.bucket.name) \(client.number)"
                verifier.reportFlaw("Live: client \(name) did not complete its final reads")
            }
        }
        for bucket in buckets {
            let reader = clients.first { $0.bucket.name == bucket.name && $0.client != nil }
            let isDone = Guarded(false)
            reader?.readRegisters { isDone.withLock { $0 = true } }
            if reader != nil, !cluster.waitUntil(seconds: 10, { isDone.withLock { $0 } }) {
                verifier.reportFlaw(
                    "Live: the final read of registers of \(bucket.name) did not complete"
                )
            }
        }
    }

    private func compare() {
        let convergence = Convergence(cluster: cluster)
        _ = cluster.waitUntil(seconds: 20) { convergence.copyFlaws().isEmpty }
        for flaw in convergence.copyFlaws().prefix(4) { verifier.reportFlaw("Converged: \(flaw)") }
        _ = cluster.waitUntil(seconds: 20) { convergence.isOnDisk }
        for flaw in convergence.diskFlaws().prefix(4) { verifier.reportFlaw("Converged: \(flaw)") }
    }

    /// Checks the whole history of requests, answers and copies.
    private func conclude() {
        verifier.linearize(isPromised)
        watch.conclude()
        verifier.find { [self] in ending($0, $1) }
        // The follower of a feed has the same content.
        verifier.find { [self] bucket, vBucket in
            guard let (copy, losses) = ending(bucket, vBucket),
                let content = extras.feeds?.content(of: bucket, vBucket, copy.log)
            else { return nil }
            return (content, losses)
        }
    }

    /// The active copy of a vBucket at the end, and which losses are allowed there.
    ///
    /// Nil if the vBucket is not served.
    private func ending(
        _ bucket: String,
        _ vBucket: VBucketID
    ) -> (CopyContent, AcknowledgedWrites.Losses)? {
        // The check `Live` reports a vBucket without an active copy.
        guard let placement = cluster.newestState?.bucket(named: bucket)?[vBucket],
            placement.isConfirmed, let owner = placement.chain.first,
            let host = cluster.newestState?.node(number: owner)?.host,
            let node = cluster.nodes.first(where: { $0.address == host }),
            let copy = node.copy(vBucket, of: bucket),
            node.node?.data.reports(bucket, of: [vBucket]).first?.state == .active
        else { return nil }
        let name = Changes.name(bucket, Int(vBucket.number))
        if watch.changes.remade.contains(name) { return (copy, .ofEverything) }
        return (copy, verifier.isLossless ? .none : .byPromotion)
    }

    /// Whether the failures of this seed are within those that a durability level survives.
    ///
    /// Conservative: losses of one bucket count for all buckets. After an unsafe manual failover no
    /// level is checked, because the product warned the administrator of losses.
    private func isPromised(_ level: DurabilityLevel) -> Bool {
        let counts = administrator?.counts ?? [:]
        let failovers = chaos.failovers.withLock { $0 }
        let byHand = administrator?.failovers.withLock { $0 } ?? ManualFailovers()
        guard failovers.areSafe, byHand.areSafe else { return false }
        if level == .persistToMajority { return !watch.disks.isBeyond }
        let isSpare = counts[.replicas] == nil && buckets.allSatisfy { $0.replicas > 0 }
        return watch.exposure.worst <= (isSpare && cluster.nodes.count > 1 ? 1 : 0)
    }

    /// Adds a line to the transcript.
    func note(_ text: String) { cluster.world.transcript.note(text) }

    private func outcome() -> SimulationOutcome {
        var outcome = SimulationOutcome()
        let world = cluster.world
        outcome.violations = verifier.violations
        outcome.digest = world.transcript.digest
        outcome.nodes = cluster.nodes.count
        outcome.steps = world.steps
        outcome.nanoseconds = world.now
        outcome.transcript = world.transcript.lines.map(\.description)
        for client in clients { outcome.tally.add(client.tally) }
        outcome.tally.add(verifier.tally)
        outcome.tally.add(watch.tally)
        if let feeds = extras.feeds { outcome.tally.add(feeds.tally) }
        if let views = extras.views { outcome.tally.add(views.tally) }
        if let consumers = extras.consumers { outcome.tally.add(consumers.tally) }
        if let attributes = extras.attributes { outcome.tally.add(attributes.tally) }
        if let intruder = extras.intruder { outcome.tally.add(intruder.tally) }
        for (kind, count) in chaos.counts { outcome.tally[.fault, kind.rawValue] = count }
        for (effect, count) in chaos.effects { outcome.tally[.change, effect] = count }
        for (action, count) in administrator?.counts ?? [:] {
            outcome.tally[.action, action.rawValue] = count
        }
        outcome.tally[.change, "restart"] = cluster.restarts
        return outcome
    }
}

/// Chooses the nodes of a run that start as the artificial earlier release, with the lowest feature level.
///
/// One seed in four has nodes of two releases. Each old node is upgraded at its next restart,
/// whatever the cause: a rolling upgrade without extra events. The random numbers are a separate
/// sequence, so that the faults of a seed are the same with and without a mix.
enum ReleaseMix {
    static func apply(seed: UInt64, to nodes: [SimulatedNode]) {
        var dice = SeededRandom(seed: seed ^ 0x006c_6576_656c_7300)
        guard dice.next() % 4 == 0 else { return }
        // A cluster of the current feature level does not accept an older node.
        nodes.first?.level = .lowest
        for node in nodes.dropFirst() where dice.next() % 3 == 0 { node.level = .lowest }
    }
}

/// The buckets of a run.
extension SimulationRun {
    static func buckets(replicas: Int, _ workload: Workload) -> [BucketSettings] {
        var first = BucketSettings(
            name: "persistent",
            uuid: String(repeating: "0a", count: 16),
            quota: 100 << 20
        )
        first.vBuckets = workload.vBuckets
        first.replicas = replicas
        guard workload.hasEphemeral else { return [first] }
        var second = first
        second.name = "ephemeral"
        second.uuid = String(repeating: "0b", count: 16)
        second.type = .ephemeral
        second.evictionPolicy = .noEviction
        return [first, second]
    }

    /// - Parameters:
    ///   - replicas: Replicas of each vBucket.
    ///   - deleted: How many buckets of this name were created and deleted before.
    /// - Returns: Settings with a UUID of their own.
    static func extraBucket(replicas: Int, after deleted: Int = 0) -> BucketSettings {
        let digits = "\(deleted)"
        var settings = BucketSettings(
            name: extraName,
            uuid: deleted == 0
                ? String(repeating: "0c", count: 16)
                : String(repeating: "c", count: 32 - digits.count) + digits,
            quota: 100 << 20
        )
        settings.vBuckets = 16
        settings.replicas = replicas
        settings.flushEnabled = true
        return settings
    }
}
