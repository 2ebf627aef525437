internal import Vocabulary

/// Failovers in progress, and the last decision of automatic failover with the reasons if it fails no
/// node over.
package struct FailoverProgress: Sendable {
    var decision = AutoFailoverPolicy.Decision.nothing
    /// Why a node that is down is not failed over, as sentences for an operator.
    package internal(set) var reasons: [String] = []
    var coolingUntil: UInt64 = 0
    /// By bucket: the newest reports of its copies, to estimate the loss.
    var reports: [String: CopyReports] = [:]
    var reportsAt: UInt64 = 0
    /// By number: failovers in progress that operators requested, with the answer if the leadership ends now.
    var requests: [UInt64: FailoverResult] = [:]
    /// Nodes of which a failover is in progress: it stopped their copies, so that nothing else may
    /// let one of these serve again.
    var nodes: [NodeNumber] = []
}

/// A failover in progress.
struct FailoverOrder: Sendable {
    /// How often a failover chooses copies: again after a vBucket changed while copies were asked.
    static let attemptsMax = 2

    /// Active members, down or to be removed from service.
    let nodes: [NodeNumber]
    /// The administrator or local user that ordered it; nil if the policy decided.
    ///
    /// An automatic failover is refused if it may lose a durable write.
    let login: String?
    /// The number of the request to be answered; nil if the policy decided.
    let request: UInt64?
    var attempt = 1
    /// The choices of earlier attempts that took effect.
    var earlier: [Reconciler.Round] = []

    var isAutomatic: Bool { login == nil }

    func disagreement(_ view: LeaderView) -> String {
        "The cluster did not agree on failing over \(view.names(nodes))."
    }

    init(nodes: [NodeNumber], login: String?, request: UInt64?) {
        self.nodes = nodes
        self.login = login
        self.request = request
    }
}

/// Hard failover, by an operator or by policy: promotes remaining copies of the vBuckets that the nodes serve, then
/// removes the nodes from service.
extension Reconciler {
    /// The pause after an automatic failover that was not carried out.
    private static let coolingNanoseconds: UInt64 = 5_000_000_000
    /// How long reports are used to estimate the loss.
    private static let estimatePauseNanoseconds: UInt64 = 200_000_000

    mutating func failOver(_ order: FailoverOrder, _ view: LeaderView) {
        failover.nodes += order.nodes
        if let request = order.request {
            failover.requests[request] = .refused(order.disagreement(view))
        }
        choose(for: order, view)
    }

    private mutating func finish(
        _ order: FailoverOrder,
        with result: FailoverResult,
        _ view: LeaderView
    ) {
        for node in order.nodes {
            if let index = failover.nodes.firstIndex(of: node) { failover.nodes.remove(at: index) }
        }
        if let request = order.request {
            failover.requests[request] = nil
            actions.append(.answerFailover(request, result))
            return
        }
        end(.automaticFailover)
        guard case .refused(let reason) = result else { return }
        failover.reasons = [reason]
        failover.coolingUntil = view.now + Self.coolingNanoseconds
        log(.warning, .node, text: "Automatic failover was not carried out: \(reason)")
    }

    private mutating func refuseDisagreed(_ order: FailoverOrder, _ view: LeaderView) {
        finish(order, with: .refused(order.disagreement(view)), view)
    }

    /// Seals and chooses, in every bucket, for the vBuckets that the nodes serve or hold up.
    private mutating func choose(for order: FailoverOrder, _ view: LeaderView) {
        let names = view.state.buckets.map(\.settings.name)
        choose(for: order, inBuckets: names[...], after: [], view)
    }

    private mutating func choose(
        for order: FailoverOrder,
        inBuckets names: ArraySlice<String>,
        after rounds: [Round],
        _ view: LeaderView
    ) {
        let nodes = order.nodes
        guard let name = names.first else { return resumeOrPromote(rounds, for: order, view) }
        let others = names.dropFirst()
        guard let bucket = view.state.bucket(named: name) else {
            return choose(for: order, inBuckets: others, after: rounds, view)
        }
        // Include vBuckets without a serving copy whose promotion waits for one of these nodes.
        findWaiting(for: nodes, in: bucket, view) { reconciler, waiting, view in
            let served = view.state.bucket(named: name)?.numberedPlacements.compactMap {
                vBucket,
                placement in
                placement.chain.first.map(nodes.contains) ?? false || waiting.contains(vBucket)
                    ? vBucket : nil
            }
            guard let served, !served.isEmpty, let bucket = view.state.bucket(named: name) else {
                return reconciler.choose(for: order, inBuckets: others, after: rounds, view)
            }
            let questions = view.questions(served, of: bucket)
            reconciler.sealAndChoose(questions, of: bucket, without: nodes, view) {
                reconciler,
                round,
                view in
                reconciler.choose(for: order, inBuckets: others, after: rounds + [round], view)
            }
        }
    }

