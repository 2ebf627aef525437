/// The steps of a move: build copies, join the two chains, hand over.
extension World {
    mutating func startMove(_ choice: Int) {
        var map = latest
        guard !map.isUnconfirmed, map.target.isEmpty else { return }
        var target = Members(choice & 3)
        target.insert((choice & 3) ^ (1 + (choice >> 2 & 3) % 3))
        if copiesWanted == 3 { target = Members(bits: 0xf).subtracting(Members(choice & 3)) }
        map.target = target
        map.targetActive = choice >> 4 & 3
        if !target.contains(map.targetActive) {
            map.targetActive = target.bits.trailingZeroBitCount
        }
        agree(map)
    }

    mutating func cancelMove() {
        var map = latest
        guard !map.target.isEmpty, !map.isJoint, !map.isUnconfirmed else { return }
        map.target = Members()
        agree(map)
    }

    private func isBuilt(_ map: AgreedMap) -> Bool {
        for node in 0..<Self.nodes where map.target.contains(node) && node != map.active {
            if !copies[node].isIntact || copies[node].streamFence != map.fence { return false }
        }
        return true
    }

    /// From here on a commit needs both chains.
    mutating func joinChains() {
        var map = latest
        guard !map.isUnconfirmed, !map.target.isEmpty, !map.isJoint, isBuilt(map) else { return }
        map.isJoint = true
        agree(map)
    }

    /// Whether all copies of the new chain have the changes that the active copy had when it
    /// applied the joint map.
    private func hasSpread(_ active: Int, _ map: AgreedMap) -> Bool {
        let jointHigh = copies[active].jointHigh
        guard copies[active].isServing, jointHigh >= 0, self.map(of: active).isJoint,
            copies[active].fence == map.fence, self.map(of: active).target == map.target
        else { return false }
        for node in 0..<Self.nodes where map.target.contains(node) {
            let mustBeOnDisk =
                levels & 0b1000 != 0 || levels & 0b100 != 0 && node == map.targetActive
            if node == active {
                if mustBeOnDisk, copies[node].onDisk < jointHigh { return false }
                continue
            }
            if copies[active].acknowledgedInMemory[node] < jointHigh { return false }
            if mustBeOnDisk, copies[active].acknowledgedOnDisk[node] < jointHigh { return false }
        }
        return true
    }

    /// Ends a move that keeps its active copy: the new chain becomes the row.
    mutating func finishMove() {
        var map = latest
        guard !map.isUnconfirmed, !map.target.isEmpty, map.targetActive == map.active else {
            return
        }
        let isSpread = map.isJoint && hasSpread(map.active, map)
        guard isSpread || mistake == .noTwoChains && isBuilt(map) else { return }
        map.row = map.target
        map.basis = map.target
        map.target = Members()
        map.isJoint = false
        agree(map)
        for node in 0..<Self.nodes { noteGains(node) }
    }

    mutating func handOver(_ node: Int) {
        let map = map(of: node)
        guard copies[node].role == .active, !copies[node].isSealed, map.isJoint,
            map.targetActive != node
        else { return }
        copies[node].role = .handingOver
    }

    mutating func takeBack(_ node: Int) {
        if copies[node].role == .handingOver { copies[node].role = .active }
    }

    /// Completes a handover once no prepare is outstanding and all copies of the new chain have
    /// every change; records the final position.
    mutating func drain(_ node: Int) {
        let map = map(of: node)
        guard copies[node].role == .handingOver, map.fence == latest.fence, latest.isJoint,
            copies[node].memory.prepare[0].write == 0, copies[node].memory.prepare[1].write == 0,
            hasSpread(node, latest)
        else { return }
        for member in 0..<Self.nodes where map.target.contains(member) && member != node {
            if copies[node].acknowledgedInMemory[member] != copies[node].memory.high { return }
        }
        copies[node].role = .drained
        drained = Drained(fence: map.fence, final: copies[node].memory.position)
    }

    mutating func takeOver() {
        var map = latest
        guard map.isJoint, drained.fence == map.fence else { return }
        map.fence = nextFence
        map.cause = .takeOver
        map.former = Members(map.active).subtracting(map.target)
        map.active = map.targetActive
        map.row = map.target
        map.basis = map.target
        map.expected = drained.final
        map.target = Members()
        map.isJoint = false
        agree(map)
        for node in 0..<Self.nodes { noteGains(node) }
    }

    /// Drops the former active copy once the new one has persisted the handed-over changes.
    mutating func clean() {
        var map = latest
        guard !map.former.isEmpty, !map.isUnconfirmed, copies[map.active].role == .active,
            copies[map.active].onDisk >= map.expected.covered
        else { return }
        map.former = Members()
        agree(map)
    }
}
