/// The client operations of the active copy: write, complete, abort, read.
extension World {
    mutating func write(_ node: Int, _ key: Int) {
        guard copies[node].role == .active, !copies[node].isSealed,
            copies[node].memory.prepare[key].write == 0
        else { return }
        let map = map(of: node)
        let isDurable = !(isMixed && key == 1 && dice.oneIn(2))
        if isDurable, map.row.count < majority { return }
        if !isDurable, !mayAnswer(node) { return }
        let parent = copies[node].memory.value[key].write
        guard let number = promises.begin(parent: parent, level: isDurable ? level() : 0) else {
            isOver = true
            return
        }
        let seqno = nextSeqno(node)
        let version = Version(seqno: seqno, write: number)
        if isDurable {
            copies[node].memory.prepare[key] = version
        } else {
            copies[node].memory.value[key] = version
            if map.fence < promises.newestFence { violation = .twoWriters }
            promises.newestFence = map.fence
        }
    }

    /// Without a lease, the active copy answers nothing.
    func mayAnswer(_ node: Int) -> Bool { copies[node].hasLease || mistake == .noLease }

    private mutating func level() -> UInt8 {
        if levels != 0b1110 { return UInt8(levels.trailingZeroBitCount) }
        return UInt8(1 + dice.below(3))
    }

    private mutating func nextSeqno(_ node: Int) -> Int32 {
        copies[node].memory.high += 1
        copies[node].memory.covered = copies[node].memory.high
        return copies[node].memory.high
    }

    /// Commits a prepare that enough copies have.
    mutating func complete(_ node: Int, _ key: Int) {
        guard copies[node].isServing, copies[node].memory.prepare[key].write != 0 else { return }
        let prepare = copies[node].memory.prepare[key]
        let map = map(of: node)
        let isInherited = copies[node].inherited.contains(key)
        let needed = isInherited ? min(majority, map.row.count) : majority
        var nodes = holders(node, of: prepare, in: map.row)
        guard nodes.count >= needed, nodes.contains(node) else { return }
        if map.isJoint {
            let others = holders(node, of: prepare, in: map.target)
            guard others.count >= majority else { return }
            if promises.level(of: prepare.write) == 2, !others.contains(map.targetActive) {
                return
            }
            nodes = nodes.union(others)
        }
        let seqno = nextSeqno(node)
        copies[node].memory.value[key] = Version(seqno: seqno, write: prepare.write)
        copies[node].memory.prepare[key] = Version()
        copies[node].inherited.remove(key)
        decide(prepare.write, key, by: node, needed: needed, holders: nodes)
    }

    /// Members of a chain that have the prepare as its level requires, by the acknowledgements that
    /// the active copy has received.
    private func holders(_ node: Int, of prepare: Version, in chain: Members) -> Members {
        let level = promises.level(of: prepare.write)
        var found = Members()
        for member in 0..<Self.nodes where chain.contains(member) {
            let known: Int32
            if member == node {
                known = level == 1 ? prepare.seqno : copies[node].onDisk
            } else if level == 3 {
                known = copies[node].acknowledgedOnDisk[member]
            } else {
                known = copies[node].acknowledgedInMemory[member]
            }
            if known >= prepare.seqno { found.insert(member) }
        }
        return found
    }

    /// Aborts a prepare at its deadline.
    ///
    /// An inherited prepare has no deadline, because it may have been committed.
    mutating func abort(_ node: Int, _ key: Int) {
        guard copies[node].isServing, copies[node].memory.prepare[key].write != 0,
            !copies[node].inherited.contains(key)
        else { return }
        copies[node].memory.prepare[key] = Version()
        _ = nextSeqno(node)
    }

    mutating func read(_ node: Int, _ key: Int) {
        guard copies[node].isServing, mayAnswer(node) else { return }
        if copies[node].inherited.contains(key), mistake != .readsOverInherited { return }
        show(copies[node].memory.value[key].write, key, by: node)
    }

    mutating func renewLease(_ node: Int) {
        // Voters grant a lease only to a node that has applied all entries that depose it.
        if copies[node].isServing, copies[node].map == mapCount - 1 { copies[node].hasLease = true }
    }
}