    /// Promotes the chosen copies; an automatic failover that would lose data resumes them instead.
    private mutating func resumeOrPromote(
        _ rounds: [Round],
        for order: FailoverOrder,
        _ view: LeaderView
    ) {
        let nodes = order.nodes
        let obstacles = rounds.flatMap(\.decided.obstacles)
        if order.isAutomatic, !obstacles.isEmpty {
            let reason = view.sentences(obstacles).joined(separator: " ")
            inTurn(rounds[...], view) { reconciler, round, view, then in
                let sealed = round.decided.promotions.map(\.vBucket) + round.stoppedForNothing
                reconciler.resume(sealed, ofBucket: round.decided.bucket, view) {
                    then(&$0, true, $2)
                }
            } then: { reconciler, _, view in
                reconciler.finish(order, with: .refused(reason), view)
            }
            return
        }
        inTurn(rounds[...], view) { reconciler, round, view, then in
            // If no other node has a copy, leave the vBucket on the failed-over node; other nodes
            // can copy from it later.
            let others = deposed(by: round.decided.promotions, in: round.bucket)
            reconciler.promote(round, deposing: others.union(nodes).sorted(), view) {
                reconciler,
                isAgreed,
                view in
                guard isAgreed else { return then(&reconciler, false, view) }
                let staying = vBucketsStaying(round, with: nodes, view)
                reconciler.resume(staying, ofBucket: round.decided.bucket, view, then: then)
            }
        } then: { reconciler, isAgreed, view in
            guard isAgreed else { return reconciler.refuseDisagreed(order, view) }
            reconciler.reopen(rounds, for: order, view)
        }
    }

    /// Reopens the promotion of vBuckets that only the nodes may have data of.
    private mutating func reopen(_ rounds: [Round], for order: FailoverOrder, _ view: LeaderView) {
        let lost = rounds.reduce(into: [:]) { $0[$1.decided.bucket] = Set($1.decided.lost) }
        let names = view.state.buckets.map(\.settings.name)
        inTurn(names[...], view) { reconciler, name, view, then in
            let empty = lost[name] ?? []
            reconciler.reopenPromotions(
                empty,
                ofBucket: name,
                without: order.nodes,
                view,
                then: then
            )
        } then: { reconciler, isAgreed, view in
            guard isAgreed else { return reconciler.refuseDisagreed(order, view) }
            reconciler.remove(order, after: rounds, lost: lost, view)
        }
    }

    /// Removes the nodes from service; chooses again if a vBucket of theirs changed meanwhile.
    private mutating func remove(
        _ order: FailoverOrder,
        after rounds: [Round],
        lost: [String: Set<VBucketID>],
        _ view: LeaderView
    ) {
        // Without this attempt, a vBucket could stay with its node although another copy may have its
        // data.
        guard !view.state.isServed(by: order.nodes, except: lost) else {
            return chooseAgain(order, after: rounds, view)
        }
        let mayLose = !order.isAutomatic && lost.values.contains { !$0.isEmpty }
        let step = FailoverStep(
            nodes: order.nodes,
            isAutomatic: order.isAutomatic,
            mayLose: mayLose
        )
        propose(.failOver(step), by: order.login) { reconciler, outcome, view in
            switch outcome {
            case .applied, .repeated: break
            case .refused(.nodeInUse): return reconciler.chooseAgain(order, after: rounds, view)
            case .refused, nil: return reconciler.refuseDisagreed(order, view)
            }
            for node in order.nodes { reconciler.actions.append(.forgetBeats(of: node)) }
            let result = reconciler.loss(by: order, order.earlier + rounds, view)
            let steps = reconciler.voterSteps(view)
            guard !steps.isEmpty else { return reconciler.finish(order, with: result, view) }
            // The change of the voters may end the leadership; the failover is agreed on already.
            if let request = order.request { reconciler.failover.requests[request] = result }
            reconciler.changeVoters(steps) { $0.finish(order, with: result, $1) }
        }
    }

    private mutating func chooseAgain(
        _ order: FailoverOrder,
        after rounds: [Round],
        _ view: LeaderView
    ) {
        guard order.attempt < FailoverOrder.attemptsMax else { return refuseDisagreed(order, view) }
        var order = order
        order.attempt += 1
        order.earlier += rounds.map { round in
            var round = round
            let bucket = view.state.bucket(named: round.decided.bucket)
            round.decided.keepSettled(in: bucket, without: order.nodes)
            return round
        }
        choose(for: order, view)
    }

