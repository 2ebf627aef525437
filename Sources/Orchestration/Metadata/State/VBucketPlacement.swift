package import Vocabulary

/// How whoever may write a vBucket came to it: what a node that finds itself active has to check.
package enum OwnershipCause: UInt8, Sendable {
    /// The vBucket was empty: made, or made again after its last copy was gone.
    case created = 0
    /// Emptied: copies of older fences hold nothing any more.
    case flushed = 1
    /// Chosen among sealed copies: must be at `expected` at least. Or to be chosen yet (`isRestored`).
    case promoted = 2
    /// The former active one handed over: must be at `expected` exactly, and intact in this life.
    case takenOver = 3
    /// The same node as before, unless it was started anew meanwhile.
    case resumed = 4
}

/// Everything the cluster has agreed on about one vBucket.
///
/// - `origin` <= `branch` <= `fence` <= `stage`, and none of them ever falls.
/// - While unconfirmed there is a basis and no target chain that counts.
/// - `chain` is empty where the last copy is gone; then there is nothing else either, but `rowBefore`.
package struct VBucketPlacement: Hashable, Sendable {
    /// Index of the entry that last changed who may write.
    package var fence: UInt64
    /// Index of the entry that last changed fence, basis or confirmation.
    package var stage: UInt64
    /// Index of the entry that made the vBucket empty: copies of histories before it count for
    /// nothing.
    package var origin: UInt64
    /// Index of the entry since which copies prove anew that they are intact: `origin`, the last
    /// promotion, or the last time that a copy left a chain in which others stay.
    package var branch: UInt64
    package var cause = OwnershipCause.created
    /// Copies the chain should have: 1 + replicas, as of the vBucket's last move.
    package var copies: UInt8
    package var chain: NodeChain
    /// False between `promote` and `confirm`.
    package var isConfirmed = true
    /// The last confirmed chain while there is an unconfirmed one: whom to ask, and keep, until
    /// then.
    package var basis = NodeChain()
    /// The target chain while both count.
    package var next = NodeChain()
    /// Copies that `next` should have.
    package var nextCopies: UInt8 = 0
    /// Who handed over, and keeps its copy until it is released.
    package var former: NodeNumber?
    /// Where the first of `chain` must be, after a promotion or a takeover.
    package var expected: CopyPosition?
    /// The chain before nodes were failed over, whose old copies a recovery may use; where nobody was
    /// chosen of what was restored, everybody who had it.
    package var rowBefore = NodeChain()

    /// A vBucket that begins empty.
    package init(chain: NodeChain, copies: UInt8, index: UInt64) {
        fence = index
        stage = index
        origin = index
        branch = index
        self.copies = copies
        self.chain = chain
    }

    package var isJoint: Bool { !next.isEmpty }

    /// More than any copy has: nobody was asked yet.
    package static let unknown = CopyPosition(branchFence: .max, covered: .zero)

    /// None of its copies was chosen yet: they came back with nodes that were given up, are those of a
    /// move whose old chain was given up, or the active one forgot everything.
    package var isRestored: Bool { !isConfirmed && expected == Self.unknown }

    /// Who may serve until he has heard that somebody else was chosen: a promotion deposes him.
    ///
    /// Of what was restored that is everybody who had it: some may not have heard that they were given
    /// up.
    package var mayServe: [NodeNumber] {
        (isRestored ? rowBefore.nodes : []) + chain.prefix(1)
    }

    /// Nobody has it but who was failed over with it, and may come back.
    package func isLeft(to awaited: Set<NodeNumber>) -> Bool {
        chain.isEmpty && rowBefore.contains(where: awaited.contains)
    }

    /// The chain whose copies must be asked before somebody is promoted.
    package var confirmedChain: NodeChain { isConfirmed ? chain : basis }

    /// The node has, or may have, something that counts.
    package func names(_ node: NodeNumber) -> Bool {
        chain.contains(node) || next.contains(node) || basis.contains(node) || former == node
    }
}
