/// Seal, promote, confirm and resume a vBucket; and how a node applies an agreed map.
extension World {
    /// The node applies the next map.
    mutating func applyMap(_ node: Int) {
        guard copies[node].map < mapCount - 1 else { return }
        let old = map(of: node)
        copies[node].map += 1
        let new = map(of: node)
        copies[node].fence = new.fence
        if new.fence != old.fence {
            copies[node].endStream()
            copies[node].jointHigh = -1
            takeFence(node, new)
        } else if old.isUnconfirmed, !new.isUnconfirmed {
            let isChosen = new.active == node && copies[node].role != .follows
            let wasIntact = copies[node].isIntact && mistake == .intactOverPromotion
            copies[node].isIntact = isChosen || wasIntact
            if isChosen { copies[node].role = .active }
        }
        if new.isJoint, !old.isJoint, new.active == node, copies[node].believesToServe {
            copies[node].jointHigh = copies[node].memory.high
        }
    }

    private mutating func takeFence(_ node: Int, _ new: AgreedMap) {
        copies[node].forgetAcknowledgements()
        let role = copies[node].role
        copies[node].role = .follows
        // Earlier durable writes may be only on the active copy and on copies that left.
        if new.cause == .giveUp, new.active != node, mistake != .intactOverGivingUp {
            copies[node].isIntact = false
        }
        guard new.active == node else {
            copies[node].hasLease = false
            return
        }
        switch new.cause {
        case .resume, .giveUp:
            if role != .follows, role != .ready { copies[node].role = .active }
        case .takeOver:
            let memory = copies[node].memory
            let hasAll = memory.covered == memory.high && memory.position == new.expected
            // After a restart a copy cannot know whether it was active before.
            let isOfThisLife = copies[node].isIntact || mistake == .takeOverWithoutIntact
            if hasAll, isOfThisLife { copies[node].role = .active }
        default: break
        }
    }

    /// The chosen copy checks that it still has the position for which it was chosen, and begins
    /// its branch.
    mutating func activate(_ node: Int) {
        let map = map(of: node)
        let memory = copies[node].memory
        let mayTakeOverLate =
            mistake == .takeOverWithoutIntact && map.cause == .takeOver
            && copies[node].role == .follows && map.active == node
        if mayTakeOverLate, memory.covered == memory.high, memory.position == map.expected {
            copies[node].role = .active
            return
        }
        guard map.cause == .promote, map.isUnconfirmed, map.active == node,
            copies[node].role == .follows, !memory.isVoid
        else { return }
        if memory.position(mistake) < map.expected, mistake != .expectedPositionUnchecked { return }
        guard !memory.log.isFull else {
            isOver = true
            return
        }
        let isByHigh = mistake == .branchAtHigh || mistake == .promotionByHigh
        let start = isByHigh ? memory.high : memory.covered
        copies[node].memory.log.append(fence: map.fence, start: start)
        copies[node].inherited = Members()
        for key in 0..<2 where memory.prepare[key].write != 0 {
            if memory.prepare[key].seqno > start || mistake == .inheritedAborted {
                copies[node].memory.prepare[key] = Version()
            } else {
                copies[node].inherited.insert(key)
            }
        }
        copies[node].memory.covered = memory.high
        copies[node].memory.partialEnd = 0
        copies[node].forgetAcknowledgements()
        copies[node].role = mistake == .servingBeforeConfirmation ? .active : .ready
        expectNothingLost(by: node)
        if map.fence == latest.fence { readyFence = map.fence }
    }

    /// Seals a copy, so that it accepts no more changes from the active copy of this fence, and
    /// records its report.
    mutating func seal(_ node: Int) {
        let latest = latest
        guard latest.basis.union(latest.former).union(latest.row).contains(node) else { return }
        while copies[node].map < mapCount - 1 { applyMap(node) }
        if mistake != .noSeal {
            copies[node].sealedAt = latest.fence
            copies[node].endStream()
        }
        let position = copies[node].memory.position(mistake)
        reports[node] = Report(
            fence: latest.fence,
            stage: latest.stage,
            position: position,
            isIntact: copies[node].isIntact && !copies[node].memory.isVoid
        )
    }

