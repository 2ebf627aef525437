internal import Vocabulary

/// The entries of moves: steps of one kind for many vBuckets in one entry, and their outcomes.
extension BucketMoves {
    /// Turns the moves' actions into effects, gathered by kind.
    mutating func gather(
        _ record: BucketRecord,
        _ view: LeaderView,
        into effects: inout [Effect]
    ) {
        guard !actions.isEmpty else { return }
        let due = actions
        actions = []
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
                guard !kind.isPatient || view.now >= dues.nextPatientEntry else {
                    actions.append((vBucket, action))
                    continue
                }
                let isNeeded = kind != .release || record[vBucket].former != nil
                guard isNeeded else { continue }
                steps[kind, default: []].append(step(proposal, of: vBucket, record[vBucket]))
            case .askHandOver(let node, let fence, _):
                asked[node, default: []].append(FencedVBucket(vBucket, fence: fence))
            }
        }
        if !created.isEmpty {
            openProposals += 1
            effects.append(.recreate(created.sorted { $0.vBucket < $1.vBucket }))
        }
        for kind in BulkEntryKind.allCases {
            guard let steps = steps[kind] else { continue }
            if kind.isPatient {
                dues.nextPatientEntry = view.now + 3 * Self.gatherPauseNanoseconds
            }
            openProposals += 1
            effects.append(.propose(kind, steps.sorted { $0.vBucket < $1.vBucket }))
        }
        for (node, fenced) in asked.sorted(by: { $0.key < $1.key }) {
            effects += handOverGroups(fenced).map { .handOver(node, $0) }
        }
    }

    private func step(
        _ proposal: MoveAction.Proposal,
        of vBucket: VBucketID,
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

    /// A proposal ended, with what follows its outcome.
    mutating func endProposal() {
        openProposals -= 1
        expectChange()
    }

    /// Handles the outcome of a proposal, as of the applied log index.
    mutating func handleOutcome(
        _ outcome: ClusterOutcome,
        of kind: BulkEntryKind,
        steps: [VBucketSteps.Step],
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
                || wasDoneBefore(step, of: kind, placement)
            events.append((step.vBucket, isDone ? .applied(fence: placement.fence) : .refused))
            if kind == .joint, isDone { jointSince[step.vBucket] = index }
        }
    }

    /// Whether the step was applied by an entry whose outcome was lost.
    private func wasDoneBefore(
        _ step: VBucketSteps.Step,
        of kind: BulkEntryKind,
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
