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

    /// Groups that are somebody's home.
    @inline(__always)
    var groups: Int { Int(base.load(as: UInt64.self)) }

    var groupsWithSpares: Int { groups + Segment.spareGroups }

    /// Where the hash bits below the directory's place a document.
    @inline(__always)
    func home(_ position: UInt64) -> Int { Int((position >> 32) * UInt64(groups) >> 32) }

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

    /// Frees the slot at (`index`, `place`) and pulls back one that had to pass its group.
    ///
    /// - Parameters:
    ///   - index: The group.
    ///   - place: The place in it.
    ///   - position: Says a slot's position bits, which takes a look at its key.
    func remove(_ index: Int, _ place: Int, position: (Slot) -> UInt64) {
        var (hole, hollow) = (index, place)
        while true {
            let line = group(hole)
            let wasFull = (0..<Segment.slotsPerGroup).allSatisfy { line[$0] != 0 }
            SharedWord(at: line + hollow).store(0)
            guard wasFull, hole + 1 < groupsWithSpares else { return }
            let next = group(hole + 1)
            let passed = (0..<Segment.slotsPerGroup).first { candidate in
                next[candidate] != 0 && home(position(Slot(next[candidate]))) <= hole
            }
            guard let passed else { return }
            SharedWord(at: line + hollow).store(next[passed])
            (hole, hollow) = (hole + 1, passed)
        }
    }
}
