internal import Orchestration
internal import Vocabulary

/// Seal, promote, confirm: how a vBucket gets another active copy without a hand-over.
extension Orchestrator {
    /// The result of sealing and choosing for one bucket.
    struct Round {
        let bucket: BucketRecord
        var decided: PromotionRound
        /// Nodes that were asked and did not answer.
        var silent: [NodeNumber] = []
        /// vBuckets whose reachable active nodes were asked to stop serving; a node may have
        /// stopped even if its answer is missing.
        var stopped: Set<VBucketID> = []

        /// Stopped vBuckets for which no other copy was found: they stay with their node.
        var stoppedForNothing: [VBucketID] { decided.lost.filter { stopped.contains($0) } }
    }

    /// Seals all surviving copies of these vBuckets and chooses the next active one among them.
    ///
    /// If a node that must not be chosen is reachable, it is stopped first. Then it acknowledges no
    /// change that would be lost, the other copies receive its last changes, and it reports its
    /// last seqno.
    ///
    /// - Parameters:
    ///   - vBuckets: Sorted by number.
    ///   - bucket: The current record.
    ///   - absent: Nodes whose copies are not considered.
    ///   - givenUp: Of those, nodes that an operator gave up for good.
    /// - Returns: The choice for each vBucket.
    func sealAndChoose(
        _ vBuckets: [VBucketID],
        of bucket: BucketRecord,
        without absent: [NodeNumber],
        givenUp: [NodeNumber] = []
    ) async -> Round {
        await sealAndChoose(questions(vBuckets, of: bucket), of: bucket, without: absent, givenUp)
    }

    /// The same with questions that were prepared before.
    func sealAndChoose(
        _ questions: [Promotion.Question],
        of bucket: BucketRecord,
        without absent: [NodeNumber],
        _ givenUp: [NodeNumber] = []
    ) async -> Round {
        var asked: [NodeNumber: [FencedVBucket]] = [:]
        for question in questions {
            for node in question.asked where !absent.contains(node) {
                asked[node, default: []].append(
                    FencedVBucket(question.vBucket, fence: question.fence)
                )
            }
        }
        let ending = nodesToStop(absent, questions)
        let stopped =
            ending.isEmpty
            ? [:]
            : await copies(of: bucket).seal(ending, timeoutNanoseconds: Self.stopTimeoutNanoseconds)
        let sealed = await copies(of: bucket).seal(asked)
        var round = PromotionRound(
            bucket: bucket.settings.name,
            activeCounts: activeCounts(without: absent),
            served: member.beats.served(by: absent, ofBucket: bucket.settings.uuid),
            givenUp: givenUp + leavingForGood
        )
        for question in questions {
            let active = question.active.flatMap { stopped[$0]?[question.vBucket] }
            round.decide(
                question,
                sealed: sealed.compactMapValues { $0[question.vBucket] },
                stoppedAt: active?.fence == question.fence ? active?.high ?? .zero : .zero
            )
        }
        let silent = asked.keys.filter { sealed[$0] == nil }
        return Round(
            bucket: bucket,
            decided: round,
            silent: silent.sorted(),
            stopped: Set(ending.values.joined().map(\.vBucket))
        )
    }

    func questions(_ vBuckets: [VBucketID], of bucket: BucketRecord) -> [Promotion.Question] {
        let failedOver = failedOver
        return vBuckets.compactMap { vBucket in
            state.assignment(ofBucket: bucket.settings.name, vBucket).map { assignment in
                question(vBucket, of: bucket, assignment, failedOver)
            }
        }
    }

    func question(
        _ vBucket: VBucketID,
        of bucket: BucketRecord,
        _ assignment: VBucketAssignment,
        _ failedOver: Set<NodeNumber>
    ) -> Promotion.Question {
        let placement = bucket[vBucket]
        return Promotion.Question(
            vBucket: vBucket,
            basis: placement.confirmedChain.nodes,
            of: assignment,
            lost: failedOver
        )
    }

