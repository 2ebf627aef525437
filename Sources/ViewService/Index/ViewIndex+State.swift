internal import Bytes
package import Indexing
internal import Persistence
package import ScriptProcesses
internal import Scripting
package import Seams
internal import Vocabulary

/// The parts of an index's state, each of one concern.
extension ViewIndex {
    /// The node's services, lanes and settings that an index uses.
    package struct Dependencies: Sendable {
        let environment: Environment
        let changes: any DocumentChangePort
        let scripts: ScriptPool
        let lane: any Lane
        /// Where the write-ahead log is copied.
        var checkpoints: any Lane
        /// Limits how many indexes are built at a time; an index alone is not limited.
        var builds = IndexBuilds(.max)
        var collations = CollationPool()
        /// Sizes and times of a first build.
        package var loadLimits = BulkLoad.Limits()
        /// Whether tombstones with extended attributes are mapped.
        package var mapsTombstones = false
        /// Called on `lane` once a second while the index is open.
        var ticked: @Sendable (_ isQuiet: Bool) -> Void = { _ in }
        /// Called on `lane` when the index has become of no use.
        var failed: @Sendable (StorageError) -> Void = { _ in }

        /// The dependencies of an index; `lane` is where it works.
        package init(
            environment: Environment,
            changes: any DocumentChangePort,
            scripts: ScriptPool,
            lane: any Lane
        ) {
            self.environment = environment
            self.changes = changes
            self.scripts = scripts
            self.lane = lane
            checkpoints = lane
        }
    }

    /// The feed of one vBucket.
    struct Feed {
        var feed: any ChangeFeed
        var read: ReadPosition
        /// Different for every feed of the index: tells late results of a closed feed.
        let number: UInt64
    }

    /// A batch that is being mapped, with the numbers of the feeds that it was read from.
    struct Reading {
        let batch: ChangeBatch
        let feeds: [VBucketID: UInt64]
    }

    /// How far the index is, and the queries that wait for it.
    struct Progress {
        var table: IndexTable
        var slots: SlotAssignment
        /// Nil unless the index is being built and has no trees yet.
        var load: IndexLoad?
        /// Whether the file has runs that are of no use any more.
        var hasOldRuns: Bool
        /// Nil while there is none.
        var compaction: IndexCompaction?
        var trigger = CommitTrigger()
        var waiters = FreshnessWaiters()
        /// By the waiter's number.
        var waiting: [UInt64: Wait] = [:]
        /// The vBuckets that this node serves.
        var served: Set<VBucketID> = []
    }

    /// A query that waits for changes.
    struct Wait {
        let isWanted: @Sendable () -> Bool
        /// Called when the wait ends.
        let done: @Sendable (FreshnessWaiters.Outcome) -> Void
    }

    /// The open feeds, and whether they are read.
    struct Sources {
        var feeds: [VBucketID: Feed] = [:]
        var feedNumbers: UInt64 = 0
        var reads = Reads()
    }

    /// Uncommitted work: changes that were read, and vBuckets to remove or complete.
    struct Pending {
        var queue = MappingQueue<Reading, ScriptResults>()
        var mapped: [(Reading, ScriptResults)] = []
        /// vBuckets whose rows are being removed.
        var removals: [VBucketID] = []
        /// vBuckets to be stored as complete although no change of them is pending.
        var completions: Set<VBucketID> = []
        /// Documents whose rows the commit in progress refuses.
        var refused: [ScriptErrors.Entry] = []
    }

    /// When the index acts next without an event.
    struct Alarm {
        var timer: LaneTimer?
        var timerAt: UInt64 = .max
        /// No commit before this time: the disk was full.
        var pausedUntil: UInt64 = 0
        /// Work whose next step is posted.
        var posted: Set<SteppedWork> = []
        /// Whether a timer calls `tick`.
        var isTicking = false
        var checkpoints = CheckpointPlan()
    }

    /// The errors of the index, and whether it has failed or stopped.
    struct Health {
        var errors = ScriptErrors()
        var runaway = RunawayRule()
        /// Why the index cannot be used; a sentence for an operator.
        var failure: String?
        var isStopped = false
    }

    /// State that other threads read without a turn on the lane.
    struct Shared {
        /// Why the index gets no further changes: a sentence.
        var fault: String?
        /// The numeric slots in which no result is missing.
        var completeSlots: Set<IndexSlotID> = []
        /// The contents of the newest commit that queries have read; nil before the first and when freed.
        var contents: IndexContents?
        /// The nodes of the main tree's upper levels that queries have read.
        let innerNodes = KeptNodes(.innerNodes)
        /// The leaves of the main tree that short queries have read lately.
        let recentLeaves = KeptNodes(.recentLeaves)
        /// When both are freed.
        var idle = IdleRule()
        /// Whether changes are read in steps, not all the time.
        var updatesInSteps = false
    }
}

/// Whether an index has nothing to do, so that its file can be closed; on the index's lane.
extension ViewIndex {
    /// Whether nothing is read, mapped, stored, copied or awaited, and nothing was read since the last tick.
    var isQuiet: Bool {
        guard !health.isStopped, health.failure == nil, health.runaway.cause == nil else {
            return false
        }
        let isBuilt =
            progress.table.isReady && progress.load == nil && !progress.hasOldRuns
            && progress.compaction == nil && !alarm.posted.contains(.slots)
        let isStored =
            pending.queue.count == 0 && pending.mapped.isEmpty && pending.removals.isEmpty
            && pending.completions.isEmpty && progress.trigger.isEmpty
        return isBuilt && isStored && !sources.reads.isActive && sources.reads.build == nil
            && progress.waiters.isEmpty && !alarm.checkpoints.isRunning && !file.isBeingRead
            && ready.withLock { $0.isEmpty }
    }

    /// Whether the index has every change that is visible now.
    var hasEveryChange: Bool {
        let served = Array(progress.served)
        let highs = dependencies.changes.highVisible(of: served, ofBucket: bucket)
        return highs.count == served.count
            && highs.allSatisfy { progress.table.has($0.key, $0.value) }
    }

    /// Continues the counts of an index that rested meanwhile; before the index is used.
    func resume(_ health: Health) { self.health = health }
}
