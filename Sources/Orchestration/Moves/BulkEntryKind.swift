/// The kinds of entries that change many vBuckets of a rebalance at once.
enum BulkEntryKind: Int, CaseIterable, Sendable {
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