    /// Failed-over nodes that the running rebalance or a new epoch removes: the operator has given
    /// up their data.
    var leavingForGood: [NodeNumber] {
        let leftBehind = state.leftBehind
        guard let rebalance = state.rebalance, rebalance.kind == .rebalance else {
            return leftBehind
        }
        return leftBehind + rebalance.ejected.filter { failedOver.contains($0) }
    }

    /// How long a node whose beat arrived just now may take to stop.
    private static var stopTimeoutNanoseconds: UInt64 { 300_000_000 }

    /// The reachable ones of `nodes`, and the vBuckets that each must stop serving.
    private func nodesToStop(
        _ nodes: [NodeNumber],
        _ questions: [Promotion.Question]
    ) -> [NodeNumber: [FencedVBucket]] {
        var found: [NodeNumber: [FencedVBucket]] = [:]
        for node in nodes where !member.beats.table.isSuspect(node, now: now) {
            let own = questions.filter { $0.active == node }
            guard !own.isEmpty else { continue }
            found[node] = own.map { FencedVBucket($0.vBucket, fence: $0.fence) }
        }
        return found
    }

    /// Nodes that are not active members: their copies are not used.
    var failedOver: Set<NodeNumber> {
        Set(state.nodes.filter { $0.membership != .active }.map(\.number))
    }

    private func activeCounts(without absent: [NodeNumber]) -> [NodeNumber: Int] {
        var counts: [NodeNumber: Int] = [:]
        for bucket in state.buckets {
            for placement in bucket.placements {
                guard let node = placement.chain.first, !absent.contains(node) else { continue }
                counts[node, default: 0] += 1
            }
        }
        return counts
    }

    /// Proposes the choices; the chosen copies serve once they are confirmed.
    ///
    /// - Returns: Whether the promotion is known to be agreed on.
    @discardableResult
    func promote(_ round: Round, deposing nodes: [NodeNumber]) async -> Bool {
        await promote(round.decided.promotions, of: round.bucket, deposing: nodes)
    }

    @discardableResult
    func promote(
        _ choices: [Promotion],
        of bucket: BucketRecord,
        deposing nodes: [NodeNumber]
    ) async -> Bool {
        let name = bucket.settings.name
        // A failover may have begun since the copies were asked.
        let steps = choices.filter { !failover.nodes.contains($0.node) }.map { choice in
            VBucketSteps.Step(
                vBucket: choice.vBucket,
                fence: choice.fence,
                stage: choice.stage,
                row: NodeChain(choice.row) ?? NodeChain(),
                position: choice.expected
            )
        }
        guard !steps.isEmpty else { return true }
        let promotion = VBucketSteps(bucket: name, steps: steps, deposes: nodes)
        guard await propose(.promote(promotion)) != nil else { return false }
        await finishPromotions(ofBucket: name)
        return true
    }

    /// Lets vBuckets that were sealed without a successor be served by their active copies again.
    ///
    /// - Returns: Whether it is known to be agreed on.
    @discardableResult
    func resume(_ vBuckets: [VBucketID], ofBucket name: String) async -> Bool {
        guard !vBuckets.isEmpty, let bucket = state.bucket(named: name) else { return true }
        let steps = vBuckets.map { VBucketSteps.Step($0, from: bucket[$0]) }
        return await propose(.resume(VBucketSteps(bucket: name, steps: steps))) != nil
    }

    // MARK: Confirming

    func finishPromotions() async {
        for bucket in state.buckets where bucket.placements.contains(where: { !$0.isConfirmed }) {
            await finishPromotions(ofBucket: bucket.settings.name)
        }
    }

