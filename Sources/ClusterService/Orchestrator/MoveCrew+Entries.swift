internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// What one entry does to many vBuckets.
enum EntryKind: Int, CaseIterable {
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

    /// No client waits for it, so it may wait for others: every node's disk and control lane are
    /// busy with each entry, and what clients do wait for comes behind it.
    var isPatient: Bool {
        switch self {
        case .joint, .final, .release: true
        case .takeOver, .resume: false
        }
    }
}

extension MoveAction.Proposal {
    var kind: EntryKind {
        switch self {
        case .joint: .joint
        case .final: .final
        case .takeOver: .takeOver
        case .resume: .resume
        case .forgetFormer: .release
        }
    }
}

/// What the crew proposes: steps of one kind of many vBuckets in one entry.
extension MoveCrew {
    private static let retryPause: UInt64 = 200_000_000

    func setTargets(_ bucket: BucketRecord, _ orchestrator: isolated Orchestrator) {
        targetsAreDue = false
        let kept = orchestrator.state.rebalance?.kept ?? []
        let copies = bucket.settings.replicas + 1
        let rows = bucket.placements.enumerated().map { number, placement in
            let move = moves[VBucketID(UInt16(number))]?.move
            let row = move.flatMap { NodeChain($0.target) } ?? placement.chain
            return NodeChain(row.filter { kept.contains($0) }.prefix(copies)) ?? NodeChain()
        }
        let targets = BucketTargets(copies: UInt8(copies), rows: rows)
        let change = TargetChange(bucket: self.bucket, targets: targets)
        spawn(orchestrator) { crew, orchestrator in
            let outcome = await orchestrator.propose(.setTargets(change))
            if case .applied = outcome { return }
            crew.targetsAreDue = true
            await orchestrator.executor.sleep(nanoseconds: Self.retryPause)
        }
    }

    /// What the moves want, of one kind together.
    func act(_ orchestrator: isolated Orchestrator) {
        guard !actions.isEmpty, let record = orchestrator.state.bucket(named: bucket)
        else { return }
        let due = actions
        actions = []
        let now = orchestrator.now
        var steps: [EntryKind: [VBucketSteps.Step]] = [:]
        var asked: [NodeNumber: [FencedVBucket]] = [:]
        var created: [VBucketSteps.Step] = []
        for (vBucket, action) in due {
            switch action {
            case .build(let nodes) where moves[vBucket] == nil:
                let row = NodeChain(nodes) ?? NodeChain()
                created.append(.init(vBucket, from: record[vBucket], row: row))
            // The targets in the map have them built, and what no row names is dropped.
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
        for kind in EntryKind.allCases {
            guard let steps = steps[kind] else { continue }
            if kind.isPatient { nextPatientEntry = now + 3 * Self.gatherPause }
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
        // Whatever they are to the cluster by now: they may serve and not have heard that they do not.
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

    /// Beside everything else; the crew looks again when it is over.
    private func spawn(
        _ orchestrator: isolated Orchestrator,
        _ body: @escaping @Sendable (MoveCrew, isolated Orchestrator) async -> Void
    ) {
        openProposals += 1
        orchestrator.executor.spawn {
            await self.orchestrator.isolated { orchestrator in
                await body(self, orchestrator)
                self.openProposals -= 1
                self.soon()
                self.alarm.ring()
            }
        }
    }

    private func propose(
        _ kind: EntryKind,
        _ steps: [VBucketSteps.Step],
        _ orchestrator: isolated Orchestrator
    ) {
        let command = kind.command(VBucketSteps(bucket: bucket, steps: steps))
        spawn(orchestrator) { crew, orchestrator in
            var outcome = await orchestrator.propose(command)
            // Nobody knows what became of it: said again it does no harm, and then it is known.
            while outcome == nil, orchestrator.isLeading {
                await orchestrator.executor.sleep(nanoseconds: Self.retryPause)
                outcome = await orchestrator.propose(command)
            }
            guard let outcome, let record = orchestrator.state.bucket(named: crew.bucket)
            else { return }
            crew.take(outcome, of: kind, steps, record, at: orchestrator.state.index)
            if kind == .takeOver { orchestrator.rebalancing.handedOverAt = orchestrator.now }
            if kind == .takeOver { await crew.takeUp(steps, orchestrator) }
        }
    }

    private func take(
        _ outcome: ClusterOutcome,
        of kind: EntryKind,
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

    /// The step was taken by an entry whose answer was lost.
    private func wasDoneBefore(
        _ kind: EntryKind,
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
