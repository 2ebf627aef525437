internal import Bytes
internal import ClusterService
internal import DivanClient
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Checks after the faults: every vBucket is served, the nodes are recovered, and writes succeed.
extension SimulationRun {
    /// An invited node has a minute to join, by the leader's clock, and some seconds of tolerance.
    private static let invitationSeconds: UInt64 = 65

    /// Checks that every vBucket is served within 30 seconds, recovers the failed-over nodes, and
    /// checks that every vBucket has all copies and accepts writes.
    func awaitConvergence() {
        let convergence = Convergence(cluster: cluster)
        // Wait for open administrator requests: a hard failover may leave vBuckets without a copy.
        _ = cluster.waitUntil(seconds: 30) { !cluster.hasOpenOrders }
        // A hard failover reports the vBuckets without another copy. These have no copy until a
        // rebalance creates them again.
        let isHandMade = administrator != nil
        let flaws = { convergence.mapFlaws(toleratingLoss: isHandMade, toleratingInvited: $0) }
        // After that, only invited nodes may be missing, until their minute is over.
        if !cluster.waitUntil(seconds: 30, { flaws(true).isEmpty })
            || !cluster.waitUntil(seconds: Self.invitationSeconds, { flaws(false).isEmpty })
        {
            logMembers()
            for flaw in flaws(false).prefix(4) { verifier.reportFlaw("Live: \(flaw)") }
            return
        }
        guard !convergence.hasLost else {
            note("every vBucket with a copy is served")
            recover(convergence)
            if writeEverywhere() { writeEverywhereDurably() }
            return
        }
        if !writeEverywhere() { return }
        note("every vBucket is served")
        recover(convergence)
        writeEverywhereDurably()
    }

    /// Restarts the nodes of the previous release that left a cluster of a newer feature level.
    ///
    /// The cluster refuses them, and its message asks the operator for this.
    private func upgradeRefusedNodes() {
        guard let state = cluster.newestState else { return }
        let refused = cluster.nodes.filter { node in
            node.level < state.featureLevel
                && state.nodes.first { $0.host == node.address }?.membership != .active
        }
        guard !refused.isEmpty else { return }
        note("upgrades \(refused.map(\.address))")
        for node in refused { node.stop() }
        _ = cluster.waitUntil(seconds: 30) {
            refused.allSatisfy { $0.isServing && $0.level >= state.featureLevel }
        }
    }

    private func recover(_ convergence: Convergence) {
        upgradeRefusedNodes()
        for round in 0..<4 where recoveryNeed != nil {
            // A node that lost power during a handshake is reachable again after six seconds.
            if round > 0 { cluster.world.run(for: 3_000_000_000) }
            guard let node = cluster.reachableNode else {
                return verifier.reportFlaw("Live: no node answers")
            }
            let type: RecoveryType = (plan.seed + UInt64(round)) & 1 == 0 ? .delta : .full
            let tokens = cluster.tokens
            let outcome = cluster.ask(node, seconds: 60) { service in
                let added = await Operator.addAll(service, tokens)
                return "\(added); \(await Operator.recover(service, type))"
            }
            note("recovery: \(outcome ?? "no answer")")
            _ = cluster.waitUntil(seconds: 60) { cluster.newestState?.rebalance == nil }
        }
        if let need = recoveryNeed {
            logMembers()
            let last = cluster.newestState?.lastRebalance?.sentence ?? "no rebalance"
            verifier.reportFlaw("Live: the nodes were not recovered: \(need); \(last)")
        }
        _ = cluster.waitUntil(seconds: 10) { convergence.mapFlaws().isEmpty }
        for flaw in convergence.mapFlaws().prefix(4) { verifier.reportFlaw("Live: \(flaw)") }
    }

