internal import Vocabulary

/// The steps of one vBucket's placement; each returns false, and changes nothing, if it does not
/// apply.
///
/// The caller has compared fence and stage. A new fence changes which node may write. A new stage
/// makes answers of copies that were queried before it unusable: the queried set has changed.
extension VBucketPlacement {
    mutating func joint(to row: NodeChain, target: BucketTargets?, _ vBucket: VBucketID) -> Bool {
        guard isConfirmed, !isJoint, !chain.isEmpty, !row.isEmpty, row != chain,
            let target, target.rows[Int(vBucket.number)] == row
        else { return false }
        next = row
        nextCopies = target.copies
        return true
    }

    mutating func finish(at index: UInt64, remembering: Bool) -> Bool {
        guard isJoint, next.first == chain.first else { return false }
        stage = index
        arrive(remembering)
        return true
    }

    mutating func takeOver(
        at index: UInt64,
        final: CopyPosition?,
        remembering: Bool
    ) -> Bool {
        guard isJoint, let final, let old = chain.first, next.first != old else { return false }
        former = next.contains(old) ? nil : old
        renew(index, .takenOver)
        expected = final
        arrive(remembering)
        return true
    }

    /// Makes the target chain the chain.
    private mutating func arrive(_ remembering: Bool) {
        rowBefore = remembering ? chain : NodeChain()
        chain = next
        copies = nextCopies
        next = NodeChain()
        nextCopies = 0
    }

    mutating func promote(
        at index: UInt64,
        row: NodeChain,
        position: CopyPosition?,
        deposes: [NodeNumber]
    ) -> Bool {
        guard let position, let active = chain.first, let chosen = row.first,
            row.count <= Int(copies),
            row.allSatisfy({ names($0) }),
            chosen == active || deposes.contains(active)
        else { return false }
        let confirmed = confirmedChain
        remember(confirmed, where: row)
        basis = confirmed
        chain = row
        isConfirmed = false
        next = NodeChain()
        nextCopies = 0
        renew(index, .promoted)
        branch = index
        expected = position
        return true
    }

    /// A node that handed over before keeps its copy until the promoted copy has persisted
    /// everything: a write that was durable by the former active copy's disk may be on no other
    /// disk.
    ///
    /// Nodes that are gone leave the chain: no write was acknowledged under this chain yet.
    mutating func confirm(at index: UInt64, without gone: [NodeNumber]) -> Bool {
        guard !isConfirmed, !isRestored else { return false }
        let left = chain.without(gone)
        remember(chain, where: left)
        chain = left
        isConfirmed = true
        basis = NodeChain()
        if former.map(chain.contains) == true { former = nil }
        expected = nil
        stage = index
        return true
    }

    /// Continues with the old chain under a new fence.
    ///
    /// If all of the old chain is gone, continues with the target chain, which has the only copies.
    ///
    /// Copies of the target chain then do not count as intact, and a node of the old chain may
    /// still serve without knowing. So no copy serves until all were queried and a promotion
    /// deposed the nodes of the old chain.
    mutating func resume(at index: UInt64, without gone: [NodeNumber]) -> Bool {
        guard isConfirmed, !chain.isEmpty else { return false }
        let other = next.without(gone)
        if !other.isEmpty, chain.without(gone).isEmpty {
            rowBefore = everyHolder
            copies = nextCopies
            begin(again: other, at: index)
        } else {
            renew(index, .resumed)
        }
        next = NodeChain()
        nextCopies = 0
        return true
    }

    /// Starts a promotion among the copies of `row`: no copy serves until all were queried and one
    /// was promoted.
    ///
    /// The chain has at most `copies` nodes. The basis has all of `row`: any copy may be the most
    /// complete.
    private mutating func begin(again row: NodeChain, at index: UInt64) {
        chain = row.first(Int(copies))
        basis = row
        isConfirmed = false
        renew(index, .promoted)
        branch = index
        expected = Self.unknown
    }

    mutating func release() -> Bool {
        guard isConfirmed, former != nil else { return false }
        former = nil
        expected = nil
        return true
    }

