/// Bounds of what changes who holds what: moves, failure detection, failover.
extension Limits {
    /// Copies that a node builds, and that others build from it, at a time: what Couchbase has
    /// where nobody chose, between a disk that idles and one that clients notice.
    package static let movesPerNodeDefault = 4
    /// Couchbase's range for `rebalanceMovesPerNode`.
    package static let movesPerNodeMax = 64
    /// Items that what a node builds, or feeds, may have in all for each of its `movesPerNode`.
    ///
    /// Below it more copies go at a time, because what costs then is not data but entries of the
    /// log: a wave of copies ends before the next one's entry is carried out. What is on its way
    /// between two nodes is bounded by `replicationWindowBytes`, whatever their number.
    package static let lightBuildItems: UInt64 = 4_096
    /// Copies that a node builds, or feeds, at a time, however small: all of a wave's rows are in
    /// one entry of the log, which is worth its commit from a hundred on.
    package static let buildsPerNodeMax = 256
    /// Takeovers that a node takes part in at a time: they share entries of the metadata log, so a
    /// vBucket's writes wait for its own tail and one commit; more of them would only make the
    /// entry longer that all wait for.
    package static let takeOversPerNodeMax = 64
    /// vBuckets that one call has handed over: the slowest tail of them holds all of their writes.
    package static let takeOversPerCallMax = 16
    /// Copies that are built and wait for their chain: they cost a stream each, no disk.
    package static let movesFinishingPerNodeMax = 256

    /// Bytes that a copy may be behind and still count as caught up: some milliseconds of a stream.
    package static let caughtUpLagBytesMax: UInt64 = 64 << 10
    /// The same in changes, where bytes are not known.
    package static let caughtUpLagItemsMax: UInt64 = 100
    /// What a move costs beside its items, in items: two entries of the log, a takeover.
    package static let moveFixedWeight: UInt64 = 200
    /// The active copy lets outstanding prepares finish that long; then it serves again.
    package static let handOverDrainMilliseconds: UInt64 = 250
    /// Between two tries to hand over: those who waited get their turn.
    package static let handOverRetryMilliseconds: UInt64 = 100
    /// After so many tries the prepares that stand in the way end as ambiguous.
    package static let handOverTriesMax = 10
    /// A node that was asked to hand over and says nothing has lost its chance: what it may still
    /// send carries an old fence then.
    package static let handOverSilenceMilliseconds: UInt64 = 2_000
    /// How long a stopped rebalance waits for moves that are in both chains.
    package static let stopWaitMilliseconds: UInt64 = 1_000
    /// Copies that a stopped rebalance leaves half built are kept for a restart.
    package static let keptBuildMilliseconds: UInt64 = 600_000
    /// A move without participants or progress fails after so long.
    package static let moveStalledMilliseconds: UInt64 = 600_000
    /// A rebalance that waits for what only a failed-over node has ends after so long: as long as it
    /// runs nobody can take that node back.
    package static let failedOverWaitMilliseconds: UInt64 = 20_000
    /// So long without a step of any move, and the log says what is waited for.
    package static let rebalanceSilenceMilliseconds: UInt64 = 30_000
    /// Until a paused move is tried again, doubled each time up to the second bound.
    package static let moveRetryMillisecondsMin: UInt64 = 5_000
    package static let moveRetryMillisecondsMax: UInt64 = 60_000

    /// A node that said nothing for so long is suspected: three beats.
    package static let suspectMilliseconds: UInt64 = 300
    /// A node that was down is up after so many beats in a row.
    package static let beatsUntilUp = 3
    /// A node that fell silent and came back so often, within so long, is unstable.
    package static let unstableReturns = 3
    package static let unstableWindowMilliseconds: UInt64 = 60_000
    /// What another node says of its peers counts for so long: it says it with each beat.
    package static let tableFreshMilliseconds: UInt64 = 300
    /// A new leader that has heard of fewer than a majority waits: it may be the one cut off.
    package static let leaderGraceMilliseconds: UInt64 = 10_000
    /// What automatic failover waits for a silent node, in seconds, where nobody chose.
    package static let autoFailoverSecondsDefault = 5
    /// One second is what three beats and an election leave room for; an hour is Couchbase's bound.
    package static let autoFailoverSeconds = 1...3_600
    /// Below three voters nobody can tell a dead peer from a cut link.
    package static let autoFailoverVotersMin = 3
    /// A disk is taken for broken where so many of its commits fail, in percent.
    package static let diskFailuresPercent = 60
}
