/// A row that waits for its mark, or that was delivered and is in the ring.
struct Row {
    /// 0 for none.
    var sequence: Int32 = 0
    var key: Int8 = 0
    var place: Int16 = 0
    var granted: Int32 = 0
}

/// The side of a node that reads all vBuckets and delivers one ordered feed.
struct Collector {
    static let rowsMax = 160

    /// Everything through this sequence is delivered, or below the ring.
    var position: Int32 = 0
    /// The position at which the collector started.
    var origin: Int32 = 0
    /// Marks have reached the origin.
    var isConfirmed = true
    var floor: [4 of Int32]
    /// When each floor's node became a member.
    var memberSince: [4 of Int16]
    /// The mark through which each vBucket is complete; 0 for none.
    var mark: [3 of Int32]
    var stream: [3 of Int16]
    var owner: [3 of Int8]
    var fence: [3 of Int16]
    /// By key: the newest version above the position.
    var waiting: [9 of Row]
    /// The grant in the newest received version of the principal; 0 for none.
    var granted: Int32 = 0
    var ring = Ring()
    /// The place after each document's newest delivered version; 0 for none.
    var newest: [9 of Int16]

    init() {
        floor = .init(repeating: 0)
        memberSince = .init(repeating: 0)
        mark = .init(repeating: 0)
        stream = .init(repeating: 0)
        owner = .init(repeating: 0)
        fence = .init(repeating: -1)
        waiting = .init(repeating: Row())
        newest = .init(repeating: 0)
    }

    /// The grant, if the feed has reached it.
    var appliedGrant: Int32 { granted <= position ? granted : 0 }

    var highestWaiting: Int32 {
        var highest: Int32 = 0
        for key in 0..<9 { highest = max(highest, waiting[key].sequence) }
        return highest
    }

    /// The waiting row with the lowest sequence through `end`; nil if there is none.
    func firstWaiting(through end: Int32) -> Row? {
        var first: Row?
        for key in 0..<9 where waiting[key].sequence > 0 && waiting[key].sequence <= end {
            if waiting[key].sequence < first?.sequence ?? .max { first = waiting[key] }
        }
        return first
    }

    mutating func beginStream(_ vBucket: Int, number: Int16, owner node: Int8, fence: Int16) {
        stream[vBucket] = number
        owner[vBucket] = node
        self.fence[vBucket] = fence
        mark[vBucket] = 0
        for key in vBucket * 3..<vBucket * 3 + 3 { waiting[key] = Row() }
    }
}

/// The delivered rows in order of sequence, from a start on.
struct Ring {
    /// Every delivered row above it is in the ring.
    private(set) var start: Int32 = 0
    private var rows: [Row]
    private(set) var count = 0

    init(start: Int32 = 0) {
        rows = .init(repeating: Row(), count: Collector.rowsMax)
        self.start = start
    }

    /// The rest is for the end of the walk.
    var isAlmostFull: Bool { count >= Collector.rowsMax - 40 }
    var isFull: Bool { count == Collector.rowsMax }

    subscript(place: Int) -> Row { rows[place] }

    mutating func append(_ row: Row) {
        rows[count] = row
        count += 1
    }

    mutating func drop(through end: Int32) {
        guard end > start else { return }
        start = end
        var kept = 0
        for place in 0..<count where rows[place].sequence > end {
            rows[kept] = rows[place]
            kept += 1
        }
        count = kept
    }
}
