internal import Orchestration
internal import Seams
internal import Vocabulary

/// The runner's calls to copies: reports, hand-overs, activations.
extension VBucketMoveRunner {
    /// Asks for reports of all moves that need them: one call per node, at most one under way.
    func ask(_ bucket: BucketRecord, _ orchestrator: isolated Orchestrator) {
        let now = orchestrator.now
        guard now >= nextQuestion else { return }
        var questions: [NodeNumber: [FencedVBucket]] = [:]
        for (vBucket, move) in moves where move.wantsReports {
            for node in move.move.nodes where !lost.contains(node) && !asked.contains(node) {
                questions[node, default: []].append(FencedVBucket(vBucket, fence: move.fence))
            }
        }
        guard !questions.isEmpty else { return }
        // The pause doubles until something happens.
        askedAt = now
        nextQuestion = now + questionPauseNanoseconds
        questionPauseNanoseconds = min(
            questionPauseNanoseconds * 2,
            Self.questionPauseNanosecondsMax
        )
        let calls = orchestrator.copies(of: bucket)
        for (node, vBuckets) in questions.sorted(by: { $0.key < $1.key }) {
            asked.insert(node)
            orchestrator.executor.spawn {
                let reports = await calls.reports([node: vBuckets])
                await self.orchestrator.isolated { orchestrator in
                    self.asked.remove(node)
                    if let reports = reports[node] {
                        self.silent.remove(node)
                        self.handleReports(reports, of: node, calls.index, orchestrator)
                    } else {
                        self.silent.insert(node)
                    }
                    self.alarm.ring()
                }
            }
        }
    }

    private func handleReports(
        _ reports: [VBucketID: CopyReport],
        of node: NodeNumber,
        _ index: UInt64,
        _ orchestrator: isolated Orchestrator
    ) {
        guard let bucket = orchestrator.state.bucket(named: bucket) else { return }
        for (vBucket, report) in reports.sorted(by: { $0.key < $1.key })
        where moves[vBucket] != nil {
            let placement = bucket[vBucket]
            // A node that answers has applied what was applied here when it was asked.
            let knowsJoint = placement.isJoint && jointSince[vBucket].map { $0 <= index } == true
            let isSource = node == placement.chain.first
            events.append(
                (
                    vBucket,
                    .report(
                        node,
                        report,
                        jointHigh: knowsJoint && isSource ? report.high : nil,
                        isReady: true
                    )
                )
            )
        }
        orchestrator.showProgress { progress in
            for (vBucket, report) in reports
            where moves[vBucket]?.move.builders.contains(node) == true {
                progress?.sent(report.high.value, of: vBucket)
            }
        }
    }

    // MARK: Handing over

    /// Requests hand-overs, concurrently with everything else: open durable writes can delay them
    /// for seconds.
    ///
    /// In small groups, because all writes of a group wait for its slowest vBucket. A vBucket that
    /// was too slow once is handed over alone.
    func handOver(
        _ fenced: [FencedVBucket],
        of node: NodeNumber,
        _ orchestrator: isolated Orchestrator
    ) {
        guard let bucket = orchestrator.state.bucket(named: bucket) else { return }
        var groups: [[FencedVBucket]] = []
        var group: [FencedVBucket] = []
        for one in fenced.sorted(by: { $0.vBucket < $1.vBucket }) {
            if moves[one.vBucket]?.wasPostponed == true {
                groups.append([one])
            } else {
                group.append(one)
                if group.count == Limits.takeOversPerCallMax {
                    groups.append(group)
                    group = []
                }
            }
        }
        if !group.isEmpty { groups.append(group) }
        let calls = orchestrator.copies(of: bucket)
        for group in groups {
            orchestrator.executor.spawn {
                let ended = await calls.handOver([node: group])
                await self.orchestrator.isolated { _ in self.handleHandOvers(ended, of: group) }
            }
        }
    }

    private func handleHandOvers(_ ended: [VBucketID: Seqno], of group: [FencedVBucket]) {
        for fenced in group {
            let event: MoveEvent =
                ended[fenced.vBucket].map {
                    .drained(
                        CopyPosition(branchFence: fenced.fence, covered: $0),
                        fence: fenced.fence
                    )
                } ?? .servesAgain(fence: fenced.fence)
            events.append((fenced.vBucket, event))
        }
        alarm.ring()
    }

    /// Asks the new active copies to serve; a copy that cannot reports it.
    func activateNewOwners(_ steps: [VBucketSteps.Step], _ orchestrator: isolated Orchestrator)
        async
    {
        guard let record = orchestrator.state.bucket(named: bucket) else { return }
        var asked: [NodeNumber: [ActivationSubject]] = [:]
        for step in steps {
            let placement = record[step.vBucket]
            guard placement.cause == .takenOver, let node = placement.chain.first else { continue }
            asked[node, default: []].append(
                ActivationSubject(vBucket: step.vBucket, fence: placement.fence)
            )
        }
        let ready = await orchestrator.copies(of: record).activate(asked)
        for (node, activations) in asked.sorted(by: { $0.key < $1.key }) {
            // If a node does not answer, `finishPromotions` asks it again.
            guard let ready = ready[node] else { continue }
            for one in activations where !ready.contains(one.vBucket) {
                events.append((one.vBucket, .cannotServe(fence: one.fence)))
            }
        }
    }
}
