internal import Bytes
package import Indexing
internal import JSON
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
/// - Everything but `wake` runs on the index's lane.
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

    let name: String
    let bucket: String
    let surroundings: Surroundings
    package let file: IndexFile
    let function: ScriptFunction
    let collation: Collation
    var table: IndexTable
    var trigger: CommitTrigger
    var waiters = FreshnessWaiters()
    var waiting: [UInt64: @Sendable (FreshnessWaiters.Outcome) -> Void] = [:]
    var served: Set<VBucketID> = []
    var feeds: [VBucketID: Feed] = [:]
    var feedNumbers: UInt64 = 0
    /// vBuckets whose feeds may have records; shared with the threads that wake them.
    let ready = Guarded(ReadyFeeds())
    var queue = MappingQueue<Reading, ScriptResults>()
    /// Mapped batches that are not committed.
    var mapped: [(Reading, ScriptResults)] = []
    /// vBuckets whose rows are being removed.
    var removals: [VBucketID] = []
    /// vBuckets to be stored as complete although no change of them is pending.
    var completions: Set<VBucketID> = []
    var timer: LaneTimer?
    var timerAt: UInt64 = .max
    var errors = ScriptErrors()
    var runaway = RunawayRule()
    /// Why the index cannot be used; a sentence for an operator.
    var failure: String?
    var isStopped = false

    /// vBuckets that have something to read, and whether a read is posted.
    struct ReadyFeeds {
        var vBuckets: Set<VBucketID> = []
        var isPosted = false
    }

    /// An index on an open file.
    ///
    /// - Throws: `StorageError` if the stored positions cannot be read, `CollationError` never: a
    ///   collator that cannot be loaded is reported as an unusable file.
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
        trigger = CommitTrigger()
        do throws(CollationError) {
            collation = try Collation()
        } catch {
            throw StorageError(.failed, error.description)
        }
        let stored = try file.readNewest { (reads) throws(StorageError) in try reads.vBuckets() }
        var rows: [VBucketID: (home: VBucketHome, position: IndexPosition)] = [:]
        for row in stored { rows[row.id] = (row.home, row.position) }
        table = IndexTable(stored: rows)
    }

    var now: UInt64 { surroundings.environment.time.monotonicNanoseconds() }

    // MARK: From any thread

    /// Sets the vBuckets that this node serves.
    package func serve(_ vBuckets: Set<VBucketID>) {
        surroundings.lane.post { [self] in
            guard !isStopped else { return }
            served = vBuckets
            perform(table.serve(vBuckets))
            endWaits(Array(waiters.vBuckets.subtracting(vBuckets)))
            advance()
        }
    }

    /// Calls `done` on the index's lane when the index has everything through `vector`.
    package func whenFresh(
        _ vector: [VBucketID: Seqno],
        done: @escaping @Sendable (FreshnessWaiters.Outcome) -> Void
    ) {
        surroundings.lane.post { [self] in
            guard !isStopped, failure == nil else {
                return done(.moved(vector.keys.min() ?? VBucketID(0)))
            }
            guard let number = waiters.add(vector, table) else { return done(.fresh) }
            waiting[number] = done
            advance()
        }
    }

    /// Passes the errors of the index's function to `done`, on the index's lane.
    package func report(_ done: @escaping @Sendable (ScriptErrors) -> Void) {
        surroundings.lane.post { [self] in done(errors) }
    }

    /// Ends the index; its file is closed.
    package func stop() {
        surroundings.lane.post { [self] in
            isStopped = true
            timer?.cancel()
            for feed in feeds.values { feed.feed.close() }
            feeds = [:]
            try? file.close()
        }
    }

    // MARK: Steps

    /// Carries out decisions of the table.
    func perform(_ actions: [IndexTable.Action]) {
        for action in actions {
            switch action {
            case .open(let vBucket, let position): open(vBucket, position)
            case .close(let vBucket):
                feeds.removeValue(forKey: vBucket)?.feed.close()
                completions.remove(vBucket)
            case .remove(let vBucket): removals.append(vBucket)
            case .complete(let vBucket): completions.insert(vBucket)
            case .retry(let vBucket):
                surroundings.lane.post(after: ViewIndex.retryNanoseconds) { [weak self] in
                    guard let self, !isStopped else { return }
                    perform(table.retry(vBucket))
                    advance()
                }
            }
        }
    }

    private func open(_ vBucket: VBucketID, _ position: IndexPosition) {
        let opening = surroundings.changes.openFeed(
            of: vBucket,
            ofBucket: bucket,
            at: position,
            wake: { [weak self] in self?.wake(vBucket) }
        )
        switch opening {
        case .opened(let feed, let high, let uuid):
            var position = position
            position.uuid = uuid
            feedNumbers += 1
            feeds[vBucket] = Feed(feed: feed, read: ReadPosition(position), number: feedNumbers)
            perform(table.opened(vBucket, .opened(high: high, uuid: uuid)))
            wake(vBucket)
        case .rollBack: perform(table.opened(vBucket, .rollBack))
        case .unavailable: perform(table.opened(vBucket, .unavailable))
        }
    }

    /// A feed may have records; called from any thread.
    func wake(_ vBucket: VBucketID) {
        let posts = ready.withLock { ready in
            ready.vBuckets.insert(vBucket)
            guard !ready.isPosted else { return false }
            ready.isPosted = true
            return true
        }
        guard posts else { return }
        surroundings.lane.post { [weak self] in
            guard let self else { return }
            ready.withLock { $0.isPosted = false }
            advance()
        }
    }

    /// Reads, commits if that is due, and sets the timer.
    func advance() {
        guard !isStopped, failure == nil else { return }
        read()
        trigger.isAwaited = !waiters.isEmpty
        if isCommitDue { commit() }
        setTimer()
    }

    private var isCommitDue: Bool {
        !removals.isEmpty || !completions.isEmpty || trigger.isDue(now)
    }

    private func setTimer() {
        guard let due = trigger.dueAt, due < timerAt else { return }
        timer?.cancel()
        timerAt = due
        let now = now
        timer = surroundings.lane.post(after: due > now ? due - now : 0) { [weak self] in
            guard let self else { return }
            timerAt = .max
            advance()
        }
    }

    /// Ends the waits that the change of these vBuckets ends.
    func endWaits(_ vBuckets: [VBucketID]) {
        guard !waiters.isEmpty, !vBuckets.isEmpty else { return }
        for (number, outcome) in waiters.changed(vBuckets, table, isServed: served.contains) {
            waiting.removeValue(forKey: number)?(outcome)
        }
    }

    /// The index is of no use until its file is made anew.
    func fail(_ error: StorageError) {
        failure = error.description
        surroundings.environment.trace.error("views", "Index \(name): \(error.description)")
        for feed in feeds.values { feed.feed.close() }
        feeds = [:]
        for (_, done) in waiting { done(.moved(VBucketID(0))) }
        waiting = [:]
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
