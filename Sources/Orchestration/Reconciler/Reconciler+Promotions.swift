internal import Vocabulary

/// Seal, promote, confirm: how a vBucket gets another active copy without a hand-over.
extension Reconciler {
    /// The result of sealing and choosing for one bucket.
    struct Round: Sendable {
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

    typealias RoundContinuation = @Sendable (inout Reconciler, Round, LeaderView) -> Void

    /// The pause between calls about copies that must wait for other nodes.
    static let askingPauseNanoseconds: UInt64 = 500_000_000
    /// How long a chosen copy may take to become ready before other copies are asked again.
    private static let readyTimeoutNanoseconds: UInt64 = 2_000_000_000

    /// Brings the copies of a bucket into the agreed state: promotions, unserved copies, former owners.
    mutating func reconcileCopies(of bucket: BucketRecord, _ view: LeaderView) {
        let name = bucket.settings.name
        guard begin(.copies(name)) else { return }
        finishPromotions(ofBucket: name, view) { reconciler, view in
            reconciler.replaceUnservedCopies(ofBucket: name, view) { reconciler, view in
                // A running rebalance releases the former owners of its own bucket.
                guard view.state.rebalance == nil else { return reconciler.end(.copies(name)) }
                reconciler.releaseFormers(ofBucket: name, view) { reconciler, _ in
                    reconciler.end(.copies(name))
                }
            }
        }
    }

    // MARK: Choosing

    /// Seals all surviving copies of these vBuckets and chooses the next active one among them.
    ///
    /// If a node that must not be chosen is reachable, it is stopped first. Then it acknowledges no
    /// change that would be lost, the other copies receive its last changes, and it reports its
    /// last seqno.
    ///
    /// - Parameters:
    ///   - questions: The vBuckets, sorted by number.
    ///   - bucket: The current record.
    ///   - absent: Nodes whose copies are not considered.
    ///   - givenUp: Of those, nodes that an operator gave up for good.
    ///   - view: The leader's knowledge.
    ///   - then: Receives the choice for each vBucket.
    mutating func sealAndChoose(
        _ questions: [Promotion.Question],
        of bucket: BucketRecord,
        without absent: [NodeNumber],
        givenUp: [NodeNumber] = [],
        _ view: LeaderView,
        then: @escaping RoundContinuation
    ) {
        let ending = nodesToStop(absent, asking: questions, view)
        let stopTimeout = CopyQuestion.stopTimeoutNanoseconds
        ask(.seal(ending), of: bucket, timeoutNanoseconds: stopTimeout, view) {
            reconciler,
            stopped,
            view in
            var asked: [NodeNumber: [FencedVBucket]] = [:]
            for question in questions {
                for node in question.asked where !absent.contains(node) {
                    let copy = FencedVBucket(question.vBucket, fence: question.fence)
                    asked[node, default: []].append(copy)
                }
            }
            reconciler.ask(.seal(asked), of: bucket, view) { [asked] reconciler, sealed, view in
                var round = PromotionRound(
                    bucket: bucket.settings.name,
                    activeCounts: view.activeCounts(without: absent),
                    served: view.served(by: absent, ofBucket: bucket.settings.uuid),
                    givenUp: givenUp + view.leavingForGood
                )
                for question in questions {
                    let active = question.active.flatMap { stopped[$0]?[question.vBucket] }
                    round.decide(
                        question,
                        sealed: sealed.compactMapValues { $0[question.vBucket] },
                        stoppedAt: active?.fence == question.fence ? active?.high ?? .zero : .zero
                    )
                }
                let result = Round(
                    bucket: bucket,
                    decided: round,
                    silent: asked.keys.filter { sealed[$0] == nil }.sorted(),
                    stopped: Set(ending.values.joined().map(\.vBucket))
                )
                then(&reconciler, result, view)
            }
        }
    }

    /// The reachable ones of `nodes`, and the vBuckets that each must stop serving.
    private func nodesToStop(
        _ nodes: [NodeNumber],
        asking questions: [Promotion.Question],
        _ view: LeaderView
    ) -> [NodeNumber: [FencedVBucket]] {
        var found: [NodeNumber: [FencedVBucket]] = [:]
        for node in nodes where !view.beats.table.isSuspect(node, now: view.now) {
            let own = questions.filter { $0.active == node }
            guard !own.isEmpty else { continue }
            found[node] = own.map { FencedVBucket($0.vBucket, fence: $0.fence) }
        }
        return found
    }

