package import Vocabulary

/// How far a write has to be for clients of a bucket, beyond the memory of a majority.
package enum PersistDemand: Hashable, Sendable {
    /// A bucket without disk.
    case ephemeral
    /// No persist level was used.
    case memory
    case active
    case majority
}

/// Where a move stands.
package enum MoveStep: String, Hashable, Sendable {
    /// Copies are being built, in no chain. Can become: joining, paused.
    case building
    /// Both chains are proposed. Can become: covering, building.
    case joining
    /// Both chains count. Can become: finishing, waiting, reverting.
    case covering
    /// All of the new chain have everything; another node's turn to be active. Can become:
    /// handing over.
    case waiting
    /// The active copy stays; the new chain alone is proposed. Can become: cleaning.
    case finishing
    /// The active copy was asked to stop. Can become: taking over, waiting, reverting.
    case handingOver
    /// The new active one is proposed. Can become: cleaning.
    case takingOver
    /// The new active one's disk catches up with what the former had. Can become: ended.
    case cleaning
    /// The old chain is to count alone again. Can become: building, paused, ended.
    case reverting
    /// Something stands in the way; tried again later. Can become: building.
    case paused
    case ended
}

/// How a move ended.
package enum MoveOutcome: Hashable, Sendable {
    case done
    /// The old row stands; the copies that were being built are kept for a while.
    case stopped(keepBuildsUntilNanoseconds: UInt64)
    /// The old row stands, a node it needs is gone for good: to be planned anew.
    case needsPlan
    /// Somebody else changed who may write: to be planned anew from the row as it is.
    case superseded
    /// The new active copy could not take up its role: copies are to be sealed, one promoted.
    case needsPromotion
    case failed(MoveObstacle)
}

/// Why a move does not go on.
package struct MoveObstacle: Hashable, Sendable {
    package enum Cause: Hashable, Sendable {
        case nodeAbsent
        case notIntact
        case behind(items: UInt64)
        case notOnDisk(items: UInt64)
        case notReady
        case hasNotAnswered
        /// What was decided is not on its disk, so it answers nothing, or nothing more is decided.
        case notInLog(entries: UInt64)
        /// The next step is proposed, or about to be.
        case notAgreed
        case prepares(tries: Int)
        case noTurn
        /// It was given up for now and is tried again.
        case gaveUp
    }

    package var vBucket: VBucketID
    package var step: MoveStep
    package var node: NodeNumber
    package var cause: Cause

    package init(vBucket: VBucketID, step: MoveStep, node: NodeNumber, cause: Cause) {
        self.vBucket = vBucket
        self.step = step
        self.node = node
        self.cause = cause
    }

    /// One sentence for the console.
    package func sentence(bucket: String, naming name: (NodeNumber) -> String) -> String {
        let place = "vBucket \(vBucket.number) of the bucket “\(bucket)” does not move on:"
        let who = name(node)
        switch cause {
        case .nodeAbsent: return "\(place) \(who) cannot be reached."
        case .notIntact: return "\(place) \(who) is still copying what there is."
        case .behind(let items):
            return "\(place) \(who) is \(Words.count(Int(items), "change")) behind."
        case .notOnDisk(let items):
            return "\(place) \(who) has yet to write \(Words.count(Int(items), "change")) to disk."
        case .notReady: return "\(place) \(who) is not ready to take it yet."
        case .hasNotAnswered: return "\(place) \(who) has not answered yet."
        case .notInLog(let entries):
            let steps = Words.count(Int(entries), "step")
            return "\(place) \(who) has yet to write \(steps) of the cluster's log to disk."
        case .notAgreed: return "\(place) \(who) has yet to have its next step agreed on."
        case .prepares(let tries):
            return "\(place) \(who) has durable writes that do not complete"
                + " (tried \(Words.count(tries, "time")))."
        case .noTurn: return "\(place) \(who) is busy with other takeovers."
        case .gaveUp: return "\(place) \(who) did not hand it over; it will be tried again."
        }
    }
}

/// What a move is told.
package enum MoveEvent: Hashable, Sendable {
    /// A copy's newest word. `jointHigh`: what the active copy's high seqno was when it learned of
    /// the second chain, from when on its commits need both; `isReady`: nothing else that the node
    /// wants done before it serves, like an index, is open.
    case report(NodeNumber, CopyReport, jointHigh: Seqno?, isReady: Bool)
    /// What was proposed is in the log, with the fence that holds from here on.
    case applied(fence: UInt64)
    /// What was proposed compared with a state that is no more.
    case refused
    /// The scheduler lets it take over.
    case turn
    /// The active copy stopped: its last word, which all of the new chain have.
    case drained(CopyPosition, fence: UInt64)
    /// The active copy serves again, because prepares did not complete in time.
    case servesAgain(fence: UInt64)
    /// The new active copy was not what it should have been.
    case cannotServe(fence: UInt64)
    case stop
    case lost(NodeNumber)
    case returned(NodeNumber)
    /// It is no member any more.
    case failedOver(NodeNumber)
    /// The bucket is to have fewer copies than the move would make.
    case planChanged
    case time
}

/// What a move wants done.
package enum MoveAction: Hashable, Sendable {
    package enum Proposal: Hashable, Sendable {
        /// Both chains count; compared with the fence.
        case joint(fence: UInt64)
        /// The target is the row.
        case final(fence: UInt64)
        case takeOver(fence: UInt64, final: CopyPosition)
        /// The old chain alone, under a new fence.
        case resume(fence: UInt64)
        /// The former active copy need not be kept.
        case forgetFormer(fence: UInt64)
    }

    /// Name these nodes as builders in the map.
    case build([NodeNumber])
    case propose(Proposal)
    /// Stop the active copy; after many tries its prepares are not waited for.
    case askHandOver(of: NodeNumber, fence: UInt64, endsPrepares: Bool)
    /// All is well with fewer copies: these are not needed any more.
    case dropCopies([NodeNumber])
    case end(MoveOutcome)
}
