internal import Bytes
package import Vocabulary

/// How the active node obtained the right to write: decides what it checks before it serves.
package enum OwnershipCause: UInt8, Sendable {
    /// The vBucket was created, or recreated after its last copy was lost: it starts empty.
    case created = 0
    /// Emptied by a bucket flush: copies with older fences count as empty.
    case flushed = 1
    /// Promoted among sealed copies: must be at `expected` or beyond. Also while a promotion is
    /// still to come (`isRestored`).
    case promoted = 2
    /// The former active node handed over: the new one must be at `expected` exactly, and intact
    /// since its process started.
    case takenOver = 3
    /// The active node is the same as before; it must not have restarted meanwhile.
    case resumed = 4
}

/// Everything the cluster has agreed on about one vBucket.
///
/// - `origin` <= `branch` <= `fence` <= `stage`, and none of them ever decreases.
/// - While unconfirmed, `basis` is set and `next` is empty.
/// - `chain` is empty if the last copy is lost; then all other chains except `rowBefore` are empty.
package struct VBucketPlacement: Hashable, Sendable {
    /// Index of the entry that last changed which node may write ~ ballot.
    package var fence: UInt64
    /// Index of the entry that last changed the fence, the confirmation or the set of copies to query
    /// ~ configuration number.
    ///
    /// `finish` raises it without a new fence, as does `lose` if a lost node was in a chain.
    package var stage: UInt64
    /// Index of the entry that created or emptied the vBucket: copies of earlier histories count as
    /// empty.
    package var origin: UInt64
    /// Index of the entry since which copies have to become intact (in-sync) again: `origin`, the
    /// last promotion, or the last removal of a copy from a chain in which other copies stayed.
    package var branch: UInt64
    package var cause = OwnershipCause.created
    /// Copies that the chain should have: 1 + replicas, as of the vBucket's last move.
    package var copies: UInt8
    package var chain: NodeChain
    /// False between `promote` and `confirm`.
    package var isConfirmed = true
    /// The last confirmed chain while `chain` is unconfirmed: its copies are kept, and are queried
    /// if the promotion has to be repeated.
    package var basis = NodeChain()
    /// The target chain of a move while both chains count (joint phase); otherwise empty.
    package var next = NodeChain()
    /// Copies that `next` should have; 0 outside a joint phase.
    package var nextCopies: UInt8 = 0
    /// The active node that handed over; it keeps its copy until it is released.
    package var former: NodeNumber?
    /// The position that the first node of `chain` must have, after a promotion or a takeover.
    package var expected: CopyPosition?
    /// The chain before nodes were failed over: a recovery may use their old copies.
    ///
    /// While a restored vBucket waits for its promotion: all nodes that had a copy.
    package var rowBefore = NodeChain()

    /// A vBucket that starts empty.
    package init(chain: NodeChain, copies: UInt8, index: UInt64) {
        fence = index
        stage = index
        origin = index
        branch = index
        self.copies = copies
        self.chain = chain
    }

    package var isJoint: Bool { !next.isEmpty }

    /// Stands for an expected position that is not known yet: beyond that of any copy.
    package static let unknown = CopyPosition(branchFence: .max, covered: .zero)

    /// Whether the vBucket waits for a first promotion among its copies.
    ///
    /// They returned with recovered nodes, are the target chain of a move whose old chain was lost,
    /// or remain after the active copy lost all its data.
    package var isRestored: Bool { !isConfirmed && expected == Self.unknown }

    /// Nodes that may serve until they learn of a promotion; the promotion has to depose them.
    ///
    /// For a restored vBucket these are all nodes that had a copy: they may not have learned that
    /// their copies were given up.
    package var mayServe: [NodeNumber] {
        (isRestored ? rowBefore.nodes : []) + chain.prefix(1)
    }

    /// Whether the vBucket has no chain, and an awaited node may return with an old copy.
    package func isLeft(to awaited: Set<NodeNumber>) -> Bool {
        chain.isEmpty && rowBefore.contains(where: awaited.contains)
    }

    /// The chain whose copies must be queried before a promotion.
    package var confirmedChain: NodeChain { isConfirmed ? chain : basis }

    /// Whether the node has, or may have, a copy that counts.
    package func names(_ node: NodeNumber) -> Bool {
        chain.contains(node) || next.contains(node) || basis.contains(node) || former == node
    }
}

/// About ten bytes for a vBucket that does not move.
extension VBucketPlacement {
    /// Flags of the optional fields that follow; the values are stored on disk.
    private struct Parts: OptionSet {
        let rawValue: UInt8
        static let stage = Parts(rawValue: 1)
        static let basis = Parts(rawValue: 2)
        static let next = Parts(rawValue: 4)
        static let former = Parts(rawValue: 8)
        static let expected = Parts(rawValue: 16)
        static let rowBefore = Parts(rawValue: 32)
        static let branch = Parts(rawValue: 64)
        static let all = Parts(rawValue: 127)
    }

    private var parts: Parts {
        var parts = Parts()
        if stage != fence { parts.insert(.stage) }
        if !isConfirmed { parts.insert(.basis) }
        if isJoint { parts.insert(.next) }
        if former != nil { parts.insert(.former) }
        if expected != nil { parts.insert(.expected) }
        if !rowBefore.isEmpty { parts.insert(.rowBefore) }
        if branch != fence { parts.insert(.branch) }
        return parts
    }

    /// Codes the fence as the difference to that of the previous vBucket, which is 0 for the first.
    mutating func code(_ coder: inout some Coder, after fenceBefore: UInt64) throws(CodingFailure) {
        var parts = parts
        try coder.choice(&parts, "parts")
        try coder.require(parts.isSubset(of: .all), "parts")
        var shape = cause.rawValue | copies << 4
        try coder.field(&shape, "shape")
        let stored = OwnershipCause(rawValue: shape & 15)
        try coder.require(stored != nil, "cause")
        cause = stored ?? cause
        copies = shape >> 4
        try coder.difference(&fence, to: fenceBefore, "fence")
        try coder.index(&origin, before: fence, "origin")
        try coder.field(&chain, "chain")
        var distance = parts.contains(.stage) ? stage &- fence : 0
        if parts.contains(.stage) { try coder.field(&distance, "stage") }
        stage = fence &+ distance
        isConfirmed = !parts.contains(.basis)
        if parts.contains(.basis) { try coder.field(&basis, "basis") }
        if parts.contains(.next) {
            try coder.field(&next, "target chain")
            try coder.field(&nextCopies, "copies of the target chain")
        }
        if parts.contains(.former) {
            var node = former ?? NodeNumber(0)
            try coder.field(&node, "former active node")
            former = node
        }
        if parts.contains(.expected) {
            var position = expected ?? CopyPosition()
            try coder.field(&position, "expected position")
            expected = position
        }
        if parts.contains(.rowBefore) { try coder.field(&rowBefore, "chain before") }
        if !parts.contains(.branch) { branch = fence }
        if parts.contains(.branch) { try coder.index(&branch, before: fence, "branch") }
    }
}

extension Coder {
    /// An index as its distance from the fence, which is not before it.
    fileprivate mutating func index(
        _ index: inout UInt64,
        before fence: UInt64,
        _ name: StaticString
    ) throws(CodingFailure) {
        var distance = fence &- index
        try field(&distance, name)
        try require(distance <= fence, name)
        index = fence &- distance
    }
}
