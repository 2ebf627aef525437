/// One version of what the cluster agreed on about the vBucket.
struct AgreedMap {
    enum Cause {
        case start
        case promote
        case resume
        case takeOver
        /// A replica left the chain for good, and the others prove anew that they are intact.
        case giveUp
    }

    /// Changes with the node that may write.
    var fence: Int32 = 1
    var cause = Cause.start
    /// What was learned from copies, or proposed on that, holds for one stage.
    ///
    /// It changes with the fence, and also when the same fence gets another basis: by a
    /// confirmation or the end of a move.
    var stage: Int32 = 1
    var active = 0
    /// The chain that counts, the active included.
    var row = Members()
    /// The last confirmed chain: its copies are queried before one is promoted.
    var basis = Members()
    var isUnconfirmed = false
    /// Where the one who was named must be at least, or exactly in a takeover.
    var expected = Position.void
    /// A move's goal; empty without a move.
    var target = Members()
    var targetActive = 0
    var isJoint = false
    /// Former actives whose copy is kept.
    var former = Members()
}

/// A rule that is left out, to see that the walks notice.
enum Mistake: CaseIterable {
    case none
    case noSeal
    case volatileSeal
    case promotionByHigh
    case acknowledgementInsideSnapshot
    case anySurvivorSuffices
    case intactForgotten
    case noFenceCompare
    case unsealWithoutNewFence
    case noTwoChains
    case inheritedAborted
    case readsOverInherited
    case noLease
    case expectedPositionUnchecked
    case newChainConsulted
    case servingBeforeConfirmation
    case wholeLogAdopted
    case branchAtHigh
    case outstandingPreparesUnlisted
    case takeOverWithoutIntact
    case stageNotCompared
    case intactOverPromotion
    case intactOverGivingUp
    case formerDropped
    case formerUnasked
}

enum Violation: Equatable {
    /// A committed write is neither the value nor an ancestor of it.
    case lost
    /// A reader was shown what was replaced before it asked.
    case staleRead
    /// Acknowledged under a fence after one was under a newer fence.
    case twoWriters
    /// A copy that says it has everything differs from its active.
    case diverged
}
