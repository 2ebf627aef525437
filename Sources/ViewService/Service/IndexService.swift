internal import Bytes
package import Indexing
internal import JSON
package import Persistence
package import ScriptProcesses
package import Scripting
package import Seams
internal import Wire

/// The views of a node: runs the indexes that its buckets need, and answers queries of them.
///
/// `reconcile` gets the buckets with their views; `IndexKeeper` opens, closes and removes indexes
/// accordingly, one for each map function of a bucket.
///
/// - All calls may come from any thread, and none waits for the disk.
package final class IndexService: Sendable {
    /// Where the indexes are, and limits of their functions.
    package struct Settings: Sendable {
        /// The node's data directory; the indexes are in its directory `indexes`.
        package let directory: String
        /// Of the processes that run functions.
        package var scripts: ScriptScheduleLimits
        /// Processor time of a call.
        package var mapTimeoutMilliseconds = ScriptLimits.mapTimeoutMilliseconds
        package var reduceTimeoutMilliseconds = ScriptLimits.reduceTimeoutMilliseconds
        package var files = IndexSettings()
        /// Whether functions run although the kernel does not filter the system calls of their processes.
        package var allowsUnfilteredScripts = false
        /// How long the file of an index is kept that no view needs.
        package var graceNanoseconds: UInt64 = 60_000_000_000
        /// How often it is checked whether an index is idle or is to be compacted.
        package var checkNanoseconds: UInt64 = 30_000_000_000
        /// When an index without work closes its file.
        package var rest = RestRule.Limits()
        /// How long an index that new queries do not use any more is open for those that have begun.
        package var retirementNanoseconds: UInt64 = 10_000_000_000

        package init(directory: String, processors: Int) {
            self.directory = directory
            scripts = ScriptScheduleLimits(processors: processors)
        }
    }

    /// The lanes that all indexes share; `IndexLanes` has those where they work.
    struct Lanes: Sendable {
        /// Opens, closes and removes files.
        let files: any Lane
        let checkpoints: any Lane
        let scripts: any Lane
        /// Where queries read.
        let queries: [any Lane]

        /// Threads that read indexes: more would take processors from clients that read documents.
        private static let queriesMax = 4

        init(_ factory: any LaneFactory) {
            files = factory.makeLane("index-files", isPatient: true)
            checkpoints = factory.makeLane("index-sync", isPatient: true)
            scripts = factory.makeLane("scripts", isPatient: true)
            let count = min(max(factory.reactorCount, 1), Lanes.queriesMax)
            queries = (0..<count).map { _ in factory.makeLane("index-reads") }
        }

        var all: [any Lane] { [files, checkpoints, scripts] + queries }
    }

    /// The followed buckets and their reduce functions, for queries.
    struct Followed: Sendable {
        var buckets: [String: ViewedBucket] = [:]
        /// By bucket and slot: the functions of two buckets never run in one process.
        var reduceFunctions: [IndexName: ScriptFunction] = [:]

        /// The function of a slot; nil if no view of the bucket has it.
        func reduceFunction(_ slot: IndexSignature, ofBucket uuid: String) -> ScriptFunction? {
            guard buckets[uuid]?.reductions[slot] != nil else { return nil }
            return reduceFunctions[IndexName(bucket: uuid, signature: slot)]
        }
    }

    /// The argument of the newest `reconcile`; its lock keeps calls in order.
    struct Newest {
        var buckets: [ViewBucket]?
        var terms = IndexTerms()
        /// By bucket; before the first `reconcile`, what an earlier run of the node has stored.
        var successions: [String: ViewSuccession]
        var retired: [Retired] = []
        /// Counts the retired definitions.
        var numbers: UInt64 = 0
        var isStopped = false
    }

    /// A definition that was the previous one of a view, until queries of it have ended.
    struct Retired: Sendable {
        /// The bucket's UUID.
        let bucket: String
        let definition: ViewDefinition
        let number: UInt64
    }

    /// The version of ICU and its data, by which the keys of all indexes are ordered.
    package static var collationVersion: String { Collation.version }

    package let scripts: ScriptPool
    let environment: Environment
    let changes: any DocumentChangePort
    let settings: Settings
    let lanes: Lanes
    let builds = IndexBuilds()
    let resting: RestingIndexes
    let keeper: IndexKeeper
    let responder: QueryResponder
    let followed: Guarded<Followed>
    let newest: Guarded<Newest>
    /// By bucket: the queries of which this node has answered a part.
    let queries = Guarded<[String: UInt64]>([:])

    /// A service without buckets.
    ///
    /// - Throws: `StorageError` if the directory cannot be created, or ICU's collation is missing.
    package init(
        _ settings: Settings,
        environment: Environment,
        changes: any DocumentChangePort
    ) throws(StorageError) {
        do throws(CollationError) {
            _ = try Collation()
        } catch {
            throw StorageError(.failed, error.description)
        }
        let root = settings.directory + "/indexes"
        _ = try IndexDirectory(path: root, disk: environment.disk)
        self.settings = settings
        self.environment = environment
        self.changes = changes
        let lanes = Lanes(environment.lanes)
        self.lanes = lanes
        scripts = ScriptPool(
            environment,
            lane: lanes.scripts,
            category: "views",
            limits: settings.scripts,
            allowsUnfiltered: settings.allowsUnfilteredScripts
        )
        let followed = Guarded(Followed())
        self.followed = followed
        let opening = OpeningHook()
        let resting = RestingIndexes(changes, settings.rest, environment: environment)
        self.resting = resting
        let dependencies = RunningIndex.Dependencies(
            environment: environment,
            changes: changes,
            scripts: scripts,
            checkpoints: lanes.checkpoints,
            collations: CollationPool(),
            builds: builds,
            lanes: IndexLanes(environment.lanes),
            files: settings.files,
            resting: resting,
            opened: { opening.responder?.bucketsChanged() }
        )
        let records = SuccessionFiles(root, environment.disk)
        newest = Guarded(Newest(successions: records.stored))
        keeper = IndexKeeper(
            root,
            settings,
            records: records,
            lane: lanes.files,
            dependencies: dependencies
        )
        responder = QueryResponder(
            QueryResponder.Dependencies(
                environment: environment,
                changes: changes,
                scripts: scripts,
                buckets: ServedBucketList(followed: followed, keeper: keeper)
            ),
            lanes: lanes.queries
        )
        opening.responder = responder
        scheduleChecks()
    }

    // MARK: Life

    /// Closes all indexes, then ends all script processes, then calls `done` from any lane.
    ///
    /// Works that script processes have not answered fail. Afterwards the lanes can be stopped.
    package func stop(done: @escaping @Sendable () -> Void) {
        newest.withLock { $0.isStopped = true }
        responder.stop()
        keeper.stop { [scripts] in scripts.stop(done) }
    }

    /// Stops all lanes.
    ///
    /// Requires that `stop` has called `done`; must not be called on one of the lanes.
    package func stopLanes() {
        for lane in lanes.all { lane.stop() }
    }

    // MARK: Reports

    /// The indexes whose files are open; the other ones rest until they have work.
    package var openIndexCount: Int { resting.openCount }

    /// Passes a report of each index to `done`, sorted by bucket and views, on any lane.
    package func report(_ done: @escaping @Sendable ([IndexReport]) -> Void) {
        let running = keeper.running
        guard !running.isEmpty else { return done([]) }
        let reports = Guarded<[IndexReport]>([])
        for index in running {
            index.report { [self] report in
                let report = complete(report)
                let all = reports.withLock { reports -> [IndexReport]? in
                    reports.append(report)
                    return reports.count == running.count ? reports : nil
                }
                if let all { done(IndexReport.sorted(all)) }
            }
        }
    }

    private func complete(_ report: IndexReport) -> IndexReport {
        var report = report
        let bucket = followed.withLock { $0.buckets[report.bucket] }
        report.bucketName = bucket?.bucket.name ?? ""
        report.views = bucket?.indexes[report.signature]?.views ?? []
        return report
    }
}

