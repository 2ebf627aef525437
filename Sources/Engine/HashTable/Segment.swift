internal import Bytes

/// A run of slots in groups of eight, one cache line each, in the order of their hashes.
///
/// A document lives in its home group, or in the next one after it that had room. There is no
/// wrap-around: a few groups behind the last take what overflows, so position is hash order from
/// end to end and a visitor's place can be a hash.
///
/// - A group that is not full ends a search: no entry ever passed it.
struct Segment {
    /// Header of one line: group count, then the groups.
    let base: UnsafeMutableRawPointer

    private static let headerBytes = 64
    static let groupBytes = 64
    static let slotsPerGroup = 8
    /// Groups behind the last home group: enough that overflowing them all means "grow".
    private static let spareGroups = 2

    init(_ base: UnsafeMutableRawPointer) {
        self.base = base
    }

    static func make(groups: Int) -> Segment {
        let segment = Segment(Memory.allocateLines(bytes(groups: groups)))
        segment.base.storeBytes(of: UInt64(groups), as: UInt64.self)
        return segment
    }

    static func bytes(groups: Int) -> Int { headerBytes + (groups + spareGroups) * groupBytes }

    func free() { Memory.free(base) }

    /// Groups that are the home of a hash.
    @inline(__always)
    var groups: Int { Int(base.load(as: UInt64.self)) }

    var groupsWithSpares: Int { groups + Segment.spareGroups }

    /// How many bits below the directory's decide a home: 8 more than the largest segment has groups
    /// for, so homes are even, and few enough that nothing more of a hash need be kept.
    static let homeBits: UInt64 = 20

    /// Where the hash bits below the directory's place a document.
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

    /// Whether something may have had to go past the group at `index`.
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

    /// Puts a slot where it belongs; false where it and all groups after it are full.
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

    /// Frees the slot at (`index`, `place`) and pulls back what had to pass its group.
    ///
    /// What passed may lie beyond the next group, behind entries that are at home there: the whole
    /// run of full groups is looked through, or a search that now ends early would miss it.
    ///
    /// - Parameters:
    ///   - index: The group.
    ///   - place: The place in it.
    ///   - position: Says a slot's position bits, which takes a look at its key.
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

    /// The first entry behind the group `hole` that would have liked to be in it.
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