    /// Chooses a copy from the reports of the sealed copies; many steps later the proposal may be
    /// committed.
    mutating func propose() {
        let latest = latest
        let chain = mistake == .newChainConsulted ? latest.row : latest.basis
        var answered = Members()
        var former = Members()
        var intact = 0
        var chosen: Int?
        for node in 0..<Self.nodes
        where isCurrent(fence: reports[node].fence, stage: reports[node].stage) {
            if chain.contains(node) {
                answered.insert(node)
                intact += reports[node].isIntact ? 1 : 0
            } else if latest.former.contains(node) {
                former.insert(node)
            } else {
                continue
            }
            if reports[node].position == .void { continue }
            let best = chosen.map { reports[$0].position } ?? .void
            let isTie = reports[node].position == best && node == latest.active
            if best < reports[node].position || isTie { chosen = node }
        }
        let formers = mistake == .formerUnasked ? former : latest.former.subtracting(chain)
        let isWhole = answered == chain && former == formers
        guard let chosen, isSafe(chain, answered, isWhole, intact) else { return }
        var row = answered
        row.insert(chosen)
        for node in 0..<Self.nodes where row.count > copiesWanted && node != chosen {
            row.remove(node)
        }
        proposal = Proposal(
            fence: latest.fence,
            stage: latest.stage,
            chosen: chosen,
            expected: reports[chosen].position,
            row: row
        )
    }

    /// Whether one of the queried copies must have every durable write.
    ///
    /// True if all copies were queried, or if more intact copies answered than a durable write may
    /// be absent from.
    private func isSafe(
        _ chain: Members,
        _ answered: Members,
        _ isWhole: Bool,
        _ intact: Int
    ) -> Bool {
        let enough = max(1, chain.count - majority + 1)
        if isWhole { return true }
        switch mistake {
        case .anySurvivorSuffices: return !answered.isEmpty
        case .intactForgotten: return answered.count >= enough
        default: return intact >= enough
        }
    }

    mutating func commitProposal() {
        guard let made = proposal else { return }
        var map = latest
        let isCurrent = isCurrent(fence: made.fence, stage: made.stage)
        guard isCurrent || mistake == .noFenceCompare else {
            proposal = nil
            return
        }
        // Voters withhold an entry that deposes a node with a valid lease promise.
        let isHeldBack = made.chosen != map.active && copies[map.active].hasLease
        if isHeldBack, mistake != .noLease { return }
        proposal = nil
        map.fence = nextFence
        map.cause = .promote
        map.active = made.chosen
        map.row = made.row
        map.isUnconfirmed = true
        map.expected = made.expected
        map.target = Members()
        map.isJoint = false
        agree(map)
    }

    mutating func confirm() {
        var map = latest
        guard map.isUnconfirmed, readyFence == map.fence else { return }
        let gone = map.basis.subtracting(map.row)
        for node in 0..<Self.nodes where gone.contains(node) {
            noteLosses(node, had: held(node), isGone: true)
        }
        map.isUnconfirmed = false
        map.basis = map.row
        // Former active copies may be the only ones with writes that are durable by the disk of the
        // active copy.
        map.former = mistake == .formerDropped ? Members() : map.former.subtracting(map.row)
        agree(map)
        givenUp = givenUp.union(gone)
    }

    /// Resumes the active copy of a vBucket that was sealed or has two chains.
    mutating func resume() {
        var map = latest
        if map.isUnconfirmed { return }
        if mistake == .unsealWithoutNewFence {
            for node in 0..<Self.nodes where copies[node].sealedAt == map.fence {
                copies[node].sealedAt = 0
            }
            return
        }
        map.fence = nextFence
        map.cause = .resume
        map.target = Members()
        map.isJoint = false
        agree(map)
    }

    /// Removes a replica from the chain, with the writes that it has.
    ///
    /// From then on fewer intact copies are enough for a promotion, and earlier durable writes have
    /// one holder less. So if other replicas remain, they are not intact until they have received
    /// all changes from the active copy.
    mutating func giveUp(_ node: Int) {
        var map = latest
        guard node != map.active, map.row.contains(node), !map.isUnconfirmed else { return }
        let had = held(node)
        map.row.remove(node)
        map.basis = map.row
        let mustProve = map.row.count > 1 && mistake != .intactOverGivingUp
        if map.isJoint || mustProve {
            map.fence = nextFence
            map.cause = mustProve ? .giveUp : .resume
        }
        if map.isJoint || map.target.contains(node) {
            map.target = Members()
            map.isJoint = false
        }
        agree(map)
        givenUp.insert(node)
        noteLosses(node, had: had, isGone: true)
    }
}
