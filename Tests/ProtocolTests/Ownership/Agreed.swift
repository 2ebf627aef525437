/// One version of what the cluster agreed on about the vBucket.
struct AgreedMap {
    enum Cause {
        case start
        case promote
        case resume
        case takeOver
        /// A replica was removed from the chain, and the remaining replicas are not intact until
        /// they have received all changes.
        case giveUp
    }

    /// Changes with the node that may write.
    var fence: Int32 = 1
    var cause = Cause.start
    /// Reports of copies, and proposals made from them, are valid for one stage.
    ///
    /// The stage changes with the fence, and also if the basis changes under the same fence: by a
    /// confirmation or the end of a move.
    var stage: Int32 = 1
    var active = 0
    /// The current chain, including the active copy.
    var row = Members()
    /// The last confirmed chain: its copies are queried before one is promoted.
    var basis = Members()
    var isUnconfirmed = false
    /// The position that the new active copy must have: at least, or exactly after a takeover.
    var expected = Position.void
    /// A move's goal; empty without a move.
    var target = Members()
    var targetActive = 0
    var isJoint = false
    /// Former actives whose copy is kept.
    var former = Members()
}

/// A rule that a walk leaves out, to show that the checkers detect its absence.
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
    /// A committed write was neither the present value nor replaced by later writes.
    case lost
    /// A reader received a value that was replaced before the read began.
    case staleRead
    /// A write was acknowledged under a fence after another was acknowledged under a newer fence.
    case twoWriters
    /// A copy differs from its active copy at the end of a snapshot.
    case diverged
}
