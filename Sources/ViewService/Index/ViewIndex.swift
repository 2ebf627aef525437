internal import Bytes
package import Indexing
package import Persistence
package import Seams
package import Vocabulary
internal import Wire

/// One index of this node: follows the changes of the served vBuckets, maps them, and stores the rows.
///
/// `IndexTable` decides which feeds are read and what queries count, `CommitTrigger` when is
/// committed, `MappingQueue` keeps the order of changes, `IndexUpdate` and the trees the rows. The
/// index moves bytes between them: feed → batch → script process → rows → commit.
///
/// - Everything but the wakes of feeds runs on the index's lane.
/// - Rows, documents' entries and positions are one commit, so that a crash neither loses nor doubles
///   a row.
/// - Of the changes of a vBucket whose feed was closed, none that is not committed is applied.
package final class ViewIndex: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// What an index needs of its node.
    package struct Surroundings: Sendable {
        let environment: Environment
        let changes: any DocumentChanges
        let scripts: ScriptPool
        let lane: any Lane
        /// Where the write-ahead log is copied.
        var checkpoints: any Lane
        /// Limits how many indexes are built at a time; an index alone is not limited.
        var builds = IndexBuilds(.max)
        var collations = Collations()
        /// Called on `lane` when the index has become of no use.
        var failed: @Sendable (StorageError) -> Void = { _ in }

        /// The surroundings of an index; `lane` is where it works.
        package init(
            environment: Environment,
            changes: any DocumentChanges,
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

    /// Batches in flight: enough that a script process always has a next one.
    static let batchesMax = 4
    static let retryNanoseconds: UInt64 = 100_000_000
    /// The pause after a commit for which the disk had no room.
    static let diskPauseNanoseconds: UInt64 = 1_000_000_000

    let name: String
    let bucket: String
    let surroundings: Surroundings
    package let file: IndexFile
    let function: ScriptFunction
    var progress: Progress
    var sources = Sources()
    /// vBuckets whose feeds may have records; shared with the threads that wake them.
    let ready = Guarded(ReadyFeeds())
    var pending = Pending()
    var alarm = Alarm()
    var health = Health()
    let shared = Guarded(Shared())

    /// How far the index is, and the queries that wait for it.
    struct Progress {
        var table: IndexTable
        var slots: IndexSlots
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
        /// What to call when the wait ends.
        let done: @Sendable (FreshnessWaiters.Outcome) -> Void
    }

    /// The open feeds, and whether they are read.
    struct Sources {
        var feeds: [VBucketID: Feed] = [:]
        var feedNumbers: UInt64 = 0
        var reads = Reads()
    }

    /// What is read and not committed.
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
        /// Whether a timer calls `tick`.
        var isTicking = false
        var checkpoints = CheckpointPlan()
    }

    /// What went wrong.
    struct Health {
        var errors = ScriptErrors()
        var runaway = RunawayRule()
        /// Why the index cannot be used; a sentence for an operator.
        var failure: String?
        var isStopped = false
    }

    /// What other threads read without a turn on the lane.
    struct Shared {
        /// Why the index gets no further changes: a sentence.
        var fault: String?
        /// The numeric slots in which no result is missing.
        var completeSlots: Set<IndexSlotID> = []
        /// What the newest commit that a query has read has; nil before the first query.
        var contents: IndexContents?
        /// What queries have read of the upper levels of the main tree.
        let innerNodes = InnerNodes()
        /// Whether changes are read in steps, not all the time.
        var updatesInSteps = false
    }

    /// An index on an open file.
    ///
    /// - Throws: `StorageError` if the stored positions cannot be read.
    package init(
        _ name: String,
        ofBucket bucket: String,
        _ file: IndexFile,
        _ function: ScriptFunction,
        _ surroundings: Surroundings
    ) throws(StorageError) {
        self.name = name
        self.bucket = bucket
        self.surroundings = surroundings
        self.file = file
        self.function = function
        let (stored, slots, remains) = try file.readNewest { (reads) throws(StorageError) in
            (try reads.vBuckets(), try reads.slots(), try reads.remains())
        }
        var rows: [VBucketID: (home: VBucketHome, position: IndexPosition)] = [:]
        for row in stored { rows[row.id] = (row.home, row.position) }
        progress = Progress(
            table: IndexTable(stored: rows),
            slots: IndexSlots(stored: slots),
            compaction: remains.map { IndexCompaction($0) }
        )
        postCompactionStep(after: 0)
    }

    var now: UInt64 { surroundings.environment.time.monotonicNanoseconds() }

    // MARK: From any thread

    /// Sets the vBuckets that this node serves.
    package func serve(_ vBuckets: Set<VBucketID>) {
        surroundings.lane.post { [self] in
            guard !health.isStopped else { return }
            progress.served = vBuckets
            perform(progress.table.serve(vBuckets))
            endWaits(Array(progress.waiters.vBuckets.subtracting(vBuckets)))
            advance()
        }
    }

    /// Calls `done` on the index's lane when the index has everything through `vector`.
    ///
    /// If the wait ends with `ended`, `fault` has the cause, unless the index was stopped. A wait that
    /// `isWanted` does not want any more is forgotten without a call.
    package func whenFresh(
        _ vector: [VBucketID: AwaitedChange],
        isWanted: @escaping @Sendable () -> Bool = { true },
        done: @escaping @Sendable (FreshnessWaiters.Outcome) -> Void
    ) {
        surroundings.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else {
                return done(.ended)
            }
            forgetUnwantedWaits()
            guard let number = progress.waiters.add(vector, progress.table) else {
                return done(.fresh)
            }
            // The history was replaced since the query read its newest change, or the index has not
            // noticed yet that it was.
            let replaced = vector.first { progress.table.follows($0.key, otherThan: $0.value) }
            if let replaced {
                progress.waiters.remove(number)
                return done(.moved(replaced.key))
            }
            // The index reads no change any more.
            guard health.runaway.cause == nil else {
                progress.waiters.remove(number)
                return done(.ended)
            }
            progress.waiting[number] = Wait(isWanted: isWanted, done: done)
            advance()
        }
    }

    /// Ends the index; its file is closed.
    package func stop() {
        surroundings.lane.post { [self] in
            health.isStopped = true
            alarm.timer?.cancel()
            sources.reads.build = nil
            for feed in sources.feeds.values { feed.feed.close() }
            sources.feeds = [:]
            endAllWaits()
            do throws(StorageError) {
                try file.close()
            } catch {
                surroundings.environment.trace.error("views", "Index \(name): \(error.description)")
            }
        }
    }

    // MARK: Steps

    /// Carries out decisions of the table.
    func perform(_ actions: [IndexTable.Action]) {
        for action in actions {
            switch action {
            case .open(let vBucket, let position): open(vBucket, position)
            case .close(let vBucket):
                sources.feeds.removeValue(forKey: vBucket)?.feed.close()
                pending.completions.remove(vBucket)
            case .remove(let vBucket): pending.removals.append(vBucket)
            case .complete(let vBucket): pending.completions.insert(vBucket)
            case .retry(let vBucket):
                surroundings.lane.post(after: ViewIndex.retryNanoseconds) { [weak self] in
                    guard let self, !health.isStopped else { return }
                    perform(progress.table.retry(vBucket))
                    advance()
                }
            }
        }
    }

    private func open(_ vBucket: VBucketID, _ position: IndexPosition) {
        // Most wakes need no post, and so no reference to the index.
        let ready = ready
        let opening = surroundings.changes.openFeed(
            of: vBucket,
            ofBucket: bucket,
            at: position,
            wake: { [weak self] in
                guard let posting = ready.withLock({ $0.wake(vBucket) }) else { return }
                self?.post(posting)
            }
        )
        switch opening {
        case .opened(let feed, let high, let uuid):
            var position = position
            position.uuid = uuid
            sources.feedNumbers += 1
            sources.feeds[vBucket] = Feed(
                feed: feed,
                read: ReadPosition(position),
                number: sources.feedNumbers
            )
            perform(progress.table.opened(vBucket, .opened(high: high, uuid: uuid)))
            // The copy may have nothing new, so that no commit follows.
            endWaits([vBucket])
            wake(vBucket)
            startTicking()
        case .rollBack: perform(progress.table.opened(vBucket, .rollBack))
        case .unavailable: perform(progress.table.opened(vBucket, .unavailable))
        }
    }

    /// A feed may have records.
    func wake(_ vBucket: VBucketID) {
        if let posting = ready.withLock({ $0.wake(vBucket) }) { post(posting) }
    }

    /// Posts a read; called from any thread.
    private func post(_ posting: ReadyFeeds.Posting) {
        switch posting {
        case .atOnce: surroundings.lane.post { [weak self] in self?.readPosted(posting) }
        case .afterPause:
            surroundings.lane.post(after: ReadyFeeds.pauseNanoseconds) { [weak self] in
                self?.readPosted(posting)
            }
        }
    }

    private func readPosted(_ posting: ReadyFeeds.Posting) {
        // Before the feeds are read: what wakes from now on may come too late for this read.
        if ready.withLock({ $0.readBegins(posting) }) { post(.afterPause) }
        advance()
    }

    /// Reads, commits if that is due, and sets the timer.
    func advance() {
        guard !health.isStopped, health.failure == nil else { return }
        let isWaitedFor = !progress.waiters.isEmpty
        let isFilling = !progress.table.isReady
        progress.trigger.isBuilding = isFilling
        progress.trigger.isAwaited = isWaitedFor && (!isFilling || isAnyWaitEndable)
        // Before the feeds are read: later wakes must not wait for a delayed read.
        let isHurried = isWaitedFor || isFilling
        ready.withLock { $0.isHurried = isHurried }
        read()
        // Without a batch in flight nothing more is to be read, or a commit is due.
        progress.trigger.isBuilding = isFilling && pending.queue.count > 0
        progress.trigger.isAwaited =
            isWaitedFor && (!progress.trigger.isBuilding || isAnyWaitEndable)
        if isCommitDue { commit() }
        setTimer()
    }

    private var isCommitDue: Bool {
        guard now >= alarm.pausedUntil, !isHoldingCommits else { return false }
        return !pending.removals.isEmpty || !pending.completions.isEmpty
            || progress.trigger.isDue(now)
    }

    private var isHoldingCommits: Bool {
        progress.compaction?.holdsCommits == true || alarm.checkpoints.holdsCommits
    }

    private func setTimer() {
        // What holds commits calls `advance` at its end.
        guard !isHoldingCommits else { return }
        var due = progress.trigger.dueAt ?? .max
        if !pending.removals.isEmpty || !pending.completions.isEmpty { due = now }
        due = due == .max ? due : max(due, alarm.pausedUntil)
        guard due < alarm.timerAt else { return }
        alarm.timer?.cancel()
        alarm.timerAt = due
        let now = now
        alarm.timer = surroundings.lane.post(after: due > now ? due - now : 0) { [weak self] in
            guard let self else { return }
            alarm.timerAt = .max
            advance()
        }
    }

    /// Ends the waits that the change of these vBuckets ends.
    func endWaits(_ vBuckets: [VBucketID]) {
        guard !progress.waiters.isEmpty, !vBuckets.isEmpty else { return }
        for (number, outcome) in progress.waiters.changed(
            vBuckets,
            progress.table,
            isServed: progress.served.contains
        ) {
            progress.waiting.removeValue(forKey: number)?.done(outcome)
        }
    }

    /// Queries that have ended leave waits, which no change ends while a vBucket cannot be read.
    private func forgetUnwantedWaits() {
        for (number, wait) in progress.waiting where !wait.isWanted() {
            progress.waiting[number] = nil
            progress.waiters.remove(number)
        }
    }
}

extension IndexVBucket {
    var position: IndexPosition {
        IndexPosition(
            uuid: uuid,
            seqno: seqno,
            snapshotStart: snapshotStart,
            snapshotEnd: snapshotEnd
        )
    }
}