    /// Tells what a failover that was carried out may have lost.
    private mutating func loss(
        by order: FailoverOrder,
        _ rounds: [Round],
        _ view: LeaderView
    ) -> FailoverResult {
        let lost = rounds.reduce(0) { $0 + $1.decided.changesLost }
        var sentence = "Node \(view.names(order.nodes)) was failed over"
        sentence +=
            lost > 0
            ? "; at least \(Words.count(Int(lost), "change")) may be lost."
            : "; no change is known to be lost."
        let unsafe = view.sentences(rounds.flatMap(\.decided.obstacles))
        if !unsafe.isEmpty { sentence += " " + unsafe.joined(separator: " ") }
        log(.warning, .node, text: sentence)
        return .done(possiblyLost: lost, sentence: sentence)
    }

    // MARK: Automatic failover

    /// Asks the policy; carries out its decision, or records why nothing is done.
    mutating func watchForFailures(_ view: LeaderView) {
        guard view.state.activeNodes.count > 1 else { return }
        let suspects = view.deadNodes
        guard !suspects.isEmpty, view.now >= failover.reportsAt + Self.estimatePauseNanoseconds
        else { return decideFailover(view) }
        guard begin(.lossEstimate) else { return }
        let names = view.state.buckets.map(\.settings.name)
        inTurn(names[...], view) { reconciler, name, view, then in
            guard let bucket = view.state.bucket(named: name) else {
                return then(&reconciler, true, view)
            }
            let holders = bucket.holders.filter { !suspects.contains($0) }
            reconciler.askReports(of: bucket, from: holders, view) { reconciler, reports, view in
                reconciler.failover.reports[name] = reports
                then(&reconciler, true, view)
            }
        } then: { reconciler, _, view in
            reconciler.failover.reportsAt = view.now
            reconciler.end(.lossEstimate)
            reconciler.decideFailover(view)
        }
    }

    private mutating func decideFailover(_ view: LeaderView) {
        guard begin(.automaticFailover) else { return }
        let before = failover.decision
        failover.decision = AutoFailoverPolicy.decide(
            view.state.settings.autoFailover,
            situation(view),
            view.beats.table,
            now: view.now
        )
        switch failover.decision {
        case .nothing, .wait: failover.reasons = []
        // Keep the reasons of the last attempt's failure: they are more useful than the policy's.
        case .blocked where view.now < failover.coolingUntil: break
        case .blocked(let nodes, let reasons):
            failover.reasons = view.sentences(reasons)
            if before != failover.decision {
                log(
                    .warning,
                    .node,
                    text: "Node \(view.names(nodes)) does not answer and is not failed over: "
                        + failover.reasons.joined(separator: " ")
                )
            }
        case .failOver(let nodes, _):
            return failOver(FailoverOrder(nodes: nodes, login: nil, request: nil), view)
        }
        end(.automaticFailover)
    }

    private func situation(_ view: LeaderView) -> FailoverSituation {
        let state = view.state
        var situation = FailoverSituation(
            members: state.activeNodes.map {
                .init(
                    $0.number,
                    group: $0.group,
                    isVoter: view.log.voters.contains($0.number)
                )
            },
            leaderSinceNanoseconds: view.leadsSince
        )
        situation.count = Int(state.autoFailoverCount)
        situation.coolingUntilNanoseconds = failover.coolingUntil
        situation.isMembershipChanging = view.log.isJoint
        situation.groupsHit = Set(
            state.nodes.filter { $0.membership == .inactiveFailed }.map(\.group)
        )
        // Without a silent node nothing is at stake.
        if !view.deadNodes.isEmpty { situation.buckets = state.buckets.map { stake(in: $0, view) } }
        return situation
    }

    private func stake(in bucket: BucketRecord, _ view: LeaderView) -> BucketAtStake {
        let name = bucket.settings.name
        let reports = failover.reports[name] ?? [:]
        let waiting = Set(waiting(in: bucket, reports, view))
        let vBuckets = bucket.placements.indices.map { VBucketID(UInt16($0)) }
        let rows = view.questions(vBuckets, of: bucket).map { question in
            BucketAtStake.Row(
                question: question,
                reports: reports.compactMapValues { $0[question.vBucket] },
                isWaiting: waiting.contains(question.vBucket)
            )
        }
        return BucketAtStake(
            name: name,
            isEphemeral: bucket.settings.type == .ephemeral,
            rows: rows
        )
    }
}

/// The stopped vBuckets that stay with their failed-over node.
///
/// vBuckets with a second chain are excluded: the reconciler asks the copies of that chain
/// once the node is failed over.
private func vBucketsStaying(
    _ round: Reconciler.Round,
    with nodes: [NodeNumber],
    _ view: LeaderView
) -> [VBucketID] {
    let gone = nodes + view.failedOver
    return round.stoppedForNothing.filter { round.bucket[$0].next.without(gone).isEmpty }
}