extension IndexReport {
    /// Sorts reports by bucket and views.
    ///
    /// Each report's name is made once: a node may have a thousand of them, and measures them every second.
    static func sorted(_ reports: [IndexReport]) -> [IndexReport] {
        let named = reports.map { report in
            let view = report.views.first
            let name = [
                report.bucketName, view?.designDocument ?? "", view?.view ?? "",
                report.signature.description,
            ]
            return (name: name, report: report)
        }
        return named.sorted { $0.name.lexicographicallyPrecedes($1.name) }.map(\.report)
    }
}

/// Regular checks of all indexes: unused memory and compaction.
extension IndexService {
    /// Checks after a while, and again after that, whether an index is idle or is to be compacted.
    func scheduleChecks() {
        lanes.files.post(after: settings.checkNanoseconds) { [weak self] in
            guard let self, !newest.withLock({ $0.isStopped }) else { return }
            // A report may be missing, of an index that is closed meanwhile.
            scheduleChecks()
            freeIdleIndexes()
            resting.returnMemory()
            report { [weak self] in self?.compactNext(of: $0) }
        }
    }

    /// Frees what indexes keep in memory for queries, where there was none for a while.
    private func freeIdleIndexes() {
        let now = environment.time.monotonicNanoseconds()
        for running in keeper.running { running.index?.freeIfIdle(now) }
    }
}

