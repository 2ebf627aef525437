/// Which lane an index works on: one of its own as long as there are few, else the least used one.
///
/// A node may have hundreds of indexes, and a thread for each would cost memory and file
/// descriptors for nothing: at most as many of them work at a time as there are processors.
package struct LaneShares: Sendable {
    private let lanesMax: Int
    /// By lane: the indexes that work on it; 0 for a lane that does not exist.
    private var users: [Int] = []

    /// At most `lanesMax` lanes, at least one.
    package init(lanesMax: Int) { self.lanesMax = max(1, lanesMax) }

    /// Adds an index.
    ///
    /// - Returns: The number of its lane, and whether the lane has to be made.
    package mutating func acquire() -> (lane: Int, isNew: Bool) {
        if let free = users.firstIndex(of: 0) {
            users[free] = 1
            return (free, true)
        }
        guard users.count == lanesMax, let least = users.indices.min(by: { users[$0] < users[$1] })
        else {
            users.append(1)
            return (users.count - 1, true)
        }
        users[least] += 1
        return (least, false)
    }

    /// Removes an index from its lane.
    ///
    /// - Returns: Whether the lane ends, as no index works on it any more.
    package mutating func release(_ lane: Int) -> Bool {
        users[lane] -= 1
        return users[lane] == 0
    }
}
