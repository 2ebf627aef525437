/// A node's role for one vBucket, according to the cluster map.
package enum VBucketRole: Hashable, Sendable {
    /// Serves requests.
    case active
    /// Promoted, but not confirmed: does not serve yet.
    case pending
    /// Follows the active copy: in the chain, or still being built.
    case replica(isInChain: Bool)
    /// Has an old copy that may still be needed; serves no requests.
    case kept
    case none
}

/// The cluster map's entry for one vBucket.
///
/// - A chain contains a node at most once, and `builders` contains no node of a chain.
package struct VBucketAssignment: Hashable, Sendable {
    /// Log index of the entry that last changed which node may write ~ ballot.
    package var fence: UInt64
    /// Log index of the entry that last changed fence, basis or confirmation: promotions compare it
    /// in addition to the fence ~ configuration number.
    package var stage: UInt64
    /// The current copies, the active one first; empty if no copy is left.
    package var chain: [NodeNumber]
    /// False between `promote` and `confirm`: the first of `chain` is pending and does not serve.
    package var isConfirmed: Bool
    /// The target chain in the joint phase, in which both chains count; empty otherwise.
    package var nextChain: [NodeNumber]
    /// Nodes that build a copy for a rebalance and are in no chain yet.
    package var builders: [NodeNumber]
    /// The node that handed over and keeps its copy until the new active copy has it on disk.
    package var former: NodeNumber?
    /// The intended number of copies in the chain: 1 + replicas.
    package var copies: Int
    /// The same for `nextChain`: differs from `copies` while the number of replicas is changed.
    package var nextCopies: Int
    /// Log index of the entry that created or flushed the vBucket: copies from earlier histories
    /// are void.
    package var origin: UInt64
    /// Log index of the entry from which on copies must become intact again: the origin, a
    /// promotion, or the removal of a copy from a chain that keeps other copies.
    ///
    /// Later fences came from hand-overs or resumptions, so a copy that became intact under one of
    /// them is still intact (`docs/design/durable-writes.md`).
    package var branch: UInt64
    /// The fence did not change the active copy, which continues to serve.
    package var isResumed: Bool
    /// Further nodes whose old copies may still be needed: the last confirmed chain until a chain
    /// is confirmed again, and failed-over nodes that may be recovered.
    package var kept: [NodeNumber]

    package init(
        fence: UInt64,
        stage: UInt64,
        chain: [NodeNumber],
        isConfirmed: Bool = true,
        nextChain: [NodeNumber] = [],
        builders: [NodeNumber] = [],
        former: NodeNumber? = nil,
        copies: Int,
        nextCopies: Int? = nil,
        origin: UInt64 = 0,
        branch: UInt64? = nil,
        isResumed: Bool = false,
        kept: [NodeNumber] = []
    ) {
        self.fence = fence
        self.stage = stage
        self.chain = chain
        self.isConfirmed = isConfirmed
        self.nextChain = nextChain
        self.builders = builders
        self.former = former
        self.copies = copies
        self.nextCopies = nextCopies ?? copies
        self.origin = origin
        self.branch = branch ?? fence
        self.isResumed = isResumed
        self.kept = kept
    }

    /// The role of `node` for the vBucket; `.none` if the entry does not name it.
    package func role(of node: NodeNumber) -> VBucketRole {
        if chain.first == node { return isConfirmed ? .active : .pending }
        if chain.contains(node) || nextChain.contains(node) { return .replica(isInChain: true) }
        if builders.contains(node) { return .replica(isInChain: false) }
        return former == node || kept.contains(node) ? .kept : .none
    }

    /// Copies that a durable write needs, the active one included: more than half of `copies`.
    package var majority: Int { copies / 2 + 1 }

    /// The same for `nextChain`.
    package var nextMajority: Int { nextCopies / 2 + 1 }
}

/// One bucket's assignments by vBucket number, as of an applied log index.
package struct BucketAssignment: Hashable, Sendable {
    package var name: String
    package var uuid: String
    package var index: UInt64
    package var vBuckets: [VBucketAssignment]

    package init(name: String, uuid: String, index: UInt64, vBuckets: [VBucketAssignment]) {
        self.name = name
        self.uuid = uuid
        self.index = index
        self.vBuckets = vBuckets
    }

    package subscript(vBucket: VBucketID) -> VBucketAssignment { vBuckets[Int(vBucket.number)] }
}
