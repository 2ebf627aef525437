internal import Vocabulary

/// What can happen to one vBucket's placement; false where it does not apply.
///
/// Fence and stage have been compared. A new fence tells who may write, a new stage that whoever
/// asked copies before has asked on a basis that is gone.
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

    /// The second chain is the chain.
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

    /// Whoever handed over before keeps its copy until the one chosen since has all on disk, too:
    /// what was durable by the disk of the active one may be on no other disk.
    ///
    /// Nobody of `gone` stays in its row: nothing was served in it yet.
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

    /// The first chain alone; where all of it is `gone`, the second one, which has what there is.
    ///
    /// Of that nobody counts as intact, and somebody of the first one may serve who has not heard of
    /// it: nobody else does before all were asked and a promotion deposed whoever did.
    mutating func resume(at index: UInt64, without gone: [NodeNumber]) -> Bool {
        guard isConfirmed, !chain.isEmpty else { return false }
        let other = next.without(gone)
        if !other.isEmpty, chain.without(gone).isEmpty {
            rowBefore = whoHadIt
            copies = nextCopies
            begin(again: other, at: index)
        } else {
            renew(index, .resumed)
        }
        next = NodeChain()
        nextCopies = 0
        return true
    }

    /// Nobody serves it before all of `row` were asked, and one of them was promoted.
    ///
    /// Of those it has no more for a chain than there should be copies: any of them may have the most.
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

    /// Copies that were given up are what there is: those that come back are all asked, and one of
    /// them is promoted, before anybody serves.
    mutating func restore(_ returning: [NodeNumber], at index: UInt64) -> Bool {
        let back = rowBefore.filter { returning.contains($0) }
        guard chain.isEmpty, let row = NodeChain(back), !row.isEmpty else { return false }
        begin(again: row, at: index)
        return true
    }

    /// Nothing of it is left anywhere: whoever of its nodes is there may begin.
    ///
    /// Nobody loses his role by it, also where he was failed over: somebody may serve under it until
    /// he has heard that he does not, and a promotion sees to that. What was restored gives nobody one:
    /// it is chosen for as before, among those that are not gone.
    mutating func flush(at index: UInt64, without gone: [NodeNumber]) {
        let (before, wasRestored) = (whoHadIt, isRestored)
        var left = [chain, basis, next].first { !$0.without(gone).isEmpty } ?? NodeChain()
        // Whoever lives and serves is alone with those who do, as after a failover.
        if left.first.map(gone.contains) == false { left = left.without(gone) }
        // Of those who came back more were asked than there should be: nobody of them serves yet.
        if left.count > Int(copies) { left = left.without(gone).first(Int(copies)) }
        self = VBucketPlacement(chain: left, copies: copies, index: index)
        // Those who may come back are remembered where nobody is left: with nothing, but perhaps
        // without having heard of that. Nor may those have who served before it was restored: the
        // promotion that it still waits for deposes them.
        cause = .flushed
        if chain.isEmpty || wasRestored { rowBefore = before }
        let rest = chain.without(gone)
        if wasRestored, !rest.isEmpty { begin(again: rest, at: index) }
    }

    /// What becomes of it when nodes are given up.
    enum Loss: Sendable {
        case none
        case changed
        /// Its active one is gone, and there are others who were not asked.
        case undecided
    }

    mutating func lose(_ gone: [NodeNumber], at index: UInt64) -> Loss {
        guard let active = chain.first else { return .none }
        guard !gone.contains(active) else {
            let isLast = [chain, next, basis].allSatisfy { $0.without(gone).isEmpty }
            guard isLast, former.map(gone.contains) ?? true else { return .undecided }
            let (before, copies, origin) = (whoHadIt, copies, origin)
            self = VBucketPlacement(chain: NodeChain(), copies: copies, index: index)
            self.origin = origin
            rowBefore = before
            return .changed
        }
        let left = chain.without(gone)
        guard left != chain || next.without(gone) != next else { return .none }
        remember(chain, where: left)
        // What was durable may be with the active one and one that is gone, and fewer intact copies
        // are enough from here on: those that stay have to hear from the active one first.
        let mustProve = isConfirmed && left != chain && left.count > 1
        chain = left
        stage = index
        if isJoint || mustProve { _ = resume(at: index, without: gone) }
        if mustProve { branch = index }
        return .changed
    }

    /// Nobody of `gone` stays in the row of a node that was failed over and keeps it.
    ///
    /// Those that do prove anew that they are intact, as whenever a chain gets shorter (`lose`).
    mutating func part(from gone: [NodeNumber], at index: UInt64) -> Bool {
        let left = chain.without(gone)
        guard isConfirmed, !isJoint, left != chain, left.first == chain.first else { return false }
        chain = left
        renew(index, .resumed)
        branch = index
        return true
    }

    /// Who was given up before the last ones may have the most of those that come back.
    private var whoHadIt: NodeChain {
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