/// Active copies that are empty, or may restart empty, while their changes are on a node that is
/// about to be failed over.
extension Reconciler {
    /// How often the promotions are reopened: again after a vBucket changed during the proposal.
    private static let reopeningsMax = 2

    /// Reopens the promotion of vBuckets whose only remaining copy may be empty, before the
    /// failover.
    ///
    /// The failover shortens the chain to that copy, which would then serve at once, empty, since
    /// no other copy is left to ask. So the vBucket is recorded as without a decision, as after a
    /// restart: the copy with the most changes is chosen once its node answers. A failed-over
    /// node's copy is waited for until the node is recovered, reports that it has nothing, or is
    /// removed for good.
    ///
    /// - Parameters:
    ///   - empty: vBuckets for which only copies on `nodes` were found.
    ///   - name: The bucket's name.
    ///   - nodes: The nodes that are failed over next.
    ///   - attempt: The number of this attempt, from 1.
    ///   - view: The leader's knowledge.
    ///   - then: Receives whether it is known to be agreed on for all of them.
    mutating func reopenPromotions(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber],
        attempt: Int = 1,
        _ view: LeaderView,
        then: @escaping BoolContinuation
    ) {
        guard let before = view.state.bucket(named: name) else { return then(&self, true, view) }
        let isInMemory = before.settings.type == .ephemeral
        let alone = isInMemory ? Set(view.lastCopies(in: before, without: nodes).values) : []
        // A beat reports about its node, not about one copy, so ask for the copies.
        let asked = alone.subtracting(view.deadNodes).sorted()
        askReports(of: before, from: asked, view) { reconciler, reports, view in
            let steps = view.stepsToReopen(empty, ofBucket: name, without: nodes, reports)
            guard !steps.isEmpty else { return then(&reconciler, true, view) }
            reconciler.propose(.promote(VBucketSteps(bucket: name, steps: steps))) {
                reconciler,
                outcome,
                view in
                guard case .applied(let effects) = outcome else {
                    return then(&reconciler, outcome == .repeated, view)
                }
                let isLeftOut = effects.contains { effect in
                    if case .leftOut = effect { true } else { false }
                }
                guard isLeftOut else { return then(&reconciler, true, view) }
                guard attempt < Self.reopeningsMax else { return then(&reconciler, false, view) }
                reconciler.reopenPromotions(
                    empty,
                    ofBucket: name,
                    without: nodes,
                    attempt: attempt + 1,
                    view,
                    then: then
                )
            }
        }
    }
}

extension LeaderView {
    fileprivate func stepsToReopen(
        _ empty: Set<VBucketID>,
        ofBucket name: String,
        without nodes: [NodeNumber],
        _ reports: CopyReports
    ) -> [VBucketSteps.Step] {
        guard let bucket = state.bucket(named: name) else { return [] }
        let isInMemory = bucket.settings.type == .ephemeral
        // Include nodes that failed while slower ones answered: their answer is out of date.
        let dead = deadNodes
        let left = lastCopies(in: bucket, without: nodes)
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            guard isExposed(placement, to: nodes) else { return nil }
            // A node that does not answer may be restarting, which loses an ephemeral bucket's
            // data.
            let mayForget = left[vBucket].map { active in
                let report = reports[active]?[vBucket]
                let isServing = report?.state == .active && report?.fence == placement.fence
                return isInMemory && (!isServing || dead.contains(active))
            }
            guard empty.contains(vBucket) || mayForget == true else { return nil }
            return .init(
                vBucket,
                from: placement,
                row: placement.chain,
                position: VBucketPlacement.unknown
            )
        }
    }

    /// Active copies that become the only one of their chain once `nodes` are failed over.
    fileprivate func lastCopies(
        in bucket: BucketRecord,
        without nodes: [NodeNumber]
    ) -> [VBucketID: NodeNumber] {
        let gone = nodes + failedOver
        var found: [VBucketID: NodeNumber] = [:]
        for (vBucket, placement) in bucket.numberedPlacements
        where isExposed(placement, to: nodes) && placement.chain.without(gone).count == 1 {
            found[vBucket] = placement.chain.first
        }
        return found
    }

    /// The active copy stays, and one of `nodes` has another copy.
    private func isExposed(_ placement: VBucketPlacement, to nodes: [NodeNumber]) -> Bool {
        guard placement.isConfirmed, let active = placement.chain.first else { return false }
        return !nodes.contains(active) && !failedOver.contains(active)
            && placement.chain.contains(where: nodes.contains)
    }
}