    /// Restores a vBucket without a chain from old copies on returning nodes: all of these are
    /// queried, and one is promoted before any of them serves.
    mutating func restore(_ returning: [NodeNumber], at index: UInt64) -> Bool {
        let back = rowBefore.filter { returning.contains($0) }
        guard chain.isEmpty, let row = NodeChain(back), !row.isEmpty else { return false }
        begin(again: row, at: index)
        return true
    }

    /// Empties the vBucket: no copy of an earlier history counts any more.
    ///
    /// A flush does not demote the active node, even a failed-over one: it may serve until it
    /// learns of its demotion. A later promotion deposes it. A restored vBucket has no active node
    /// yet: it still waits for a promotion, among the nodes that are not gone.
    mutating func flush(at index: UInt64, without gone: [NodeNumber]) {
        let (before, wasRestored) = (everyHolder, isRestored)
        var left = [chain, basis, next].first { !$0.without(gone).isEmpty } ?? NodeChain()
        // If the active node is not gone, the chain drops the nodes that are, as after a failover.
        if left.first.map(gone.contains) == false { left = left.without(gone) }
        // The basis of a restored vBucket may have more than `copies` nodes; none of them serves
        // yet.
        if left.count > Int(copies) { left = left.without(gone).first(Int(copies)) }
        self = VBucketPlacement(chain: left, copies: copies, index: index)
        // If no node is left, remember those that may return: their copies are void, but they may
        // not know that. The same holds for nodes that served before the vBucket was restored: the
        // pending promotion deposes them.
        cause = .flushed
        if chain.isEmpty || wasRestored { rowBefore = before }
        let rest = chain.without(gone)
        if wasRestored, !rest.isEmpty { begin(again: rest, at: index) }
    }

    /// The effect that losing nodes has on one vBucket.
    enum Loss: Sendable {
        /// The vBucket has no chain, or no lost node is in its chains.
        case none
        /// Lost nodes left the chains; or the last copy is lost and the chain is empty.
        case changed
        /// The active copy is lost, and other copies may exist that were not queried yet: the
        /// placement stays until one of them is promoted.
        case undecided
    }

    mutating func lose(_ gone: [NodeNumber], at index: UInt64) -> Loss {
        guard let active = chain.first else { return .none }
        guard !gone.contains(active) else {
            let isLast = [chain, next, basis].allSatisfy { $0.without(gone).isEmpty }
            guard isLast, former.map(gone.contains) ?? true else { return .undecided }
            let (before, copies, origin) = (everyHolder, copies, origin)
            self = VBucketPlacement(chain: NodeChain(), copies: copies, index: index)
            self.origin = origin
            rowBefore = before
            return .changed
        }
        let left = chain.without(gone)
        guard left != chain || next.without(gone) != next else { return .none }
        remember(chain, where: left)
        // A durable write may exist only on the active copy and a lost one, and fewer intact copies
        // suffice from now on. So the remaining replicas first have to become intact again.
        let mustProve = isConfirmed && left != chain && left.count > 1
        chain = left
        stage = index
        if isJoint || mustProve { _ = resume(at: index, without: gone) }
        if mustProve { branch = index }
        return .changed
    }

    /// Removes gone nodes from the chain of a failed-over active node that keeps the vBucket.
    ///
    /// The remaining copies have to become intact again, as whenever a copy leaves a chain
    /// (`lose`).
    mutating func part(from gone: [NodeNumber], at index: UInt64) -> Bool {
        let left = chain.without(gone)
        guard isConfirmed, !isJoint, left != chain, left.first == chain.first else { return false }
        chain = left
        renew(index, .resumed)
        branch = index
        return true
    }

    /// The confirmed chain, then nodes given up before it: of the copies that return, the most
    /// complete may be one of these.
    private var everyHolder: NodeChain {
        let older = rowBefore.without(confirmedChain.nodes).nodes
        let all = (confirmedChain.nodes + older).prefix(NodeChain.countMax)
        return NodeChain(all) ?? NodeChain()
    }

    private mutating func remember(_ row: NodeChain, where left: NodeChain) {
        if rowBefore.isEmpty, !row.allSatisfy(left.contains) { rowBefore = row }
    }

    private mutating func renew(_ index: UInt64, _ cause: OwnershipCause) {
        fence = index
        stage = index
        self.cause = cause
        expected = nil
    }
}