    /// Adds each member's Raft status and the pending moves to the transcript.
    private func logMembers() {
        for node in cluster.nodes {
            guard let status = node.service?.cluster.raftStatus else { continue }
            note(
                "\(node.address): \(status.role) of term \(status.term), commit \(status.commit), "
                    + "applied \(status.applied), leader \(status.leader.map { "\($0)" } ?? "none"), "
                    + "voters \(status.configuration)" + (status.failure.map { ", \($0)" } ?? "")
            )
        }
        guard let record = cluster.newestState?.rebalance, let leader = cluster.leader else {
            return
        }
        let report = cluster.ask(leader) { await $0.membership.report(of: record) }
        note(
            "the rebalance of \(record.kept) waits: \(report?.obstacle ?? "no known obstacle")"
        )
        guard let bucket = record.bucket.flatMap({ cluster.newestState?.bucket(named: $0) }) else {
            return
        }
        for (number, placement) in bucket.placements.enumerated() {
            let target = bucket.targets?.rows[number].nodes ?? []
            guard placement.chain.nodes != target || !placement.isConfirmed else { continue }
            note("\(bucket.settings.name) \(number), to be on \(target): \(placement)")
        }
    }

    /// Why the cluster is not whole yet: a failed-over node, or a vBucket that lacks copies.
    ///
    /// Nil if the cluster is whole.
    private var recoveryNeed: String? {
        guard let state = cluster.newestState else { return "no node has a state" }
        for node in cluster.nodes {
            let record = state.nodes.first { $0.host == node.address }
            guard record?.membership == .active else {
                return "\(node.address) is \(record.map { "\($0.membership)" } ?? "no member")"
            }
        }
        for bucket in state.buckets {
            let wanted = min(bucket.settings.replicas + 1, state.activeNodes.count)
            for (number, placement) in bucket.placements.enumerated()
            where placement.chain.count != wanted {
                return "\(bucket.settings.name) vb:\(number) has copies on "
                    + "\(placement.chain.nodes), and there should be \(wanted)"
            }
        }
        return nil
    }

    /// Checks that durable writes succeed wherever a majority of the copies exists.
    private func writeEverywhereDurably() {
        guard verifier.violations.isEmpty else { return }
        _ = writeEverywhere(.durable(.majority)) { [cluster] bucket in
            let placements = cluster.newestState?.bucket(named: bucket.name)?.placements ?? []
            return placements.indices.filter { number in
                placements[number].chain.count > Int(placements[number].copies) / 2
            }
        }
    }

    /// Checks that every vBucket of every bucket accepts a write.
    private func writeEverywhere(
        _ options: WriteOptions = .plain,
        _ which: @escaping (BucketSettings) -> [Int] = { Array(0..<$0.vBuckets) }
    ) -> Bool {
        var isWell = true
        let hasExtra = cluster.newestState?.bucket(named: SimulationRun.extraName) != nil
        for bucket in buckets + (hasExtra ? [SimulationRun.extraBucket(replicas: 0)] : []) {
            guard let client = clients.first(where: { $0.bucket.name == bucket.name }) else {
                continue
            }
            let left = Guarded(Set((0..<bucket.vBuckets).map { VBucketID(UInt16($0)) }))
            // Evaluated for each attempt: nodes may be failed over between two.
            let due = {
                left.withLock { $0 }.intersection(which(bucket).map { VBucketID(UInt16($0)) })
            }
            let errors = Guarded<[String]>([])
            var isFirst = true
            for _ in 0..<6 where !due().isEmpty {
                errors.withLock { $0 = [] }
                let answers = Guarded(0)
                // The nodes apply a new map one after another.
                if !isFirst { cluster.world.run(for: SimulationRun.second) }
                isFirst = false
                let asked = due()
                client.write(to: asked, options) { vBucket, error in
                    if let error {
                        errors.withLock { $0.append("\(vBucket): \(error)") }
                    } else {
                        left.withLock { _ = $0.remove(vBucket) }
                    }
                    answers.withLock { $0 += 1 }
                }
                _ = cluster.waitUntil(seconds: 5) { answers.withLock { $0 } == asked.count }
            }
            let refused = due()
            guard !refused.isEmpty else { continue }
            isWell = false
            let first = errors.withLock { $0.first } ?? "there is no client"
            verifier.reportFlaw("Live: \(refused.count) vBuckets accept no write: \(first)")
        }
        return isWell
    }
}
