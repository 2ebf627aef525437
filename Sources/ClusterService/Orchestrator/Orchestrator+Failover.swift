internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Failovers in progress, and the last decision of automatic failover with the reasons if it fails no
/// node over.
struct FailoverProgress: Sendable {
    var decision = AutoFailoverPolicy.Decision.nothing
    /// Why a node that is down is not failed over, as sentences for an operator.
    var reasons: [String] = []
    var coolingUntil: UInt64 = 0
    /// By bucket: the newest reports of its copies, to estimate the loss.
    var reports: [String: CopyCalls.Reports] = [:]
    var reportsAt: UInt64 = 0
    /// Whether automatic failover is carrying out a decision.
    var isActing = false
    /// Nodes of which a failover is in progress: it stopped their copies, so that nothing else may
    /// let one of these serve again.
    var nodes: [NodeNumber] = []
}

/// The result of a failover.
package enum FailoverResult: Hashable, Sendable {
    /// `possiblyLost`: the least number of changes that only the failed-over nodes had.
    case done(possiblyLost: UInt64, sentence: String)
    /// Nothing was changed: what would be lost, or why the failover is impossible.
    case refused(String)
}

/// Hard failover, by an operator or by policy.
extension Orchestrator {
    /// Fails nodes over at once: promotes remaining copies of the vBuckets that they serve.
    ///
    /// - Parameters:
    ///   - nodes: Active members, down or to be removed from service.
    ///   - login: The administrator or local user that ordered it; nil if the policy decided. Such a
    ///     failover is refused if it may lose a durable write.
    /// - Returns: What may be lost, or why nothing was done.
    func failOver(_ nodes: [NodeNumber], by login: String?) async -> FailoverResult {
        guard isLeading else { return .refused("This node is not the leader of the cluster.") }
        failover.nodes += nodes
        defer {
            for node in nodes {
                if let place = failover.nodes.firstIndex(of: node) {
                    failover.nodes.remove(at: place)
                }
            }
        }
        var earlier: [Round] = []
        // A former leader gives no orders: it stops after the first round without leadership.
        for _ in 0..<Self.failoverRoundsMax where isLeading {
            let rounds = await roundsWithout(nodes)
            let result = await carryOut(rounds, without: nodes, by: login, after: earlier)
            if let result { return result }
            earlier += rounds.map { settled($0, without: nodes) }
        }
        return .refused(disagreement(nodes))
    }

    /// How often a failover chooses copies: again after a vBucket changed while copies were asked.
    private static var failoverRoundsMax: Int { 2 }

    private func disagreement(_ nodes: [NodeNumber]) -> String {
        "The cluster did not agree on failing over \(names(nodes))."
    }

    private func names(_ nodes: [NodeNumber]) -> String {
        nodes.map { name($0) }.joined(separator: ", ")
    }

    /// Promotes the chosen copies and removes the nodes from service.
    ///
    /// - Parameters:
    ///   - rounds: The choices of this round, by bucket.
    ///   - nodes: The nodes to be failed over.
    ///   - login: As of `failOver`.
    ///   - earlier: The choices of rounds before that took effect.
    /// - Returns: The result; nil if a vBucket of the nodes changed meanwhile, so that the round
    ///   has not decided about it.
    private func carryOut(
        _ rounds: [Round],
        without nodes: [NodeNumber],
        by login: String?,
        after earlier: [Round]
    ) async -> FailoverResult? {
        let isAutomatic = login == nil
        let obstacles = rounds.flatMap(\.decided.obstacles)
        if isAutomatic, !obstacles.isEmpty {
            for round in rounds {
                let sealed = round.decided.promotions.map(\.vBucket) + round.stoppedForNothing
                await resume(sealed, ofBucket: round.decided.bucket)
            }
            return .refused(sentences(obstacles).joined(separator: " "))
        }
        // After a change of leader stop: the new leader may have other reports and suspects.
        for round in rounds {
            // If no other node has a copy, leave the vBucket on the failed-over node; other nodes
            // can copy from it later.
            let others = deposed(by: round.decided.promotions, in: round.bucket)
            let deposed = others.union(nodes).sorted()
            guard await promote(round, deposing: deposed),
                await resume(vBucketsStaying(round, with: nodes), ofBucket: round.decided.bucket)
            else { return .refused(disagreement(nodes)) }
        }
        let lost = rounds.reduce(into: [:]) { $0[$1.decided.bucket] = Set($1.decided.lost) }
        for name in state.buckets.map(\.settings.name) {
            guard await reopenPromotions(lost[name] ?? [], ofBucket: name, without: nodes) else {
                return .refused(disagreement(nodes))
            }
        }
        // Without this round, a vBucket could stay with its node although another copy may have its
        // data.
        guard !state.isServed(by: nodes, except: lost) else { return nil }
        let mayLose = !isAutomatic && lost.values.contains { !$0.isEmpty }
        let step = FailoverStep(nodes: nodes, isAutomatic: isAutomatic, mayLose: mayLose)
        switch await propose(.failOver(step), by: login) {
        case .applied, .repeated: break
        case .refused(.nodeInUse): return nil
        case .refused, nil: return .refused(disagreement(nodes))
        }
        for node in nodes { member.beats.forget(node) }
        await reconcileMembers()
        return finished(nodes, earlier + rounds)
    }

    /// The round with only those choices that took effect.
    private func settled(_ round: Round, without nodes: [NodeNumber]) -> Round {
        var round = round
        let bucket = state.bucket(named: round.decided.bucket)
        round.decided.keepSettled(in: bucket, without: nodes)
        return round
    }

