internal import Bytes

/// A run of slots in groups of eight, one cache line each, in the order of their hashes.
///
/// A document lies in its home group, or in the first later group that had room. There is no
/// wrap-around: a few spare groups after the last hold the overflow. So documents are in hash order
/// from end to end, and a visit's position can be a hash.
///
/// - A group that is not full ends a search: no entry was moved past it.
struct Segment {
    /// Header of one line: group count, then the groups.
    let base: UnsafeMutableRawPointer

    private static let headerBytes = 64
    static let groupBytes = 64
    static let slotsPerGroup = 8
    /// Groups after the last home group.
    ///
    /// If an entry overflows them all, the segment grows.
    private static let spareGroups = 2

    static func make(groups: Int) -> Segment {
        let segment = Segment(base: Memory.allocateLines(bytes(groups: groups)))
        segment.base.storeBytes(of: UInt64(groups), as: UInt64.self)
        return segment
    }

    static func bytes(groups: Int) -> Int { headerBytes + (groups + spareGroups) * groupBytes }

    func free() { Memory.free(base) }

    /// The number of home groups, without spare groups.
    @inline(__always)
    var groups: Int { Int(base.load(as: UInt64.self)) }

    var groupsWithSpares: Int { groups + Segment.spareGroups }

    /// The number of hash bits below the directory's bits that determine a home: 8 more than the
    /// largest segment needs, so that homes are evenly distributed, and few enough for stubs.
    static let homeBits: UInt64 = 20

    /// The home group of `position`, the hash bits below the directory's bits.
    @inline(__always)
    func home(_ position: UInt64) -> Int {
        // The parentheses matter: in Swift a shift binds tighter than a product.
        Int(((position >> (64 - Segment.homeBits)) * UInt64(groups)) >> Segment.homeBits)
    }

    /// The lowest position whose home is `index`.
    func lowestPosition(ofHome index: Int) -> UInt64 {
        let groups = UInt64(groups)
        return ((UInt64(index) << Segment.homeBits + groups - 1) / groups)
            << (64 - Segment.homeBits)
    }

    /// Whether the group at `index` is full, so that entries may have been moved past it.
    @inline(__always)
    func isFull(_ index: Int) -> Bool {
        let line = group(index)
        return (0..<Segment.slotsPerGroup).allSatisfy { line[$0] != 0 }
    }

    @inline(__always)
    func group(_ index: Int) -> UnsafeMutablePointer<UInt64> {
        (base + Segment.headerBytes + index * Segment.groupBytes)
            .assumingMemoryBound(to: UInt64.self)
    }

    /// Inserts a slot at its home or after it; false if all these groups are full.
    func insert(_ slot: Slot, position: UInt64) -> Bool {
        for index in home(position)..<groupsWithSpares {
            let group = group(index)
            for place in 0..<Segment.slotsPerGroup where group[place] == 0 {
                SharedWord(at: group + place).store(slot.word)
                return true
            }
        }
        return false
    }

    /// Frees the slot at (`index`, `place`) and moves back an entry that had overflowed its group.
    ///
    /// That entry may lie after the next group, behind entries with a home there. So the whole run
    /// of full groups is searched; otherwise a lookup that now ends early would miss the entry.
    ///
    /// - Parameters:
    ///   - index: The group.
    ///   - place: The place in it.
    ///   - position: Returns a slot's position bits; reads its key.
    func remove(_ index: Int, _ place: Int, position: (Slot) -> UInt64) {
        var (hole, hollow) = (index, place)
        while true {
            let wasFull = isFull(hole)
            let line = group(hole)
            SharedWord(at: line + hollow).store(0)
            guard wasFull, let passed = firstPassed(hole, position) else { return }
            SharedWord(at: line + hollow).store(group(passed.group)[passed.place])
            (hole, hollow) = passed
        }
    }

    /// The first entry after the group `hole` whose home is at or before it.
    private func firstPassed(
        _ hole: Int,
        _ position: (Slot) -> UInt64
    ) -> (group: Int, place: Int)? {
        for index in hole + 1..<groupsWithSpares {
            let line = group(index)
            for place in 0..<Segment.slotsPerGroup
            where line[place] != 0 && home(position(Slot(line[place]))) <= hole {
                return (index, place)
            }
            if !isFull(index) { return nil }
        }
        return nil
    }
}
