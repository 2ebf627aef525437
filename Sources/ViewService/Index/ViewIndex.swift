internal import Bytes
internal import Indexing
package import Persistence
package import ScriptProcesses
internal import Seams
package import Vocabulary

/// One index of this node: follows the changes of the served vBuckets, maps them, and stores the rows.
///
/// `IndexTable` decides which feeds are read and what queries count, `CommitTrigger` when is
/// committed, `MappingQueue` keeps the order of changes, `IndexUpdate` and the trees the rows;
/// `BulkLoad` keeps them while there are no trees yet. The
/// index moves bytes between them: feed → batch → script process → rows → commit.
///
/// - Everything but the wakes of feeds runs on the index's lane.
/// - Rows, documents' entries and positions are one commit, so that a crash neither loses nor doubles
///   a row.
/// - Of the changes of a vBucket whose feed was closed, none that is not committed is applied.
package final class ViewIndex: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Batches in flight: enough that a script process always has a next one.
    static let batchesMax = 4
    /// The same during a bulk load, whose steps take longer than a batch.
    static let loadBatchesMax = 16
    static let retryNanoseconds: UInt64 = 100_000_000
    /// The pause after a commit for which the disk had no room.
    static let diskPauseNanoseconds: UInt64 = 1_000_000_000

    let name: String
    let bucket: String
    let dependencies: Dependencies
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

    /// An index on an open file.
    ///
    /// - Throws: `StorageError` if the stored positions cannot be read.
    package init(
        _ name: String,
        ofBucket bucket: String,
        file: IndexFile,
        function: ScriptFunction,
        dependencies: Dependencies
    ) throws(StorageError) {
        self.name = name
        self.bucket = bucket
        self.dependencies = dependencies
        self.file = file
        self.function = function
        let head = try file.head()
        let (stored, slots, unfinishedCompaction) = try file.readNewest {
            (reads) throws(StorageError) in
            (try reads.vBuckets(), try reads.slots(), try reads.unfinishedCompaction())
        }
        let time = dependencies.environment.time.monotonicNanoseconds()
        let (load, hasOldRuns) = try file.readNewest { (reads) throws(StorageError) in
            try IndexLoad.stored(
                reads,
                head,
                vBuckets: stored,
                limits: dependencies.loadLimits,
                now: time
            )
        }
        var rows: [VBucketID: (home: VBucketHome, position: IndexPosition)] = [:]
        for row in stored { rows[row.id] = (row.home, row.position) }
        for (id, position) in load?.runs.positions ?? [:] { rows[id] = (.filling, position) }
        progress = Progress(
            table: IndexTable(stored: rows),
            slots: SlotAssignment(stored: slots),
            load: load,
            hasOldRuns: hasOldRuns,
            compaction: unfinishedCompaction.map { IndexCompaction($0) }
        )
        if hasOldRuns { removeOldRuns() }
        post(.compaction)
    }

    var now: UInt64 { dependencies.environment.time.monotonicNanoseconds() }

    // MARK: From any thread

    /// Sets the vBuckets that this node serves.
    package func serve(_ vBuckets: Set<VBucketID>) {
        dependencies.lane.post { [self] in
            guard !health.isStopped else { return }
            progress.served = vBuckets
            perform(progress.table.serve(vBuckets))
            endWaits(Array(progress.waiters.vBuckets.subtracting(vBuckets)))
            advance()
        }
    }

    /// Ends the index; its file is closed, and keeps its log if the node stops.
    package func stop(keepsLog: Bool = false) {
        dependencies.lane.post { [self] in
            health.isStopped = true
            alarm.timer?.cancel()
            sources.reads.build = nil
            for feed in sources.feeds.values { feed.feed.close() }
            sources.feeds = [:]
            endAllWaits()
            do throws(StorageError) {
                try file.close(keepsLog: keepsLog)
            } catch {
                dependencies.environment.trace.error("views", "Index \(name): \(error.description)")
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
                closeFeed(of: vBucket)
                pending.completions.remove(vBucket)
            case .remove(let vBucket): pending.removals.append(vBucket)
            case .complete(let vBucket): pending.completions.insert(vBucket)
            case .retry(let vBucket):
                dependencies.lane.post(after: ViewIndex.retryNanoseconds) { [weak self] in
                    guard let self, !health.isStopped else { return }
                    perform(progress.table.retry(vBucket))
                    advance()
                }
            }
        }
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
        if isCollecting { advanceLoad() }
        if isCommitDue { commit() }
        setTimer()
    }

    private var isCommitDue: Bool {
        guard now >= alarm.pausedUntil, !isHoldingCommits else { return false }
        return !pending.removals.isEmpty || !pending.completions.isEmpty
            || progress.trigger.isDue(now)
    }

    private var isHoldingCommits: Bool {
        progress.load != nil || progress.compaction?.holdsCommits == true
            || alarm.checkpoints.holdsCommits
    }

    /// When there is something to store.
    private var dueAt: UInt64 {
        if isCollecting { return loadDueAt }
        // A load, compaction or checkpoint that holds commits calls `advance` at its end.
        guard !isHoldingCommits else { return .max }
        guard pending.removals.isEmpty, pending.completions.isEmpty else { return now }
        return progress.trigger.dueAt ?? .max
    }

    private func setTimer() {
        var due = dueAt
        due = due == .max ? due : max(due, alarm.pausedUntil)
        guard due < alarm.timerAt else { return }
        alarm.timer?.cancel()
        alarm.timerAt = due
        let now = now
        alarm.timer = dependencies.lane.post(after: due > now ? due - now : 0) { [weak self] in
            guard let self else { return }
            alarm.timerAt = .max
            advance()
        }
    }
}

extension IndexVBucket {
    var position: IndexPosition {
        get {
            IndexPosition(
                uuid: uuid,
                seqno: seqno,
                snapshotStart: snapshotStart,
                snapshotEnd: snapshotEnd
            )
        }
        set {
            uuid = newValue.uuid
            seqno = newValue.seqno
            snapshotStart = newValue.snapshotStart
            snapshotEnd = newValue.snapshotEnd
        }
    }
}