    /// Seals and chooses, in every bucket, for the vBuckets that the nodes serve or hold up.
    private func roundsWithout(_ nodes: [NodeNumber]) async -> [Round] {
        var rounds: [Round] = []
        for bucket in state.buckets {
            // Include vBuckets without a serving copy whose promotion waits for one of these nodes.
            let waiting = await waiting(for: nodes, in: bucket)
            guard let bucket = state.bucket(named: bucket.settings.name) else { continue }
            let vBuckets = bucket.placements.indices.map { VBucketID(UInt16($0)) }
                .filter { vBucket in
                    let placement = bucket[vBucket]
                    return placement.chain.first.map { nodes.contains($0) } ?? false
                        || waiting.contains(vBucket)
                }
            guard !vBuckets.isEmpty else { continue }
            rounds.append(await sealAndChoose(vBuckets, of: bucket, without: nodes))
        }
        return rounds
    }

    /// Tells what a failover that was carried out may have lost.
    private func finished(_ nodes: [NodeNumber], _ rounds: [Round]) -> FailoverResult {
        let lost = rounds.reduce(0) { $0 + $1.decided.changesLost }
        var sentence = "Node \(names(nodes)) was failed over"
        sentence +=
            lost > 0
            ? "; at least \(Words.count(Int(lost), "change")) may be lost."
            : "; no change is known to be lost."
        let unsafe = sentences(rounds.flatMap(\.decided.obstacles))
        if !unsafe.isEmpty { sentence += " " + unsafe.joined(separator: " ") }
        member.logEvent(.warning, .node, sentence)
        return .done(possiblyLost: lost, sentence: sentence)
    }

    /// The stopped vBuckets that stay with their failed-over node.
    ///
    /// vBuckets with a second chain are excluded: the orchestrator asks the copies of that chain
    /// once the node is failed over.
    private func vBucketsStaying(_ round: Round, with nodes: [NodeNumber]) -> [VBucketID] {
        let gone = nodes + failedOver
        return round.stoppedForNothing.filter { round.bucket[$0].next.without(gone).isEmpty }
    }

    func sentences(_ reasons: [FailoverBlocker]) -> [String] {
        let now = now
        return reasons.map { $0.sentence(now: now, naming: { self.name($0) }) }
    }

    // MARK: Automatic failover

    /// Asks the policy; carries out its decision, or records why nothing is done.
    func watchForFailures() async {
        let now = now
        let active = state.activeNodes
        guard active.count > 1, let leadsSince, !failover.isActing else { return }
        var situation = FailoverSituation(
            members: active.map {
                .init(
                    $0.number,
                    group: $0.group,
                    isVoter: member.driver.status.configuration.voters.contains($0.number)
                )
            },
            leaderSinceNanoseconds: leadsSince
        )
        situation.count = Int(state.autoFailoverCount)
        situation.coolingUntilNanoseconds = failover.coolingUntil
        situation.isMembershipChanging = member.driver.status.configuration.isJoint
        situation.groupsHit = Set(
            state.nodes.filter { $0.membership == .inactiveFailed }.map(\.group)
        )
        let suspects = deadNodes()
        if !suspects.isEmpty { await estimate(without: suspects) }
        situation.buckets = state.buckets.map { failoverImpact($0) }
        let decision = AutoFailoverPolicy.decide(
            state.settings.autoFailover,
            situation,
            member.beats.table,
            now: now
        )
        await applyDecision(decision)
    }

    private func applyDecision(_ decision: AutoFailoverPolicy.Decision) async {
        let before = failover.decision
        failover.decision = decision
        switch decision {
        case .nothing, .wait: failover.reasons = []
        // Keep the reasons of the last attempt's failure: they are more useful than the policy's.
        case .blocked where now < failover.coolingUntil: break
        case .blocked(let nodes, let reasons):
            failover.reasons = sentences(reasons)
            if before != decision {
                member.logEvent(
                    .warning,
                    .node,
                    "Node \(names(nodes)) does not answer and is not failed over: "
                        + failover.reasons.joined(separator: " ")
                )
            }
        case .failOver(let nodes, _):
            failover.isActing = true
            let result = await failOver(nodes, by: nil)
            failover.isActing = false
            if case .refused(let reason) = result {
                failover.reasons = [reason]
                failover.coolingUntil = now + Self.coolingNanoseconds
                member.logEvent(
                    .warning,
                    .node,
                    "Automatic failover was not carried out: \(reason)"
                )
            }
        }
    }

    /// The pause after an automatic failover that was not carried out.
    private static var coolingNanoseconds: UInt64 { 5_000_000_000 }

    /// Asks reachable nodes for reports, from which the policy estimates the loss.
    private func estimate(without dead: [NodeNumber]) async {
        guard now >= failover.reportsAt + 200_000_000 else { return }
        for bucket in state.buckets {
            let holders = bucket.holders.filter { !dead.contains($0) }
            failover.reports[bucket.settings.name] =
                await copies(of: bucket).reports(from: holders)
        }
        failover.reportsAt = now
    }

    private func failoverImpact(_ bucket: BucketRecord) -> BucketAtStake {
        let name = bucket.settings.name
        let reports = failover.reports[name] ?? [:]
        let failedOver = failedOver
        let waiting = Set(waiting(in: bucket, reports))
        let assignments = state.assignment(ofBucket: name)?.vBuckets ?? []
        let rows = zip(bucket.placements, assignments).enumerated().map { number, row in
            let vBucket = VBucketID(UInt16(number))
            return BucketAtStake.Row(
                question: question(vBucket, of: bucket, row.1, failedOver),
                reports: reports.compactMapValues { $0[vBucket] },
                isWaiting: waiting.contains(vBucket)
            )
        }
        return BucketAtStake(
            name: name,
            isEphemeral: bucket.settings.type == .ephemeral,
            rows: rows
        )
    }
}