    /// Promotes copies of these vBuckets as far as no committed write can be lost.
    ///
    /// If the answer of a node that may hold a committed write is missing, the vBucket waits: a node that is not
    /// suspected may be too busy to answer in time. Each vBucket is chosen for separately, so that one that must
    /// wait delays no other.
    mutating func promoteSafely(
        _ vBuckets: [VBucketID],
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard !vBuckets.isEmpty, let bucket = view.state.bucket(named: name) else {
            return then(&self, view)
        }
        let unusable = unusableNodes(view)
        findSafeQuestions(vBuckets, of: bucket, without: unusable, view) { reconciler, due, view in
            guard !due.isEmpty, let bucket = view.state.bucket(named: name) else {
                return then(&reconciler, view)
            }
            reconciler.sealAndChoose(due, of: bucket, without: unusable, view) {
                reconciler,
                round,
                view in
                var round = round
                round.decided.keepSafe()
                let deposed = deposed(by: round.decided.promotions, in: bucket).sorted()
                reconciler.promote(round, deposing: deposed, view) { then(&$0, $2) }
            }
        }
    }

    /// Continues with the questions whose answer could be a safe choice, by reports of copies that are not
    /// sealed.
    ///
    /// So no copy is stopped, and no earlier choice made invalid, for vBuckets that must wait
    /// anyway. Reachable failed-over nodes are asked too: if such a node has nothing, it is not
    /// waited for.
    private mutating func findSafeQuestions(
        _ vBuckets: [VBucketID],
        of bucket: BucketRecord,
        without absent: [NodeNumber],
        _ view: LeaderView,
        then: @escaping @Sendable (inout Reconciler, [Promotion.Question], LeaderView) -> Void
    ) {
        let questions = view.questions(vBuckets, of: bucket)
        let nodes = Set(questions.flatMap { $0.asked + $0.basis }).subtracting(absent).sorted()
        askReports(of: bucket, from: nodes, view) { reconciler, reports, view in
            let givenUp = view.leavingForGood
            let safe = questions.compactMap { question in
                var question = question
                let answers = reports.mapValues { $0[question.vBucket] ?? .missing(question) }
                question.noteEmptied(
                    reports,
                    isInMemory: bucket.settings.type == .ephemeral,
                    isBeingEmptied: bucket.isBeingEmptied(question.vBucket)
                )
                let choice = Promotion.choose(question, sealed: answers, givenUp: givenUp)
                let isAnswered = question.asked.allSatisfy { answers[$0] != nil }
                reconciler.waits.abandonments.record(
                    question,
                    ofBucket: bucket.settings.name,
                    hasChoice: choice != nil,
                    isAnswered: isAnswered,
                    view.state
                )
                return choice?.safety == .safe ? question : nil
            }
            then(&reconciler, safe, view)
        }
    }

    /// Proposes the choices; the chosen copies serve once they are confirmed.
    ///
    /// Continues with whether the promotion is known to be agreed on.
    mutating func promote(
        _ round: Round,
        deposing nodes: [NodeNumber],
        _ view: LeaderView,
        then: @escaping BoolContinuation
    ) {
        let name = round.decided.bucket
        // A failover may have begun since the copies were asked.
        let choices = round.decided.promotions.filter { !failover.nodes.contains($0.node) }
        let steps = choices.map { choice in
            VBucketSteps.Step(
                vBucket: choice.vBucket,
                fence: choice.fence,
                stage: choice.stage,
                row: NodeChain(choice.row) ?? NodeChain(),
                position: choice.expected
            )
        }
        guard !steps.isEmpty else { return then(&self, true, view) }
        let promotion = VBucketSteps(bucket: name, steps: steps, deposes: nodes)
        propose(.promote(promotion)) { reconciler, outcome, view in
            guard outcome != nil else { return then(&reconciler, false, view) }
            reconciler.finishPromotions(ofBucket: name, view) { then(&$0, true, $1) }
        }
    }

    /// Lets vBuckets that were sealed without a successor be served by their active copies again.
    ///
    /// Continues with whether it is known to be agreed on.
    mutating func resume(
        _ vBuckets: [VBucketID],
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping BoolContinuation
    ) {
        guard !vBuckets.isEmpty, let bucket = view.state.bucket(named: name) else {
            return then(&self, true, view)
        }
        let steps = vBuckets.map { VBucketSteps.Step($0, from: bucket[$0]) }
        propose(.resume(VBucketSteps(bucket: name, steps: steps))) { reconciler, outcome, view in
            then(&reconciler, outcome != nil, view)
        }
    }

    // MARK: Confirming