    /// Asks chosen copies whether they are ready: confirms the ready ones, and chooses again for
    /// the remaining vBuckets.
    private func finishPromotions(ofBucket name: String) async {
        guard let bucket = state.bucket(named: name) else { return }
        let leaving = failedOver.union(failover.nodes)
        var asked: [NodeNumber: [ActivationSubject]] = [:]
        var refused: [VBucketID] = []
        for (vBucket, placement) in bucket.numberedPlacements where !placement.isConfirmed {
            guard let node = placement.chain.first else { continue }
            // Do not confirm a copy whose node was failed over since it was chosen, or is about to
            // be, even if it is ready.
            guard !leaving.contains(node), !placement.isRestored else {
                refused.append(vBucket)
                continue
            }
            asked[node, default: []].append(
                ActivationSubject(
                    vBucket: vBucket,
                    fence: placement.fence,
                    expected: placement.expected
                )
            )
        }
        guard !asked.isEmpty || !refused.isEmpty else { return }
        let ready = await copies(of: bucket).activate(asked)
        var confirmed: [VBucketSteps.Step] = []
        for (node, activations) in asked.sorted(by: { $0.key < $1.key }) {
            for activation in activations {
                if ready[node]?.contains(activation.vBucket) == true {
                    confirmed.append(.init(activation.vBucket, from: bucket[activation.vBucket]))
                } else {
                    refused.append(activation.vBucket)
                }
            }
        }
        if !confirmed.isEmpty {
            confirmed.sort { $0.vBucket < $1.vBucket }
            await propose(.confirm(VBucketSteps(bucket: name, steps: confirmed)))
        }
        guard let bucket = state.bucket(named: name) else { return }
        let unusable = unusableNodes()
        let late = chooseAnew(refused, of: bucket, without: unusable)
        let due = await safeQuestions(late, of: bucket, without: unusable)
        guard !due.isEmpty, let bucket = state.bucket(named: name) else { return }
        // The chosen copy's node crashed or is cut off: ask the previous chain again.
        let round = await sealAndChoose(due, of: bucket, without: unusable)
        // Choose for each vBucket separately, so that a vBucket that must wait delays no other.
        let safe = round.decided.promotions.filter { $0.safety == .safe }
        await promote(safe, of: bucket, deposing: deposed(by: safe, in: bucket).sorted())
    }

    /// Nodes that must stop serving once these choices are applied.
    func deposed(by choices: [Promotion], in bucket: BucketRecord) -> Set<NodeNumber> {
        Set(
            choices.flatMap { choice in
                bucket[choice.vBucket].mayServe.filter { $0 != choice.node }
            }
        )
    }

    /// The refused vBuckets for which to choose again: the chosen node is gone, or the copy has not
    /// become ready for a while.
    ///
    /// A copy that is read from disk only needs time, and every choice is an entry in the log.
    private func chooseAnew(
        _ refused: [VBucketID],
        of bucket: BucketRecord,
        without unusable: [NodeNumber]
    ) -> [VBucketID] {
        let (now, gone) = (now, failedOver.union(unusable))
        let isTooEarly =
            now < (choseAnewAt[bucket.settings.name] ?? 0) + Self.askingPauseNanoseconds
        var since: [VBucketID: UInt64] = [:]
        var due: [VBucketID] = []
        for vBucket in refused.sorted() {
            let first = refusedSince[bucket.settings.name]?[vBucket] ?? now
            let isGone =
                bucket[vBucket].isRestored
                || bucket[vBucket].chain.first.map { gone.contains($0) } ?? true
            if !isTooEarly, isGone || now - first >= Self.readyTimeoutNanoseconds {
                due.append(vBucket)
            } else {
                since[vBucket] = first
            }
        }
        refusedSince[bucket.settings.name] = since.isEmpty ? nil : since
        if !due.isEmpty { choseAnewAt[bucket.settings.name] = now }
        return due
    }

    /// The pause between calls about copies that must wait for other nodes.
    static var askingPauseNanoseconds: UInt64 { 500_000_000 }

    /// How long a chosen copy may take to become ready before other copies are asked again.
    private static var readyTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// Nodes whose copies are not chosen: dead nodes, and nodes of which a failover is in progress.
    ///
    /// A failover stops the copies of a reachable node. If such a copy were chosen because no other
    /// one answers yet, the other one would leave the chain, and the failover would remove the only
    /// copy that is left.
    func unusableNodes() -> [NodeNumber] { Set(deadNodes() + failover.nodes).sorted() }

    /// Nodes from which no node has received a beat for a while.
    func deadNodes() -> [NodeNumber] {
        let now = now
        return state.nodes.map(\.number).filter { member.beats.table.isSuspect($0, now: now) }
    }
}
