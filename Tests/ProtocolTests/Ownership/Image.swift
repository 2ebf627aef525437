/// A version of a key: its seqno, and the write that made it.
struct Version: Equatable {
    var seqno: Int32 = 0
    /// The number of the write, 0 for none.
    var write: Int32 = 0
}

/// The progress of a copy: the fence of the branch that contains its covered seqno, then that
/// seqno.
struct Position: Comparable {
    var fence: Int32
    var covered: Int32

    static let void = Position(fence: -1, covered: -1)

    static func < (one: Position, other: Position) -> Bool {
        (one.fence, one.covered) < (other.fence, other.covered)
    }
}

/// The failover log of a copy: at which seqno each fence's branch began, oldest first.
struct BranchLog {
    static let capacity = 12
    private var fences: [12 of Int32]
    private var starts: [12 of Int32]
    private(set) var count = 1

    init() {
        fences = .init(repeating: 1)
        starts = .init(repeating: 0)
    }

    var isFull: Bool { count == Self.capacity }
    var lastFence: Int32 { fences[count - 1] }

    mutating func append(fence: Int32, start: Int32) {
        fences[count] = fence
        starts[count] = start
        count += 1
    }

    /// Keeps the branches that began at or below `covered`.
    mutating func truncate(to covered: Int32) {
        while count > 1, starts[count - 1] > covered { count -= 1 }
    }

    func fence(at covered: Int32) -> Int32 {
        var place = count - 1
        while place > 0, starts[place] > covered { place -= 1 }
        return fences[place]
    }

    /// The end of the branch of `fence` in a history up to `high`; nil if there is no such branch.
    func end(of fence: Int32, high: Int32) -> Int32? {
        for place in 0..<count where fences[place] == fence {
            return place + 1 < count ? starts[place + 1] : high
        }
        return nil
    }

    /// The last seqno that two histories have in common.
    func commonPoint(reaching high: Int32, _ other: BranchLog, reaching otherHigh: Int32) -> Int32 {
        var place = count - 1
        while place >= 0 {
            let end = place + 1 < count ? starts[place + 1] : high
            if let otherEnd = other.end(of: fences[place], high: otherHigh) {
                return min(end, otherEnd)
            }
            place -= 1
        }
        return 0
    }
}

/// The content of a copy, in memory or on disk: two keys, their prepares, and its seqnos.
struct Image {
    var value: [2 of Version]
    var prepare: [2 of Version]
    var high: Int32 = 0
    var covered: Int32 = 0
    var log = BranchLog()
    /// The end of a partly received snapshot, and the fence of its branch; 0 for none.
    var partialEnd: Int32 = 0
    var partialFence: Int32 = 0
    /// A reconcile is incomplete: the content belongs to no history.
    var isVoid = false

    init() {
        value = .init(repeating: Version())
        prepare = .init(repeating: Version())
    }

    var position: Position {
        isVoid ? .void : Position(fence: log.fence(at: covered), covered: covered)
    }

    /// The position as a copy with `mistake` computes it.
    func position(_ mistake: Mistake) -> Position {
        if isVoid { return .void }
        switch mistake {
        case .promotionByHigh: return Position(fence: log.fence(at: high), covered: high)
        case .wholeLogAdopted: return Position(fence: log.lastFence, covered: covered)
        default: return position
        }
    }
}