    /// Asks chosen copies whether they are ready: confirms the ready ones, and chooses again for
    /// the remaining vBuckets.
    mutating func finishPromotions(
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard let bucket = view.state.bucket(named: name) else { return then(&self, view) }
        let leaving = view.failedOver.union(failover.nodes)
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
        guard !asked.isEmpty || !refused.isEmpty else { return then(&self, view) }
        activate(asked, of: bucket, view) { [asked, refused] reconciler, ready, view in
            let all = asked.flatMap { node, subjects in subjects.map { (node, $0.vBucket) } }
            let isReady = { (one: (NodeNumber, VBucketID)) in ready[one.0]?.contains(one.1) == true
            }
            let confirmed = all.filter(isReady).map(\.1).sorted()
            let late = refused + all.filter { !isReady($0) }.map(\.1)
            guard !confirmed.isEmpty else {
                return reconciler.chooseAnew(late, ofBucket: name, view, then: then)
            }
            let steps = confirmed.map { VBucketSteps.Step($0, from: bucket[$0]) }
            reconciler.propose(.confirm(VBucketSteps(bucket: name, steps: steps))) {
                reconciler,
                _,
                view in
                reconciler.chooseAnew(late, ofBucket: name, view, then: then)
            }
        }
    }

    /// Asks the previous chains again for refused vBuckets that are due: the chosen node is gone, or the copy has
    /// not become ready for a while.
    private mutating func chooseAnew(
        _ refused: [VBucketID],
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard let bucket = view.state.bucket(named: name) else { return then(&self, view) }
        let due = takeDue(refused, of: bucket, view)
        promoteSafely(due, ofBucket: name, view, then: then)
    }

    /// The refused vBuckets for which to choose again now.
    ///
    /// A copy that is read from disk only needs time, and every choice is an entry in the log.
    private mutating func takeDue(
        _ refused: [VBucketID],
        of bucket: BucketRecord,
        _ view: LeaderView
    ) -> [VBucketID] {
        let (now, name) = (view.now, bucket.settings.name)
        let gone = view.failedOver.union(unusableNodes(view))
        let isTooEarly = now < (waits.choseAnewAt[name] ?? 0) + Self.askingPauseNanoseconds
        var since: [VBucketID: UInt64] = [:]
        var due: [VBucketID] = []
        for vBucket in refused.sorted() {
            let first = waits.refusedSince[name]?[vBucket] ?? now
            let isGone =
                bucket[vBucket].isRestored
                || bucket[vBucket].chain.first.map { gone.contains($0) } ?? true
            if !isTooEarly, isGone || now - first >= Self.readyTimeoutNanoseconds {
                due.append(vBucket)
            } else {
                since[vBucket] = first
            }
        }
        waits.refusedSince[name] = since.isEmpty ? nil : since
        if !due.isEmpty { waits.choseAnewAt[name] = now }
        return due
    }

    /// Nodes whose copies are not chosen: dead nodes, and nodes of which a failover is in progress.
    ///
    /// A failover stops the copies of a reachable node. If such a copy were chosen because no other
    /// one answers yet, the other one would leave the chain, and the failover would remove the only
    /// copy that is left.
    func unusableNodes(_ view: LeaderView) -> [NodeNumber] {
        Set(view.deadNodes + failover.nodes).sorted()
    }
}

/// Nodes that must stop serving once these choices are applied.
func deposed(by choices: [Promotion], in bucket: BucketRecord) -> Set<NodeNumber> {
    Set(
        choices.flatMap { choice in
            bucket[choice.vBucket].mayServe.filter { $0 != choice.node }
        }
    )
}

extension LeaderView {
    func questions(_ vBuckets: [VBucketID], of bucket: BucketRecord) -> [Promotion.Question] {
        let failedOver = failedOver
        return vBuckets.compactMap { vBucket in
            state.assignment(ofBucket: bucket.settings.name, vBucket).map { assignment in
                Promotion.Question(
                    vBucket: vBucket,
                    basis: bucket[vBucket].confirmedChain.nodes,
                    of: assignment,
                    lost: failedOver
                )
            }
        }
    }

    fileprivate func activeCounts(without absent: [NodeNumber]) -> [NodeNumber: Int] {
        var counts: [NodeNumber: Int] = [:]
        for bucket in state.buckets {
            for placement in bucket.placements {
                guard let node = placement.chain.first, !absent.contains(node) else { continue }
                counts[node, default: 0] += 1
            }
        }
        return counts
    }

    /// By node: the last received seqnos of what it serves of a bucket; nodes without any are missing.
    fileprivate func served(
        by nodes: [NodeNumber],
        ofBucket uuid: String
    ) -> [NodeNumber: ActiveSeqnoDigest] {
        nodes.reduce(into: [:]) { $0[$1] = beats.served[$1]?[uuid] }
    }
}

extension CopyReport {
    /// The report for a copy that an answering node does not have.
    fileprivate static func missing(_ question: Promotion.Question) -> CopyReport {
        CopyReport(
            vBucket: question.vBucket,
            state: .dead,
            fence: question.fence,
            position: CopyPosition(branchFence: 0, covered: .zero),
            high: .zero,
            persisted: .zero,
            isIntact: false,
            wasCleanStop: false,
            boot: 0
        )
    }
}
