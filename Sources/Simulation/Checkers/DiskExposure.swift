package import Vocabulary

/// Whether a run lost more than `persistToMajority` promises to survive: the disks of a majority,
/// and then a process's memory.
///
/// - A failover discards a node's disk. It loses nothing by itself, since it happens only if other
///   copies have everything; but those may have it in memory only.
/// - The promise ends if a process ends while a majority of disks is discarded whose content has
///   not reached the disks of the current copies. The end of a process alone loses no disk.
package struct DiskExposure: Sendable {
    /// A copy's high seqno and persisted seqno.
    package struct Progress: Hashable, Sendable {
        package var high: Seqno
        package var persisted: Seqno

        package init(high: Seqno, persisted: Seqno) {
            self.high = high
            self.persisted = persisted
        }
    }

    /// The losses exceeded the promise at some time.
    package private(set) var isBeyond = false
    /// The number of discarded disks whose content has not reached the disks of current copies.
    package private(set) var givenUp = 0
    private var known = (failovers: 0, ends: 0)
    /// The smallest majority of any vBucket so far.
    private var majority = Int.max
    /// The seqno that each disk must have persisted before the discarded disks no longer count; nil
    /// until everything is whole.
    private var goals: [String: Seqno]?

    package init() {}

    /// Updates the losses with the current counts.
    ///
    /// - Parameters:
    ///   - failovers: The number of failovers since the start.
    ///   - ends: The number of ended processes since the start.
    ///   - majority: The smallest majority of any vBucket now.
    ///   - copies: The progress of all current copies by place; nil unless everything is whole
    ///     (`Exposure`).
    package mutating func update(
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
