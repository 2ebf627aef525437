internal import Orchestration
internal import Seams
internal import Vocabulary

/// The kinds of entries that change many vBuckets at once.
enum BulkEntryKind: Int, CaseIterable {
    case joint
    case final
    case takeOver
    case resume
    case release

    func command(_ steps: VBucketSteps) -> ClusterCommand {
        switch self {
        case .joint: .joint(steps)
        case .final: .final(steps)
        case .takeOver: .takeOver(steps)
        case .resume: .resume(steps)
        case .release: .release(steps)
        }
    }

    /// Whether the entry may wait for others, because no client waits for it.
    ///
    /// Each entry occupies every node's disk and control lane, ahead of entries that clients wait
    /// for.
    var isPatient: Bool {
        switch self {
        case .joint, .final, .release: true
        case .takeOver, .resume: false
        }
    }
}

extension MoveAction.Proposal {
    var kind: BulkEntryKind {
        switch self {
        case .joint: .joint
        case .final: .final
        case .takeOver: .takeOver
        case .resume: .resume
        case .forgetFormer: .release
        }
    }
}

/// The runner's proposals: steps of one kind for many vBuckets in one entry.
extension VBucketMoveRunner {
    private static let retryPauseNanoseconds: UInt64 = 200_000_000

    func setTargets(_ bucket: BucketRecord, _ orchestrator: isolated Orchestrator) {
        targetsAreDue = false
        let kept = orchestrator.state.rebalance?.kept ?? []
        let copies = bucket.settings.replicas + 1
        let rows = bucket.numberedPlacements.map { vBucket, placement in
            let move = moves[vBucket]?.move
            let row = move.flatMap { NodeChain($0.target) } ?? placement.chain
            return NodeChain(row.filter { kept.contains($0) }.prefix(copies)) ?? NodeChain()
        }
        let targets = BucketTargets(copies: UInt8(copies), rows: rows)
        let change = TargetChange(bucket: self.bucket, targets: targets)
        spawn(orchestrator) { runner, orchestrator in
            let outcome = await orchestrator.propose(.setTargets(change))
            if case .applied = outcome { return }
            runner.targetsAreDue = true
            await orchestrator.executor.sleep(nanoseconds: Self.retryPauseNanoseconds)
        }
    }

    /// Carries out the moves' actions, gathered by kind.
    func act(_ orchestrator: isolated Orchestrator) {
        guard !actions.isEmpty, let record = orchestrator.state.bucket(named: bucket)
        else { return }
        let due = actions
        actions = []
        let now = orchestrator.now
        var steps: [BulkEntryKind: [VBucketSteps.Step]] = [:]
        var asked: [NodeNumber: [FencedVBucket]] = [:]
        var created: [VBucketSteps.Step] = []
        for (vBucket, action) in due {
            switch action {
            case .build(let nodes) where moves[vBucket] == nil:
                let row = NodeChain(nodes) ?? NodeChain()
                created.append(.init(vBucket, from: record[vBucket], row: row))
            // The targets in the map have copies built; copies that no chain names are dropped.
            case .build, .dropCopies, .end: break
            case .propose(let proposal):
                let kind = proposal.kind
                guard !kind.isPatient || now >= nextPatientEntry else {
                    actions.append((vBucket, action))
                    continue
                }
                let step = step(proposal, vBucket, record[vBucket])
                let isNeeded = kind != .release || record[vBucket].former != nil
                if isNeeded { steps[kind, default: []].append(step) }
            case .askHandOver(let node, let fence, _):
                asked[node, default: []].append(FencedVBucket(vBucket, fence: fence))
            }
        }
        if !created.isEmpty { create(created, orchestrator) }
        for kind in BulkEntryKind.allCases {
            guard let steps = steps[kind] else { continue }
            if kind.isPatient { nextPatientEntry = now + 3 * Self.gatherPauseNanoseconds }
            propose(kind, steps.sorted { $0.vBucket < $1.vBucket }, orchestrator)
        }
        for (node, fenced) in asked.sorted(by: { $0.key < $1.key }) {
            handOver(fenced, of: node, orchestrator)
        }
    }