/// Answers to queries, from the indexes of the followed buckets.
extension IndexService {
    /// Answers a query of another node or of this one.
    ///
    /// - Parameters:
    ///   - request: The query.
    ///   - onThisThread: Whether the answer may begin on the calling thread, before this call returns.
    ///   - reply: Called by one thread at a time, in order.
    /// - Returns: The answer's steering: credit for batches, and its end.
    package func respond(
        to request: QueryRequest,
        onThisThread: Bool = false,
        _ reply: @escaping @Sendable (QueryReply) -> Void
    ) -> any QueryCall {
        // A bucket that is not followed has no views, and its count would never be removed.
        let isCheck = request.index.choice.previous == request.index.choice.current
        if !isCheck, bucket(request.bucket) != nil {
            queries.withLock { $0[request.bucket, default: 0] += 1 }
        }
        return responder.respond(to: request, onThisThread: onThisThread, reply)
    }
}

/// The responder that waits for indexes to be opened, which exist before it.
final class OpeningHook: Sendable {
    private struct State {
        weak var responder: QueryResponder?
    }

    private let state = Guarded(State())

    var responder: QueryResponder? {
        get { state.withLock { $0.responder } }
        set { state.withLock { $0.responder = newValue } }
    }
}

/// Serves queries from the followed buckets and the keeper, without a reference to the service.
struct ServedBucketList: ServedBuckets {
    let followed: Guarded<IndexService.Followed>
    let keeper: IndexKeeper

    func state(ofBucket uuid: String) -> ServedVBuckets? {
        followed.withLock { $0.buckets[uuid]?.served }
    }

    func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.openIndex()
    }

    func isWaking(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        keeper[IndexName(bucket: uuid, signature: signature)]?.isResting ?? false
    }

    func needsIndex(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        followed.withLock { $0.buckets[uuid]?.indexes[signature] != nil }
    }

    func obstacle(to signature: IndexSignature, ofBucket uuid: String) -> String? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.obstacle
    }

    func reduction(_ slot: IndexSignature, ofBucket uuid: String) -> QueryReduction? {
        if slot == ServedBucketList.count { return .count }
        if slot == ServedBucketList.numbers { return .numbers }
        return followed.withLock { $0.reduceFunction(slot, ofBucket: uuid) }.map { .custom($0) }
    }

    // MARK: Slots of built-in reductions

    private static let count = slot(.count)
    private static let numbers = slot(.sum)

    private static func slot(_ reduce: ViewDefinition.Reduce) -> IndexSignature? {
        IndexSigning.slotSignature(
            of: ViewDefinition(designDocument: "", view: "", map: "", reduce: reduce)
        )
    }
}
