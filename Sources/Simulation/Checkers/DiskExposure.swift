package import Vocabulary

/// Whether more was lost than `persistToMajority` promises to survive: as many disks as a majority
/// is, and then a memory.
///
/// - A failover gives up a node's disk. By itself it loses nothing, however many there are, for it
///   happens only where others have everything; but they may have that in memory alone.
/// - So what ends the promise is the end of a process while so many disks are given up, of which
///   nothing has reached the disks of those that count now. An end by itself loses no disk.
package struct DiskExposure: Sendable {
    /// How far one copy is, and how much of that is on its disk.
    package struct Progress: Hashable, Sendable {
        package var high: Seqno
        package var persisted: Seqno

        package init(high: Seqno, persisted: Seqno) {
            self.high = high
            self.persisted = persisted
        }
    }

    /// It happened, at some time.
    package private(set) var isBeyond = false
    /// Disks of which not everything has reached others.
    package private(set) var givenUp = 0
    private var known = (failovers: 0, ends: 0)
    /// The smallest there ever was.
    private var majority = Int.max
    /// What has to be on which disk, until all is there that was when everything was whole.
    private var goals: [String: Seqno]?

    package init() {}

    /// - Parameters:
    ///   - failovers: Since the beginning, as are `ends`.
    ///   - ends: Of processes.
    ///   - majority: The smallest of any vBucket now.
    ///   - copies: All that count, by their place; nil unless everything is whole (`Exposure`).
    package mutating func look(
        failovers: Int,
        ends: Int,
        majority: Int,
        _ copies: () -> [String: Progress]?
    ) {
        self.majority = min(self.majority, majority)
        givenUp += failovers - known.failovers
        if ends > known.ends, givenUp >= self.majority { isBeyond = true }
        let isNews = known != (failovers, ends)
        known = (failovers, ends)
        guard !isNews, givenUp > 0, let now = copies() else {
            goals = nil
            return
        }
        guard let goals, goals.keys.allSatisfy({ now[$0] != nil }) else {
            goals = now.mapValues(\.high)
            return
        }
        let isOnDisk = goals.allSatisfy { place, goal in
            now[place].map { $0.persisted >= goal } ?? false
        }
        if isOnDisk { givenUp = 0 }
    }
}
