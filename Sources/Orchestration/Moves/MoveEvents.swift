package import Vocabulary

/// The durability that a bucket's clients use, beyond the memory of a majority.
package enum PersistDemand: Hashable, Sendable {
    /// An ephemeral bucket: no disk is involved.
    case ephemeral
    /// Clients used no persist level.
    case memory
    /// Clients used a level that persists on the active copy.
    case active
    /// Clients used a level that persists on a majority.
    case majority
}

/// The state of a move.
package enum MoveStep: String, Hashable, Sendable {
    /// Copies are being built; they are in no chain yet. Can become: joining, ended.
    case building
    /// The joint phase is proposed. Can become: covering, ended.
    case joining
    /// Both chains count. Can become: finishing, waiting, reverting.
    case covering
    /// All copies of the target chain are complete; waits for the scheduler to allow the takeover.
    /// Can become: handingOver, reverting.
    case waiting
    /// The active copy stays; the target chain alone is proposed. Can become: cleaning.
    case finishing
    /// The active copy was asked to stop. Can become: takingOver, waiting, reverting.
    case handingOver
    /// The new active node is proposed. Can become: cleaning.
    case takingOver
    /// The new active copy persists every change of the former one. Can become: ended.
    case cleaning
    /// The old chain alone is proposed. Can become: paused, ended.
    case reverting
    /// The move was reverted and is retried later. Can become: building, ended.
    case paused
    case ended
}

/// How a move ended.
package enum MoveOutcome: Hashable, Sendable {
    case done
    /// The old chain stays; copies that were being built are kept until the given time.
    case stopped(keepBuildsUntilNanoseconds: UInt64)
    /// The old chain stays and the target is no longer possible: a new plan is needed.
    case needsPlan
    /// Another command changed the vBucket: a new plan from its present chain is needed.
    case superseded
    /// The new active copy cannot serve: a promotion is needed.
    case needsPromotion
    case failed(MoveObstacle)
}

/// Why a move makes no progress.
package struct MoveObstacle: Hashable, Sendable {
    /// The condition that the move waits for.
    package enum Cause: Hashable, Sendable {
        case nodeAbsent
        case notIntact
        case behind(items: UInt64)
        case notOnDisk(items: UInt64)
        case notReady
        case hasNotAnswered
        /// The node has not persisted this many entries of the cluster's log, so it does not answer
        /// yet, or no further entry is committed.
        case notInLog(entries: UInt64)
        /// The next step is not committed yet.
        case notAgreed
        /// Durable writes did not complete during this many hand-overs.
        case prepares(tries: Int)
        /// The scheduler has not allowed the takeover yet.
        case noTurn
        /// The hand-over was reverted and is retried later.
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

    /// A sentence for the console.
    package func sentence(bucket: String, naming name: (NodeNumber) -> String) -> String {
        let place = "vBucket \(vBucket.number) of the bucket “\(bucket)” does not move on:"
        let node = name(node)
        switch cause {
        case .nodeAbsent: return "\(place) \(node) cannot be reached."
        case .notIntact: return "\(place) \(node) is still copying the existing data."
        case .behind(let items):
            return "\(place) \(node) is \(Words.count(Int(items), "change")) behind."
        case .notOnDisk(let items):
            return "\(place) \(node) has yet to write \(Words.count(Int(items), "change")) to disk."
        case .notReady: return "\(place) \(node) is not ready to serve it yet."
        case .hasNotAnswered: return "\(place) \(node) has not answered yet."
        case .notInLog(let entries):
            let steps = Words.count(Int(entries), "step")
            return "\(place) \(node) has yet to write \(steps) of the cluster's log to disk."
        case .notAgreed: return "\(place) the next step for \(node) is not agreed on yet."
        case .prepares(let tries):
            return "\(place) \(node) has durable writes that do not complete"
                + " (tried \(Words.count(tries, "time")))."
        case .noTurn: return "\(place) \(node) is busy with other takeovers."
        case .gaveUp: return "\(place) \(node) did not hand it over; the move will be retried."
        }
    }
}

/// An input of a move.
package enum MoveEvent: Hashable, Sendable {
    /// A copy's newest report. `jointHigh`: the active copy's high seqno when it learned of the
    /// target chain; since then its commits need both chains. `isReady`: the node has completed
    /// everything else that it needs before it serves, such as an index.
    case report(NodeNumber, CopyReport, jointHigh: Seqno?, isReady: Bool)
    /// The proposal was applied; `fence` is the present fence.
    case applied(fence: UInt64)
    /// The proposal was left out: fence or stage had changed.
    case refused
    /// The scheduler allows the takeover.
    case turn
    /// The active copy stopped at this position, which all copies of the target chain have.
    case drained(CopyPosition, fence: UInt64)
    /// The active copy serves again, because prepares did not complete in time.
    case servesAgain(fence: UInt64)
    /// The new active copy does not have the expected position.
    case cannotServe(fence: UInt64)
    /// The rebalance is stopped.
    case stop
    /// The node cannot be reached.
    case lost(NodeNumber)
    /// The node can be reached again.
    case returned(NodeNumber)
    /// The node was failed over.
    case failedOver(NodeNumber)
    /// The bucket shall have fewer copies than the move builds.
    case planChanged
    /// `MoveProcedure.nextTime` is reached.
    case time
}

/// An output of a move, to be carried out by the caller.
package enum MoveAction: Hashable, Sendable {
    /// A command about the vBucket.
    package enum Proposal: Hashable, Sendable {
        /// Begin the joint phase. The fence is compared when the entry is applied, here and below.
        case joint(fence: UInt64)
        /// Make the target the chain, with the same active node.
        case final(fence: UInt64)
        /// Make the target the chain, with a new active node.
        case takeOver(fence: UInt64, final: CopyPosition)
        /// Keep the old chain alone, under a new fence.
        case resume(fence: UInt64)
        /// Release the former active copy.
        case forgetFormer(fence: UInt64)
    }

    /// Assign these nodes as builders.
    case build([NodeNumber])
    case propose(Proposal)
    /// Ask the active copy to stop. `endsPrepares`: it no longer waits for its prepares.
    case askHandOver(of: NodeNumber, fence: UInt64, endsPrepares: Bool)
    /// Drop these nodes' copies: the new chain does not need them.
    case dropCopies([NodeNumber])
    case end(MoveOutcome)
}