    private func step(
        _ proposal: MoveAction.Proposal,
        _ vBucket: VBucketID,
        _ placement: VBucketPlacement
    ) -> VBucketSteps.Step {
        var step = VBucketSteps.Step(vBucket, from: placement)
        switch proposal {
        case .joint(let fence):
            step.fence = fence
            step.row = NodeChain(moves[vBucket]?.move.target ?? []) ?? NodeChain()
        case .takeOver(let fence, let final):
            step.fence = fence
            step.position = final
        case .final(let fence), .resume(let fence), .forgetFormer(let fence):
            step.fence = fence
        }
        return step
    }

    private func create(_ steps: [VBucketSteps.Step], _ orchestrator: isolated Orchestrator) {
        let record = orchestrator.state.bucket(named: bucket)
        // Regardless of their membership: these nodes may serve until they learn of the change.
        let before = steps.flatMap { step in
            record?[step.vBucket].rowBefore.filter { $0 != step.row.first } ?? []
        }
        let all = VBucketSteps(
            bucket: bucket,
            steps: steps.sorted { $0.vBucket < $1.vBucket },
            deposes: Set(before).sorted()
        )
        spawn(orchestrator) { _, orchestrator in
            await orchestrator.propose(.recreate(all))
            orchestrator.showProgress { progress in
                for step in steps { progress?.finished(step.vBucket) }
            }
        }
    }

    // MARK: Proposing

    /// Runs `body` concurrently; the next round starts when it ends.
    private func spawn(
        _ orchestrator: isolated Orchestrator,
        _ body: @escaping @Sendable (VBucketMoveRunner, isolated Orchestrator) async -> Void
    ) {
        openProposals += 1
        orchestrator.executor.spawn {
            await self.orchestrator.isolated { orchestrator in
                await body(self, orchestrator)
                self.openProposals -= 1
                self.expectChange()
                self.alarm.ring()
            }
        }
    }

    private func propose(
        _ kind: BulkEntryKind,
        _ steps: [VBucketSteps.Step],
        _ orchestrator: isolated Orchestrator
    ) {
        let command = kind.command(VBucketSteps(bucket: bucket, steps: steps))
        spawn(orchestrator) { runner, orchestrator in
            var outcome = await orchestrator.propose(command)
            // The outcome is unknown. Proposing again is harmless and makes it known.
            while outcome == nil, orchestrator.isLeading {
                await orchestrator.executor.sleep(nanoseconds: Self.retryPauseNanoseconds)
                outcome = await orchestrator.propose(command)
            }
            guard let outcome, let record = orchestrator.state.bucket(named: runner.bucket)
            else { return }
            runner.handleOutcome(outcome, of: kind, steps, record, at: orchestrator.state.index)
            if kind == .takeOver { orchestrator.rebalancing.handedOverAt = orchestrator.now }
            if kind == .takeOver { await runner.activateNewOwners(steps, orchestrator) }
        }
    }

    private func handleOutcome(
        _ outcome: ClusterOutcome,
        of kind: BulkEntryKind,
        _ steps: [VBucketSteps.Step],
        _ record: BucketRecord,
        at index: UInt64
    ) {
        var leftOut: Set<VBucketID> = []
        for case .leftOut(_, let vBuckets) in outcome.effects { leftOut.formUnion(vBuckets) }
        var isApplied = true
        if case .refused = outcome { isApplied = false }
        for step in steps {
            let placement = record[step.vBucket]
            let isDone =
                isApplied && !leftOut.contains(step.vBucket)
                || wasDoneBefore(kind, step, placement)
            events.append((step.vBucket, isDone ? .applied(fence: placement.fence) : .refused))
            if kind == .joint, isDone { jointSince[step.vBucket] = index }
        }
    }

    /// Whether the step was applied by an entry whose outcome was lost.
    private func wasDoneBefore(
        _ kind: BulkEntryKind,
        _ step: VBucketSteps.Step,
        _ placement: VBucketPlacement
    ) -> Bool {
        guard let target = moves[step.vBucket]?.move.target else { return false }
        switch kind {
        case .joint: return placement.fence == step.fence && placement.next.nodes == target
        case .final:
            return placement.fence == step.fence && !placement.isJoint
                && placement.chain.nodes == target
        case .takeOver:
            return placement.cause == .takenOver && placement.chain.nodes == target
                && placement.fence > step.fence
        case .resume:
            return placement.cause == .resumed && !placement.isJoint
                && placement.fence > step.fence
        case .release: return true
        }
    }
}
