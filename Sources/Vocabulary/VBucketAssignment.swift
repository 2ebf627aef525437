/// What a node is for one vBucket, as the map says.
package enum VBucketRole: Hashable, Sendable {
    /// Serves it.
    case active
    /// Was chosen to serve it, and serves nobody before the choice is confirmed.
    case pending
    /// Follows the active copy: as one of the chain's, or building up to become one.
    case replica(isInChain: Bool)
    /// Has an old copy that may still be needed, and serves nobody.
    case kept
    case none
}

/// What the map says of one vBucket.
///
/// - No node is twice in a chain, and none is in `builders` that is in one.
package struct VBucketAssignment: Hashable, Sendable {
    /// Log index of the entry that last changed who may write.
    package var fence: UInt64
    /// Log index of the entry that last changed fence, basis or confirmation: compared beside the
    /// fence by promotions.
    package var stage: UInt64
    /// The copies that count, the active one first; empty where there is none left.
    package var chain: [NodeNumber]
    /// False between `promote` and `confirm`: the first of `chain` is pending and serves nobody.
    package var isConfirmed: Bool
    /// The target chain while both count (joint phase); else empty.
    package var nextChain: [NodeNumber]
    /// Nodes that build a copy and are in no chain yet: a rebalance's target names them.
    package var builders: [NodeNumber]
    /// The node that handed over and keeps its copy until the new active one has it on disk.
    package var former: NodeNumber?
    /// Copies the chain should have: 1 + replicas.
    package var copies: Int
    /// The same of `nextChain`: another number while that of replicas is being changed.
    package var nextCopies: Int
    /// Log index of the entry that made the vBucket empty, when it was made or flushed: copies of
    /// histories before it count for nothing.
    package var origin: UInt64
    /// Log index of the entry since which copies prove anew that they are intact: the origin, a
    /// promotion, or a copy's leaving a chain in which others stay.
    ///
    /// Fences since then came by handing over or by resuming, so a copy that was intact under one of
    /// them still is (`docs/design/durable-writes.md`).
    package var branch: UInt64
    /// The fence came with no other active copy: whoever served until then goes on.
    package var isResumed: Bool
    /// Others whose old copies may still be needed: the last confirmed chain's until there is a
    /// confirmed one again, and those of nodes that were failed over and may come back.
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

    /// What `node` is for the vBucket.
    package func role(of node: NodeNumber) -> VBucketRole {
        if chain.first == node { return isConfirmed ? .active : .pending }
        if chain.contains(node) || nextChain.contains(node) { return .replica(isInChain: true) }
        if builders.contains(node) { return .replica(isInChain: false) }
        return former == node || kept.contains(node) ? .kept : .none
    }

    /// Copies that a durable write needs, the active one included: more than half of those that
    /// there should be.
    package var majority: Int { copies / 2 + 1 }

    /// The same among `nextChain`.
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
