/// The answers that clients received: each write with the write that it replaced, and the newest
/// committed write of each key.
struct Promises {
    struct Newest {
        var write: Int32 = 0
        var need = 0
        var committer = 0
        /// Nodes that had the write and lost it.
        var lost = Members()
        /// More copies lost the write than its level survives: the key is no longer checked.
        var isRetired = false
    }

    private var parents: [256 of Int16]
    private var levelOf: [256 of UInt8]
    private var count = 1
    var newest: [2 of Newest]
    /// The newest fence under which anything was acknowledged.
    var newestFence: Int32 = 0

    init() {
        parents = .init(repeating: 0)
        levelOf = .init(repeating: 0)
        newest = .init(repeating: Newest())
    }

    /// A new write that replaces `parent`; nil if the walk has reached its maximum of writes.
    mutating func begin(parent: Int32, level: UInt8) -> Int32? {
        guard count < World.writesMax else { return nil }
        parents[count] = Int16(parent)
        levelOf[count] = level
        count += 1
        return Int32(count - 1)
    }

    /// 0 for a write without durability.
    func level(of write: Int32) -> UInt8 { levelOf[Int(write)] }

    /// Whether `ancestor` is `write`, or `write` replaced it, directly or through other writes.
    func descends(_ write: Int32, from ancestor: Int32) -> Bool {
        var place = write
        while place > ancestor { place = Int32(parents[Int(place)]) }
        return place == ancestor
    }
}

/// The checkers.
extension World {
    /// A write was committed.
    mutating func decide(
        _ write: Int32,
        _ key: Int,
        by node: Int,
        needed: Int,
        holders: Members
    ) {
        promises.newestFence = max(promises.newestFence, copies[node].fence)
        let newest = promises.newest[key]
        if newest.isRetired || newest.write == write { return }
        guard promises.descends(write, from: newest.write) else {
            // A former active copy may commit a write late, after newer writes have replaced it.
            if !promises.descends(newest.write, from: write) { violation = .lost }
            return
        }
        var next = Promises.Newest(write: write)
        next.need = max(needed, min(majority, latest.basis.count))
        next.committer = node
        for member in 0..<Self.nodes where holders.contains(member) {
            // The member acknowledged the write, and has restarted since.
            let isOld = copies[node].acknowledgedBoot[member] != copies[member].boot
            if isOld, member != node, !holds(member, write, key) { next.lost.insert(member) }
            // The active copy does not know yet that this copy is no longer queried.
            if givenUp.contains(member) { next.lost.insert(member) }
        }
        promises.newest[key] = next
        retireIfBeyondPromise(key)
    }

    /// Checks a value that a reader received.
    mutating func show(_ write: Int32, _ key: Int, by node: Int) {
        let newest = promises.newest[key]
        if newest.isRetired || newest.write == write { return }
        guard promises.descends(write, from: newest.write) else {
            violation = .staleRead
            return
        }
        if promises.level(of: write) > 0 {
            decide(write, key, by: node, needed: 1, holders: Members(node))
        }
    }

    func holds(_ node: Int, _ write: Int32, _ key: Int) -> Bool {
        if copies[node].memory.isVoid || write == 0 { return false }
        if promises.descends(copies[node].memory.value[key].write, from: write) { return true }
        // A promotion would abort a prepare from the middle of a snapshot.
        return copies[node].memory.prepare[key].seqno <= copies[node].memory.covered
            && promises.descends(copies[node].memory.prepare[key].write, from: write)
    }

    /// The keys whose newest write the node has.
    func held(_ node: Int) -> Members {
        var keys = Members()
        for key in 0..<2 where holds(node, promises.newest[key].write, key) { keys.insert(key) }
        return keys
    }

    /// Counts a loss for each of the keys `had` whose newest write the node no longer has, or for
    /// all of them if the node is no longer queried (`isGone`).
    mutating func noteLosses(_ node: Int, had: Members, isGone: Bool = false) {
        for key in 0..<2 where had.contains(key) {
            if !isGone, isLeft(node, promises.newest[key].write, key) { continue }
            promises.newest[key].lost.insert(node)
            retireIfBeyondPromise(key)
        }
    }

    /// Whether the node still has the write.
    ///
    /// A write of level majority counts only up to the covered seqno: above it, a promotion may
    /// discard the write.
    private func isLeft(_ node: Int, _ write: Int32, _ key: Int) -> Bool {
        guard holds(node, write, key) else { return false }
        if promises.level(of: write) != 1 { return true }
        let memory = copies[node].memory
        let isValue = promises.descends(memory.value[key].write, from: write)
        return !isValue || memory.value[key].seqno <= memory.covered
    }

    /// A violation if the promoted copy lacks a write that its level protects.
    mutating func expectNothingLost(by node: Int) {
        for key in 0..<2 {
            let newest = promises.newest[key]
            if newest.isRetired || newest.write == 0 { continue }
            if !holds(node, newest.write, key) { violation = .lost }
        }
    }

    /// Only copies of the chain count: other copies are not queried.
    mutating func noteGains(_ node: Int) {
        guard latest.basis.contains(node) else { return }
        let held = held(node)
        for key in 0..<2 where held.contains(key) { promises.newest[key].lost.remove(node) }
    }

    private mutating func retireIfBeyondPromise(_ key: Int) {
        let newest = promises.newest[key]
        guard newest.lost.count >= newest.need else { return }
        // Persisted to the active copy: the write survives a power cut of all nodes while that disk
        // remains.
        let isOnThatDisk = promises.level(of: newest.write) == 2
        if isOnThatDisk, !newest.lost.contains(newest.committer) { return }
        promises.newest[key].isRetired = true
    }
}
