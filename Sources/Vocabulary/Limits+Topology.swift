/// Bounds of topology changes: moves, failure detection, failover.
extension Limits {
    /// Copies that a node builds, and copies that other nodes build from it, at a time.
    ///
    /// Couchbase's default. Fewer leave the disk idle; more slow clients down.
    package static let movesPerNodeDefault = 4
    /// Items, per `movesPerNode`, of all copies that a node builds (or feeds) at a time.
    ///
    /// While they have fewer, more copies are built at a time: small copies cost log entries, not
    /// data, and a wave of them ends before the next wave's entry is applied. Bytes in flight
    /// between two nodes stay bounded by `replicationWindowBytes`, whatever the number of copies.
    package static let lightBuildItems: UInt64 = 4_096
    /// Copies that a node builds, or feeds, at a time, however small: one log entry has all rows of
    /// a wave, and its commit pays off from about a hundred rows on.
    package static let buildsPerNodeMax = 256
    /// Takeovers at a time in which a node takes part.
    ///
    /// They share entries of the metadata log, so a vBucket's writes wait for the rest of its own
    /// stream and one commit. More takeovers would only lengthen the shared entry.
    package static let takeOversPerNodeMax = 64
    /// vBuckets handed over by one call: writes of all of them wait for the slowest.
    package static let takeOversPerCallMax = 16
    /// Built copies that are not in their chain yet: each costs a stream, no disk work.
    package static let movesFinishingPerNodeMax = 256

    /// A copy counts as caught up if it lags by at most this many changes.
    package static let caughtUpLagItemsMax: UInt64 = 100
    /// A move's fixed cost (two log entries, a takeover), as a number of items.
    package static let moveFixedWeight: UInt64 = 200
    /// The pause between two attempts to hand over, in which waiting writes proceed.
    package static let handOverRetryMilliseconds: UInt64 = 100
    /// After this many attempts, prepares that block the hand-over end as ambiguous.
    package static let handOverTriesMax = 10
    /// A hand-over fails if the node does not answer for this long: a later answer carries an old
    /// fence and is ignored.
    package static let handOverSilenceMilliseconds: UInt64 = 2_000
    /// How long a stopped rebalance waits for moves in their joint phase (both chains count).
    package static let stopWaitMilliseconds: UInt64 = 1_000
    /// How long the unfinished copies of a stopped rebalance are kept for the next rebalance.
    package static let keptBuildMilliseconds: UInt64 = 600_000
    /// A move without participants or progress fails after this long.
    package static let moveStalledMilliseconds: UInt64 = 600_000
    /// A rebalance that waits for data which only a failed-over node has fails after this long: the
    /// node cannot be recovered while a rebalance runs.
    package static let failedOverWaitMilliseconds: UInt64 = 20_000
    /// Log the blocking condition after this long without progress of any move.
    package static let rebalanceSilenceMilliseconds: UInt64 = 30_000
    /// The delay before a paused move is retried; it doubles each time, up to the second bound.
    package static let moveRetryMillisecondsMin: UInt64 = 5_000
    package static let moveRetryMillisecondsMax: UInt64 = 60_000

    /// A node is suspected after this long without a beat from it: three beats.
    package static let suspectMilliseconds: UInt64 = 300
    /// A node whose machine refuses connections is not down before this time: its process may start again.
    package static let goneMilliseconds: UInt64 = 1_000
    /// A node that was down counts as up after this many beats in a row.
    package static let beatsUntilUp = 3
    /// A node that went down and up again this often, within the window below, is unstable.
    package static let unstableReturns = 3
    package static let unstableWindowMilliseconds: UInt64 = 60_000
    /// A node's report on its peers is valid for this long; each beat brings a new one.
    package static let tableFreshMilliseconds: UInt64 = 300
    /// A new leader without beats from a majority waits this long: it may itself be disconnected.
    package static let leaderGraceMilliseconds: UInt64 = 10_000
    /// With fewer than three voters, no node can tell a dead peer from a broken link.
    package static let autoFailoverVotersMin = 3
}
